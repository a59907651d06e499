import * as vscode from "vscode";

/** Settings that decide how the server is started; a change of one of them restarts it. */
export const RESTART_SETTINGS = ["rulvar.interpreter", "rulvar.serverCommand"] as const;

export interface LaunchSettings {
  readonly interpreter: string;
  readonly serverCommand: readonly string[];
}

export function launchSettings(): LaunchSettings {
  const config = vscode.workspace.getConfiguration("rulvar");
  return {
    interpreter: config.get<string>("interpreter", ""),
    serverCommand: config.get<string[]>("serverCommand", []),
  };
}
