import * as vscode from "vscode";
import type { Server } from "./client";
import { terminalText, verdict, type RunResult } from "./core/results";

interface Found {
  readonly name: string;
  readonly range: { start: { line: number; character: number }; end: { line: number; character: number } };
}

const DISCOVER_MS = 300;

/** The tests of open files in the Test Explorer, with a "Replay strict" run profile. */
export class Tests implements vscode.Disposable {
  private readonly controller = vscode.tests.createTestController("rulvar", "rulvar: replay strict");
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private readonly names = new WeakMap<vscode.TestItem, string>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly server: Server,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.controller.createRunProfile(
      "Replay strict",
      vscode.TestRunProfileKind.Run,
      (request, token) => this.run(request, token),
      false,
    );
    this.controller.refreshHandler = () => this.discoverAll();
    this.subscriptions = [
      this.controller,
      server.onDidStart(() => this.discoverAll()),
      vscode.workspace.onDidOpenTextDocument((document) => this.discoverSoon(document)),
      vscode.workspace.onDidChangeTextDocument((event) => this.discoverSoon(event.document)),
      vscode.workspace.onDidDeleteFiles((event) => event.files.forEach((uri) => this.controller.items.delete(uri.toString()))),
    ];
  }

  dispose(): void {
    this.timers.forEach((timer) => clearTimeout(timer));
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  /** Run one test, or with no name the whole file, the way the Test Explorer does. */
  runTest(uri: vscode.Uri, name: string | undefined): Promise<void> {
    return this.runTests([{ uri, name }]);
  }

  async runTests(targets: readonly { uri: vscode.Uri; name: string | undefined }[]): Promise<void> {
    await vscode.workspace.saveAll(false);
    const items: vscode.TestItem[] = [];
    for (const { uri, name } of targets) {
      await this.discover(await vscode.workspace.openTextDocument(uri));
      const file = this.controller.items.get(uri.toString());
      const item = name === undefined ? file : file?.children.get(`${uri}::${name}`);
      if (item) items.push(item);
      else void vscode.window.showWarningMessage(`rulvar: ${name ?? uri.fsPath} is not a test that pytest would collect.`);
    }
    if (items.length) await this.run(new vscode.TestRunRequest(items), new vscode.CancellationTokenSource().token);
  }

  /** The test around a line of a file. */
  async testAt(document: vscode.TextDocument, line: number): Promise<string | undefined> {
    const found = await this.found(document);
    return found.filter((test) => test.range.start.line <= line).at(-1)?.name;
  }

  private discoverAll(): void {
    vscode.workspace.textDocuments.forEach((document) => this.discoverSoon(document));
  }

  private discoverSoon(document: vscode.TextDocument): void {
    if (document.languageId !== "python" || document.uri.scheme !== "file") return;
    const key = document.uri.toString();
    clearTimeout(this.timers.get(key));
    this.timers.set(key, setTimeout(() => {
      this.timers.delete(key);
      void this.discover(document);
    }, DISCOVER_MS));
  }

  private async found(document: vscode.TextDocument): Promise<Found[]> {
    if (!this.server.ready || document.isClosed) return [];
    try {
      return await this.server.request<Found[]>("rulvar/tests", { textDocument: { uri: document.uri.toString() } });
    } catch (error) {
      this.log.debug(`discovery: ${error}`);
      return [];
    }
  }

  private async discover(document: vscode.TextDocument): Promise<void> {
    const { uri } = document;
    const found = await this.found(document);
    if (!found.length) {
      this.controller.items.delete(uri.toString());
      return;
    }
    let file = this.controller.items.get(uri.toString());
    if (!file) {
      file = this.controller.createTestItem(uri.toString(), vscode.workspace.asRelativePath(uri), uri);
      this.controller.items.add(file);
    }
    file.children.replace(
      found.map((test) => {
        const item = file.children.get(`${uri}::${test.name}`) ?? this.controller.createTestItem(`${uri}::${test.name}`, test.name, uri);
        const { start, end } = test.range;
        item.range = new vscode.Range(start.line, start.character, end.line, end.character);
        this.names.set(item, test.name);
        return item;
      }),
    );
  }

  private async run(request: vscode.TestRunRequest, token: vscode.CancellationToken): Promise<void> {
    const run = this.controller.createTestRun(request);
    const chosen: vscode.TestItem[] = [...(request.include ?? [])];
    if (!request.include) this.controller.items.forEach((item) => chosen.push(item));
    const excluded = new Set(request.exclude);
    try {
      for (const item of chosen) {
        if (excluded.has(item)) continue;
        const leaves = this.leaves(item).filter((leaf) => !excluded.has(leaf));
        if (token.isCancellationRequested || run.token.isCancellationRequested) leaves.forEach((leaf) => run.skipped(leaf));
        else await this.runItem(run, item, leaves, token);
      }
    } finally {
      run.end();
    }
  }

  private leaves(item: vscode.TestItem): vscode.TestItem[] {
    const children: vscode.TestItem[] = [];
    item.children.forEach((child) => children.push(child));
    return children.length ? children : [item];
  }

  private async runItem(run: vscode.TestRun, item: vscode.TestItem, leaves: vscode.TestItem[], token: vscode.CancellationToken): Promise<void> {
    if (!vscode.workspace.isTrusted) {
      const refusal = new vscode.TestMessage("Running tests needs a trusted workspace.");
      leaves.forEach((leaf) => run.errored(leaf, refusal));
      void vscode.window.showWarningMessage("rulvar: running tests needs a trusted workspace.");
      return;
    }
    leaves.forEach((leaf) => run.started(leaf));
    const source = new vscode.CancellationTokenSource();
    const stops = [token, run.token].map((one) => one.onCancellationRequested(() => source.cancel()));
    const began = Date.now();
    try {
      const test = this.names.get(item);
      const argument = { uri: item.uri?.toString(), test, quiet: true };
      const result = await this.server.command<RunResult>("rulvar.replayStrict", argument, source.token);
      if (result.output) run.appendOutput(terminalText(result.output), undefined, item);
      leaves.forEach((leaf) => this.report(run, leaf, result, Date.now() - began));
    } catch (error) {
      const message = new vscode.TestMessage(error instanceof Error ? error.message : String(error));
      leaves.forEach((leaf) => (source.token.isCancellationRequested ? run.skipped(leaf) : run.errored(leaf, message)));
    } finally {
      stops.forEach((stop) => stop.dispose());
    }
  }

  private report(run: vscode.TestRun, leaf: vscode.TestItem, result: RunResult, elapsed: number): void {
    const name = this.names.get(leaf) ?? leaf.label;
    const own = result.tests.filter((test) => test.name.split("[")[0] === name);
    const duration = own.reduce((sum, test) => sum + (test.durationMs ?? 0), 0) || elapsed;
    const said = verdict(result, name);
    if (said.kind === "passed") run.passed(leaf, duration);
    else if (said.kind === "failed") run.failed(leaf, this.messages(leaf, said.text, own), duration);
    else if (said.kind === "errored") run.errored(leaf, this.messages(leaf, said.text, own), duration);
    else run.skipped(leaf);
  }

  private messages(leaf: vscode.TestItem, text: string, own: RunResult["tests"]): vscode.TestMessage[] {
    const head = new vscode.TestMessage(text);
    if (leaf.uri && leaf.range) head.location = new vscode.Location(leaf.uri, leaf.range);
    // plain text: beside the call a diff would read as "recorded != actual"; the sides have a view of their own
    const misses = own.flatMap((test) => test.misses).map((miss) => {
      const message = new vscode.TestMessage(miss.message);
      message.location = new vscode.Location(vscode.Uri.parse(miss.uri), new vscode.Position(miss.line, miss.character));
      return message;
    });
    return [head, ...misses];
  }
}
