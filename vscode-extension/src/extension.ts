import * as vscode from "vscode";
import { Server } from "./client";
import { registerCommands } from "./commands";
import { MissDocuments } from "./miss";
import { watchInterpreter } from "./python";
import { RESTART_SETTINGS } from "./settings";
import { Status } from "./status";
import { Tests } from "./testing";

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("rulvar", { log: true });
  const status = new Status();
  server = new Server(log, status);
  const running = server;
  const tests = new Tests(running, log);
  context.subscriptions.push(
    log,
    status,
    tests,
    new MissDocuments(),
    ...registerCommands(running, tests, log),
    vscode.workspace.onDidGrantWorkspaceTrust(() => running.restart()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (RESTART_SETTINGS.some((name) => event.affectsConfiguration(name))) void running.restart();
    }),
  );
  void watchInterpreter(() => void running.restartIfChanged()).then((watch) => context.subscriptions.push(watch));
  await running.restart();
}

export async function deactivate(): Promise<void> {
  await server?.dispose();
}
