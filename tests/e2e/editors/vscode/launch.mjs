// Starts code-server (the real VS Code with a node extension host) and headless Chromium, runs one check, and
// takes everything down again. Binds to 127.0.0.1 only; a request to any other host fails the check.
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The driver's configuration: one JSON argument, made by the pytest fixture. */
export const config = () => JSON.parse(process.argv[2]);

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function writeSettings(user, machine, extra) {
  fs.mkdirSync(path.join(user, "User"), { recursive: true });
  fs.mkdirSync(path.join(user, "Machine"), { recursive: true });
  // machine-overridable settings of a remote window count in the Machine file only
  fs.writeFileSync(path.join(user, "Machine", "settings.json"), JSON.stringify(machine));
  fs.writeFileSync(path.join(user, "User", "settings.json"), JSON.stringify({
    "telemetry.telemetryLevel": "off",
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.enableExperiments": false,
    "workbench.tips.enabled": false,
    "workbench.editor.useModal": "off",
    "workbench.colorTheme": "Default Dark Modern",
    "chat.disableAIFeatures": true,
    "extensions.autoCheckUpdates": false,
    "extensions.autoUpdate": false,
    "extensions.ignoreRecommendations": true,
    "editor.inlayHints.enabled": "on",
    "editor.codeLens": true,
    "editor.lightbulb.enabled": "on",
    "editor.minimap.enabled": false,
    "editor.hover.delay": 100,
    "editor.accessibilitySupport": "off",
    "editor.fontFamily": "DejaVu Sans Mono",
    "files.autoSave": "off",
    "files.exclude": { "**/__pycache__": true },
    "git.enabled": false,
    "security.workspace.trust.startupPrompt": "never",
    ...extra,
  }));
}

/**
 * Run `body({page, project, step, shot, ...})` in a window on the project. Prints one JSON object: per step whether it
 * held and what it returned, the times, and which foreign hosts were asked for.
 */
export async function withVSCode(cfg, options, body) {
  const { chromium } = createRequire(path.join(cfg.playwright, "x.js"))("playwright-core");
  const tmp = fs.mkdtempSync(path.join(os.tmpdir(), "rulvar-vscode-"));
  const began = Date.now();
  const result = { ok: {}, ms: {}, foreign: [], console: [] };
  const mark = (name) => { result.ms[name] = Date.now() - began; };
  const user = path.join(tmp, "user");
  const extensions = path.join(tmp, "extensions");
  writeSettings(user, options.machine ?? { "rulvar.interpreter": cfg.python }, options.settings ?? {});
  const env = {
    ...process.env, ...options.env, HOME: tmp, XDG_CONFIG_HOME: path.join(tmp, "cfg"), XDG_DATA_HOME: path.join(tmp, "data"),
    EXTENSIONS_GALLERY: JSON.stringify({ serviceUrl: "", itemUrl: "", resourceUrlTemplate: "", extensionUrlTemplate: "" }),
    PATH: `${path.dirname(cfg.node)}:${process.env.PATH}`,
  };
  for (const name of ["PORT", "PASSWORD", "VSCODE_IPC_HOOK_CLI"]) delete env[name];
  const folders = ["--user-data-dir", user, "--extensions-dir", extensions];
  for (const vsix of options.vsix ?? [cfg.vsix]) {
    execFileSync(cfg.node, [cfg.codeServer, ...folders, "--install-extension", vsix], { env, stdio: "pipe" });
  }
  mark("installed");
  const port = await freePort();
  const args = [cfg.codeServer, ...folders, "--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry",
    "--disable-update-check", "--disable-getting-started-override", "--disable-proxy"];
  if (options.trust) args.push("--disable-workspace-trust");
  fs.mkdirSync(cfg.out, { recursive: true });
  const log = fs.openSync(path.join(tmp, "code-server.log"), "w");
  const server = spawn(cfg.node, args, { env, stdio: ["ignore", log, log], detached: true });
  let browser;
  try {
    await up(port, began);
    mark("up");
    browser = await chromium.launchPersistentContext(path.join(tmp, "chrome"), {
      executablePath: cfg.chromium, headless: true, viewport: options.viewport ?? { width: 1280, height: 800 },
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"],
    });
    const page = browser.pages()[0] ?? await browser.newPage();
    page.on("request", (request) => {
      const host = new URL(request.url()).hostname;
      if (!["127.0.0.1", "localhost", ""].includes(host)) result.foreign.push(host);
    });
    page.on("console", (message) => {
      if (message.type() === "error" && result.console.length < 8) result.console.push(message.text().slice(0, 200));
    });
    const file = `vscode-remote://127.0.0.1:${port}${cfg.project}/${options.file ?? "flow.py"}`;
    const payload = encodeURIComponent(JSON.stringify([["openFile", file]]));
    await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(cfg.project)}&payload=${payload}`);
    await page.waitForSelector(".monaco-workbench", { timeout: 60000 });
    mark("workbench");
    await page.waitForSelector(".monaco-editor .view-line", { timeout: 60000 });
    mark("editor");
    const shot = (name) => page.screenshot({ path: path.join(cfg.out, name) });
    const step = async (name, check) => {
      const start = Date.now();
      try {
        result[name] = await check() ?? true;
        result.ok[name] = true;
      } catch (error) {
        result.ok[name] = false;
        result[name] = String(error).split("\n").slice(0, 3).join(" ");
        await shot(`failed-${name}.png`);
      }
      result.ms[`step ${name}`] = Date.now() - start;
    };
    await body({ page, shot, step, mark, ...hands(page) });
    mark("done");
  } finally {
    await browser?.close();
    for (const signal of ["SIGTERM", "SIGKILL"]) {
      try { process.kill(-server.pid, signal); } catch { /* gone */ }
      await sleep(signal === "SIGTERM" ? 700 : 0);
    }
    fs.rmSync(tmp, { recursive: true, force: true });
  }
  result.foreign = [...new Set(result.foreign)];
  console.log(JSON.stringify(result));
  process.exitCode = Object.values(result.ok).every(Boolean) && !result.foreign.length ? 0 : 1;
}

async function up(port, began) {
  for (;;) {
    try {
      if ((await fetch(`http://127.0.0.1:${port}/healthz`)).ok) return;
    } catch { /* not yet */ }
    if (Date.now() - began > 60000) throw new Error("code-server did not come up");
    await sleep(50);
  }
}

