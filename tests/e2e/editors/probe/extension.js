// Asserts through the vscode API what the page cannot show, and writes one JSON file that the driver waits for.
const fs = require("fs");
const vscode = require("vscode");

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, check, ms = 20000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timeout: ${what}`);
    await sleep(50);
  }
}

const codes = (uri) => vscode.languages.getDiagnostics(uri).filter((d) => d.source === "rulvar").map((d) => d.code?.value ?? d.code).sort();
const execute = vscode.commands.executeCommand;

async function probe() {
  const seen = { ok: true };
  const extension = vscode.extensions.getExtension("rulvar.rulvar");
  const [flow] = await until("flow.py", async () => { const f = await vscode.workspace.findFiles("flow.py"); return f.length && f; });
  const tests = vscode.Uri.joinPath(flow, "..", "test_flow.py");
  const document = await vscode.workspace.openTextDocument(flow);
  await vscode.window.showTextDocument(document);
  await until("activation", () => extension.isActive);
  await until("diagnostics", () => codes(flow).includes("RLV101"));
  const clock = vscode.languages.getDiagnostics(flow).find((d) => (d.code?.value ?? d.code) === "RLV101");
  seen.clock = [clock.range.start.line, clock.range.start.character, document.getText(clock.range)];
  seen.href = String(clock.code.target ?? "");
  // the workbench drops what it has asked for when one more provider comes up meanwhile: ask again
  const offered = (what, kind) => until(what, async () => {
    const found = await execute("vscode.executeCodeActionProvider", flow, clock.range, kind, 10);
    return found.length && found;
  });
  const actions = await offered("quick fixes", undefined);
  seen.actions = actions.map((a) => [a.kind?.value, a.isPreferred === true]);
  const fixAll = await offered("fix all", "source.fixAll");
  seen.fixAll = fixAll.map((a) => [a.kind.value, a.edit?.size ?? 0]);

  await vscode.workspace.openTextDocument(tests);
  seen.lenses = (await until("lenses", async () => {
    const lenses = await execute("vscode.executeCodeLensProvider", tests, 10);
    return lenses.length && lenses;
  })).map((lens) => lens.command.title);
  await execute("rulvar.replayStrict", { uri: tests.toString(), test: "test_edited" });
  const hints = () => execute("vscode.executeInlayHintProvider", flow, new vscode.Range(0, 0, 99, 0));
  seen.hints = (await until("hints", async () => { const h = await hints(); return h.length === 2 && h; })).map((h) => h.label);
  await until("miss", () => codes(flow).includes("replay-miss"));
  const miss = vscode.languages.getDiagnostics(flow).find((d) => (d.code?.value ?? d.code) === "replay-miss");
  seen.related = miss.relatedInformation.map((r) => [r.location.uri.path.split("/").pop(), r.location.range.start.line, r.message]);
  seen.definition = (await execute("vscode.executeDefinitionProvider", flow, new vscode.Position(8, 30)))
    .map((l) => [(l.uri ?? l.targetUri).path.split("/").pop(), (l.range ?? l.targetRange).start.line]);
  await execute("rulvar.openFile", { path: vscode.Uri.joinPath(flow, "..", "cassettes", "triage.jsonl").fsPath, line: 3 });
  seen.opened = [vscode.window.activeTextEditor.document.uri.path.split("/").pop(), vscode.window.activeTextEditor.selection.active.line];

  // a miss in a diff editor; a workflow runs the tests that went through it; a cassette has findings of its own
  await execute("rulvar.explainMiss", { uri: flow.toString(), line: 9, column: 20 });
  const tab = () => vscode.window.tabGroups.activeTabGroup.activeTab;
  await until("diff editor", () => tab()?.input instanceof vscode.TabInputTextDiff);
  seen.diff = [tab().label, (await vscode.workspace.openTextDocument(tab().input.modified)).getText()];
  const workflow = await until("workflow lens", async () =>
    (await execute("vscode.executeCodeLensProvider", flow, 10)).find((lens) => /1 hit, 1 miss/.test(lens.command?.title ?? "")));
  seen.workflow = workflow.command.title;
  await execute(workflow.command.command, ...workflow.command.arguments);
  const tape = vscode.Uri.joinPath(flow, "..", "cassettes", "bad.jsonl");
  const [header] = fs.readFileSync(vscode.Uri.joinPath(flow, "..", "cassettes", "triage.jsonl").fsPath, "utf8").split("\n");
  fs.writeFileSync(tape.fsPath, `${header}\n{"adapterId":3}\n`);
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(tape));
  await until("cassette findings", () => codes(tape).length);
  seen.cassette = codes(tape);

  // what calls will be served, before anything of this file has run; recording where it is trusted
  const folder = (name) => vscode.Uri.joinPath(flow, "..", name);
  await vscode.workspace.openTextDocument(folder("static.py"));
  const expected = () => execute("vscode.executeInlayHintProvider", folder("static.py"), new vscode.Range(0, 0, 99, 0));
  seen.forecast = (await until("forecast", async () => { const h = await expected(); return h.length === 2 && h; })).map((h) => h.label);
  await vscode.workspace.openTextDocument(folder("test_static.py"));
  seen.record = (await until("record lens", async () =>
    (await execute("vscode.executeCodeLensProvider", folder("test_static.py"), 10)).find((lens) => lens.command?.title === "Record"))).command.command;

  // an unsaved buffer is checked; a notebook cell and a git: document are left alone
  const untitled = await vscode.workspace.openTextDocument({ language: "python", content: document.getText() });
  await until("untitled", () => codes(untitled.uri).length);
  const notebook = await vscode.workspace.openNotebookDocument("jupyter-notebook", new vscode.NotebookData([
    new vscode.NotebookCellData(vscode.NotebookCellKind.Code, document.getText(), "python")]));
  await vscode.window.showNotebookDocument(notebook);
  await sleep(800);
  seen.notebook = codes(notebook.cellAt(0).document.uri);

  // three restarts at once leave one working server
  await Promise.all([1, 2, 3].map(() => execute("rulvar.restart")));
  await vscode.window.showTextDocument(document);
  const edit = new vscode.WorkspaceEdit();
  edit.insert(flow, new vscode.Position(8, 0), "    later = datetime.now(UTC)\n");
  await vscode.workspace.applyEdit(edit);
  await until("diagnostics after restart", () => codes(flow).filter((code) => code === "RLV101").length === 2);
  seen.afterRestart = codes(flow);
  // settings count at once
  await vscode.workspace.getConfiguration("rulvar", flow).update("diagnostics", false, vscode.ConfigurationTarget.Workspace);
  await until("diagnostics off", () => codes(flow).length === 0);
  return seen;
}

exports.activate = async () => {
  let seen;
  try {
    seen = await probe();
  } catch (error) {
    seen = { ok: false, error: String((error && error.stack) || error) };
  }
  fs.writeFileSync(`${process.env.PROBE_OUT}.new`, JSON.stringify(seen));
  fs.renameSync(`${process.env.PROBE_OUT}.new`, process.env.PROBE_OUT);
};
