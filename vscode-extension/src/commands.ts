import * as vscode from "vscode";
import type { Server } from "./client";
import { showMiss, type Place } from "./miss";
import type { Tests } from "./testing";

interface Target {
  readonly uri?: string;
  readonly path?: string;
  readonly test?: string;
  readonly line?: number;
}

function uriOf(target: Target): vscode.Uri {
  return target.uri !== undefined ? vscode.Uri.parse(target.uri) : vscode.Uri.file(target.path ?? "");
}

/** Commands of the palette, and those that lenses and code actions carry. */
export function registerCommands(server: Server, tests: Tests, log: vscode.LogOutputChannel): vscode.Disposable[] {
  const register = vscode.commands.registerCommand;
  const forward = (name: string) => register(name, (argument: object) => server.command(name, argument ?? {}));
  return [
    register("rulvar.restart", () => server.restart()),
    register("rulvar.showLogs", () => log.show()),
    register("rulvar.cancelRun", () => server.command("rulvar.cancelRun", {})),
    register("rulvar.replayStrict", (target: Target) => tests.runTest(uriOf(target), target.test)),
    register("rulvar.replayRecorded", async (place: object) => {
      const found = await server.request<Target[]>("rulvar/recordedBy", place);
      await tests.runTests(found.map((target) => ({ uri: uriOf(target), name: target.test })));
    }),
    register("rulvar.openFile", async (target: Target) => {
      const line = Math.max(0, (target.line ?? 1) - 1);
      await vscode.window.showTextDocument(uriOf(target), { selection: new vscode.Range(line, 0, line, 0) });
    }),
    register("rulvar.runTestAtCursor", async () => {
      const editor = vscode.window.activeTextEditor;
      if (!editor) return;
      const name = await tests.testAt(editor.document, editor.selection.active.line);
      if (name !== undefined) await tests.runTest(editor.document.uri, name);
      else void vscode.window.showInformationMessage("rulvar: there is no test at the cursor.");
    }),
    register("rulvar.runFile", async () => {
      const editor = vscode.window.activeTextEditor;
      if (editor) await tests.runTest(editor.document.uri, undefined);
    }),
    register("rulvar.runWorkspace", async () => {
      if (!vscode.workspace.isTrusted) return; // hidden then; a key binding may call it all the same
      await vscode.workspace.saveAll();
      for (const folder of vscode.workspace.workspaceFolders ?? []) {
        await server.command("rulvar.replayStrict", { uri: folder.uri.toString() });
      }
    }),
    register("rulvar.explainMiss", (place: Place) => showMiss(server, place)),
    forward("rulvar.record"),
    forward("rulvar.showResult"),
    forward("rulvar.showDiagram"),
  ];
}