/** What a person does and reads. */
function hands(page) {
  const plain = (text) => text.replace(/\u00a0/g, " ");
  return {
    lines: async (pattern) => (await page.locator(".view-line").allTextContents()).map(plain).filter((text) => pattern.test(text)),
    untilLine: (pattern, want = true, timeout = 15000) => page.waitForFunction(
      ([source, wanted]) => [...document.querySelectorAll(".view-line")]
        .some((line) => new RegExp(source).test(line.textContent.replace(/\u00a0/g, " "))) === wanted,
      [pattern.source, want], { timeout }),
    clickIn: async (text, dx) => {
      const box = await page.locator(".view-line", { hasText: text }).first().boundingBox();
      await page.mouse.click(box.x + dx, box.y + box.height / 2);
    },
    pointAt: async (text, dx) => {
      const box = await page.locator(".view-line", { hasText: text }).first().boundingBox();
      await page.mouse.move(box.x + dx + 40, box.y + box.height / 2);
      await page.mouse.move(box.x + dx, box.y + box.height / 2);
    },
    openFile: async (name) => {
      const tab = page.locator(`.tab[data-resource-name="${name}"]`);
      if (await tab.count()) await tab.first().click();
      else await page.locator(`.explorer-folders-view .monaco-list-row[aria-label^="${name}"]`).first().dblclick({ timeout: 10000 });
      await page.locator(`.tab.active[data-resource-name="${name}"]`).waitFor({ timeout: 10000 });
      await page.mouse.move(900, 600); // away from the tab: its tooltip covers the first lines
    },
    palette: async (command) => {
      await page.keyboard.press("F1");
      await page.waitForSelector(".quick-input-widget input");
      await page.keyboard.type(command);
      await page.locator(".quick-input-list .monaco-list-row", { hasText: command }).first().waitFor({ timeout: 10000 });
      await page.keyboard.press("Enter");
    },
    lens: (text) => page.locator(".codelens-decoration a", { hasText: text }),
    toast: (text) => page.locator(".notifications-toasts", { hasText: text }),
  };
}
