// What a person sees and does: squiggle, light bulb, quick fix, lens, run, hints, miss, hover, Test Explorer.
import { config, sleep, withVSCode } from "./launch.mjs";

await withVSCode(config(), { trust: true }, async ({ page, shot, step, lines, untilLine, clickIn, pointAt, openFile, lens }) => {
  await step("squiggle", () => page.waitForSelector(".squiggly-error", { timeout: 40000 }).then(() => true));
  await step("status", async () => {
    await page.locator(".statusbar-item", { has: page.locator("[class*=codicon-bracket]") }).first().waitFor({ timeout: 5000 });
    return true;
  });
  await step("lightbulb", async () => {
    await clickIn("began = ", 230);
    await page.waitForSelector("[class*=lightbulb], [class*=light-bulb]", { timeout: 10000 });
  });
  await shot("1-unstable.png");
  await step("quickfix", async () => {
    // the workbench drops what it has asked for when one more provider comes up meanwhile: a person asks again
    const item = page.locator(".action-widget .action", { hasText: "ctx.now()" }).first();
    for (let left = 4; ; left--) {
      await page.keyboard.press("Control+.");
      const shown = await item.waitFor({ timeout: 3000 }).then(() => true, () => false);
      if (shown) break;
      if (left === 0) throw new Error("no quick fix for datetime.now()");
      await page.keyboard.press("Escape");
    }
    await shot("2-quickfix.png");
    await item.click();
    await untilLine(/ctx\.now\(\)/);
    await page.waitForSelector(".squiggly-error", { state: "detached", timeout: 8000 });
    await page.keyboard.press("Control+s");
    return lines(/ctx\.now/);
  });
  await step("lens", async () => {
    await openFile("test_flow.py");
    await lens("Run replay-strict").nth(1).waitFor({ timeout: 20000 });
    return lens("Run replay-strict").allTextContents();
  });
  await step("run_lens", async () => {
    await lens("Run replay-strict").nth(1).click();
    await lens("failed: 1 hit, 1 miss").waitFor({ timeout: 30000 });
    await page.waitForSelector(".codicon-testing-failed-icon", { timeout: 10000 });
  });
  await sleep(500);
  await shot("3-run.png");
  await step("hints", async () => {
    await page.keyboard.press("Escape");
    await openFile("flow.py");
    await untilLine(/hit 6845ea #0/);
    await untilLine(/miss 2eaccc/);
    return lines(/hit 6845ea|miss 2eaccc/);
  });
  await step("miss_squiggle", () => page.waitForSelector(".squiggly-error", { timeout: 10000 }).then(() => true));
  await step("hover", async () => {
    await pointAt("Draft a short answer", 180);
    await page.waitForFunction(
      () => /Draft an answer to a bug ticket/.test(document.querySelector(".monaco-hover:not(.hidden)")?.textContent ?? ""),
      null, { timeout: 10000 });
  });
  await sleep(500);
  await shot("4-miss.png");
  await step("stale", async () => {
    await page.keyboard.press("Escape");
    await clickIn("Draft a short answer", 180);
    await page.keyboard.type("very ");
    await untilLine(/stale: miss 2eaccc/);
    return lines(/stale/);
  });
  await step("action", async () => { // the code action of kind `test` is found under the light bulb of a test
    await openFile("test_flow.py");
    await clickIn("def test_recorded", 60);
    await page.keyboard.press("Control+.");
    await page.locator(".action-widget .action", { hasText: "Run replay-strict on test_recorded" }).first().click({ timeout: 8000 });
    await lens("passed: 1 hit").waitFor({ timeout: 30000 });
  });
  await step("gutter", async () => {
    await page.waitForSelector(".codicon-testing-passed-icon", { timeout: 20000 });
  });
  await shot("5-tests.png");
});
