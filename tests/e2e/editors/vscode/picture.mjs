// Takes the picture of the README: an unstable line, the rows that served, a miss explained. See picture.py.
import { config, sleep, withVSCode } from "./launch.mjs";

const settings = {
  "editor.fontSize": 13, "editor.hover.above": false, "editor.stickyScroll.enabled": false,
  "workbench.activityBar.location": "hidden", "editor.matchBrackets": "never", "editor.occurrencesHighlight": "off",
};
const options = { trust: true, file: "triage.py", settings };
await withVSCode(config(), options, async ({ page, shot, step, untilLine, pointAt }) => {
  await page.setViewportSize({ width: 1360, height: 760 });
  await page.keyboard.press("Control+b");
  await step("jump", async () => {
    await page.keyboard.press("Control+g");
    await page.keyboard.type("62");
    await page.keyboard.press("Enter");
    await untilLine(/miss 9ec77f/);
  });
  await step("open", () => page.waitForSelector(".squiggly-error", { timeout: 40000 }).then(() => true));
  await step("hover", async () => {
    await pointAt("Write warmly", 120);
    await page.waitForFunction(
      () => /Write to the reporter/.test(document.querySelector(".monaco-hover:not(.hidden)")?.textContent ?? ""),
      null, { timeout: 10000 });
  });
  await sleep(600);
  await shot("editor-vscode.png");
});
