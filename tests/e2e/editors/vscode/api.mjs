// The probe extension's findings, made through the `vscode` API inside the real extension host.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { config, sleep, withVSCode } from "./launch.mjs";

const cfg = config();
const out = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "rulvar-probe-")), "out.json");
await withVSCode(cfg, { trust: true, vsix: [cfg.vsix, cfg.probe], env: { PROBE_OUT: out } }, async ({ step }) => {
  await step("probe", async () => {
    for (let i = 0; i < 1800 && !fs.existsSync(out); i++) await sleep(50);
    const seen = JSON.parse(fs.readFileSync(out, "utf8"));
    if (!seen.ok) throw new Error(seen.error.slice(0, 600));
    return seen;
  });
});
fs.rmSync(path.dirname(out), { recursive: true, force: true });
