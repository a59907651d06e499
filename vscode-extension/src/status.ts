import * as vscode from "vscode";

/** The entry in the language status of Python files. */
export class Status implements vscode.Disposable {
  private readonly item = vscode.languages.createLanguageStatusItem("rulvar.status", { language: "python" });

  constructor() {
    this.item.name = "rulvar";
    this.starting();
  }

  starting(): void {
    this.show("rulvar: starting", "", vscode.LanguageStatusSeverity.Information, true);
  }

  ready(version: string, command: string): void {
    const trust = vscode.workspace.isTrusted ? "" : " (not trusted: running tests is off)";
    this.show("rulvar: ready", `${version} ${command}${trust}`, vscode.LanguageStatusSeverity.Information, false);
  }

  failed(reason: string): void {
    this.show("rulvar: not running", reason, vscode.LanguageStatusSeverity.Error, false);
  }

  dispose(): void {
    this.item.dispose();
  }

  private show(text: string, detail: string, severity: vscode.LanguageStatusSeverity, busy: boolean): void {
    this.item.text = text;
    this.item.detail = detail;
    this.item.severity = severity;
    this.item.busy = busy;
    const failed = severity === vscode.LanguageStatusSeverity.Error;
    if (failed && !vscode.workspace.isTrusted) {
      this.item.command = { title: "Manage Trust", command: "workbench.trust.manage" };
    } else {
      this.item.command = failed
        ? { title: "Show Log", command: "rulvar.showLogs" }
        : { title: "Restart", command: "rulvar.restart" };
    }
  }
}
