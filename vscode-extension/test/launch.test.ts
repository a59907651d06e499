import assert from "node:assert/strict";
import { test } from "node:test";
import { launches, notFound, sameLaunch, type Sources } from "../src/core/launch";

const base: Sources = {
  trusted: true,
  serverCommand: [],
  interpreter: "",
  selected: undefined,
  folders: ["/w"],
  home: "/home/me",
  platform: "linux",
};
const commands = (from: Partial<Sources>) => launches({ ...base, ...from }).map((one) => one.command);

test("a command of the user's own is used as it is", () => {
  assert.deepEqual(launches({ ...base, serverCommand: ["my", "lsp"] }), [{ command: "my", args: ["lsp"] }]);
});

test("the interpreter setting goes before everything that is found", () => {
  assert.deepEqual(commands({ interpreter: "/py", selected: "/other" }), ["/py"]);
});

test("the selected interpreter goes before the workspace's environment and PATH", () => {
  assert.deepEqual(commands({ selected: "/sel" }), ["/sel", "/w/.venv/bin/python", "/w/venv/bin/python", "rulvar-lsp", "python3"]);
});

test("an untrusted workspace contributes nothing that would be executed", () => {
  assert.deepEqual(commands({ trusted: false, selected: "/w/.venv/bin/python" }), ["rulvar-lsp", "python3"]);
});

test("a module of the workspace cannot stand in for the standard library", () => {
  for (const one of launches(base)) if (one.python) assert.equal(one.args[0], "-P");
});

test("a setting may name the workspace folder and the home folder", () => {
  assert.deepEqual(commands({ interpreter: "${workspaceFolder}/env/bin/python" }), ["/w/env/bin/python"]);
  assert.deepEqual(commands({ interpreter: "~/env/bin/python" }), ["/home/me/env/bin/python"]);
  assert.deepEqual(commands({ serverCommand: ["${workspaceFolder}/env/bin/rulvar-lsp"] }), ["/w/env/bin/rulvar-lsp"]);
});

test("the same interpreter is tried once", () => {
  assert.deepEqual(commands({ selected: "/w/.venv/bin/python" }), ["/w/.venv/bin/python", "/w/venv/bin/python", "rulvar-lsp", "python3"]);
});

test("Windows has its own places", () => {
  assert.deepEqual(commands({ platform: "win32", folders: ["C:\\w"] }), ["C:\\w\\.venv\\Scripts\\python.exe", "C:\\w\\venv\\Scripts\\python.exe", "rulvar-lsp", "python"]);
});

test("launches are compared by command and arguments", () => {
  assert.ok(sameLaunch({ command: "a", args: ["b"] }, { command: "a", args: ["b"], python: "a" }));
  assert.ok(!sameLaunch({ command: "a", args: [] }, undefined));
});

test("where nothing is found the next step is named", () => {
  assert.match(notFound(true), /pip install/);
  assert.match(notFound(false), /trust this workspace/);
});
