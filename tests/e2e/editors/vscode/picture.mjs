// The picture of the README: the example project after one prompt was edited, and a clock that crept in.
import { config, sleep, withVSCode } from "./launch.mjs";

const settings = {
  "editor.hover.above": false,
  "editor.fontSize": 13,
  "workbench.activityBar.location": "hidden",
  "explorer.compactFolders": false,
  "editor.stickyScroll.enabled": false,
};
await withVSCode(config(), { trust: true, settings, file: "test_triage.py", viewport: { width: 1240, height: 760 } },
  async ({ page, shot, step, lens, openFile, untilLine, pointAt, palette }) => {
    const goTo = async (line) => {
      await page.keyboard.press("Control+g");
      await page.waitForSelector(".quick-input-widget input");
      await page.keyboard.type(String(line));
      await page.keyboard.press("Enter");
    };
    await step("run", async () => {
      await lens("Run replay-strict").first().waitFor({ timeout: 40000 });
      await goTo(42);
      await palette("rulvar: Run Replay-Strict on Current Test");
      await lens("failed:").waitFor({ timeout: 40000 });
    });
    await step("explain", async () => {
      await openFile("triage.py");
      await page.keyboard.press("Control+b");
      await page.keyboard.press("Control+Home");
      await goTo(66);
      await untilLine(/miss [0-9a-f]{6}/);
      await untilLine(/hit [0-9a-f]{6} #0/);
      await sleep(500);
      await pointAt("reply = await ctx.agent", 180);
      await page.waitForFunction(
        () => /nearest is row/.test(document.querySelector(".monaco-hover:not(.hidden)")?.textContent ?? ""), null, { timeout: 10000 });
      await page.waitForSelector(".squiggly-error", { timeout: 10000 });
      await sleep(700);
    });
    await shot("picture.png");
  });
