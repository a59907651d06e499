// Restricted Mode: static checks yes, running tests no; then trust is granted and the same click runs.
import { config, withVSCode } from "./launch.mjs";

await withVSCode(config(), { trust: false, file: "test_flow.py" }, async ({ page, shot, step, lens, toast, openFile, palette }) => {
  const badge = () => page.locator(".statusbar-item", { hasText: "Restricted Mode" });
  await step("restricted", async () => {
    await badge().waitFor({ timeout: 20000 });
    await lens("Run replay-strict").nth(1).click({ timeout: 40000 });
    await toast("trusted workspace").waitFor({ timeout: 8000 });
    await shot("t1-restricted.png");
  });
  await step("diagnostics", async () => {
    await openFile("flow.py");
    await page.waitForSelector(".squiggly-error", { timeout: 20000 });
  });
  await step("grant", async () => {
    await palette("Manage Workspace Trust");
    await page.locator(".workspace-trust-editor .monaco-button", { hasText: /^Trust/ }).first().click({ timeout: 8000 });
    await badge().waitFor({ state: "detached", timeout: 8000 });
  });
  await step("run", async () => {
    await openFile("test_flow.py");
    await lens("Run replay-strict").nth(1).click({ timeout: 30000 });
    await lens("failed: 1 hit, 1 miss").waitFor({ timeout: 30000 });
    await shot("t2-granted.png");
  });
});
