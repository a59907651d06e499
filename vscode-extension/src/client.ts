import { execFile } from "node:child_process";
import { homedir } from "node:os";
import * as vscode from "vscode";
import { LanguageClient, State, Trace, type LanguageClientOptions } from "vscode-languageclient/node";
import { launches, notFound, sameLaunch, type Launch } from "./core/launch";
import { RestartQueue } from "./core/restartQueue";
import { selectedInterpreter } from "./python";
import { launchSettings } from "./settings";
import type { Status } from "./status";

const STOP_MS = 3000;

/** Owns the one language client of the window: starts, restarts and stops it, one at a time. */
export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private launched: Launch | undefined;
  private readonly queue = new RestartQueue(() => this.cycle());
  private readonly started = new vscode.EventEmitter<void>();
  /** Fires when a server is ready, the first time and after each restart. */
  readonly onDidStart = this.started.event;

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly status: Status,
  ) {}

  get ready(): boolean {
    return this.client?.state === State.Running;
  }

  restart(): Promise<void> {
    return this.queue.request();
  }

  /** Restart only if the server would be started in another way now. */
  async restartIfChanged(): Promise<void> {
    if (!sameLaunch(this.launched, await this.choose())) await this.restart();
  }

  /** Send a request; throws when no server runs. */
  async request<T>(method: string, params: unknown, token?: vscode.CancellationToken): Promise<T> {
    if (!this.client) throw new Error("the rulvar language server is not running");
    return token ? this.client.sendRequest<T>(method, params, token) : this.client.sendRequest<T>(method, params);
  }

  command<T>(command: string, argument: object, token?: vscode.CancellationToken): Promise<T> {
    return this.request<T>("workspace/executeCommand", { command, arguments: [argument] }, token);
  }

  async dispose(): Promise<void> {
    await this.stop();
    this.started.dispose();
  }

  private async cycle(): Promise<void> {
    await this.stop();
    this.status.starting();
    try {
      await this.start();
    } catch (error) {
      this.log.error(String(error));
      this.status.failed(error instanceof Error ? error.message : String(error));
    }
  }

  private async stop(): Promise<void> {
    const old = this.client;
    this.client = undefined;
    // a hung server makes this throw "Stopping the server timed out": a new one is started all the same
    await old?.dispose(STOP_MS).catch((error) => this.log.warn(`stopping the server: ${error}`));
  }

  private async start(): Promise<void> {
    const launch = await this.choose();
    this.launched = launch;
    if (!launch) throw new Error(notFound(vscode.workspace.isTrusted));
    this.log.info(`starting ${[launch.command, ...launch.args].join(" ")}`);
    const client = new LanguageClient("rulvar", "rulvar", { command: launch.command, args: [...launch.args] }, this.options());
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Stopped && this.client === client) this.status.failed("the server stopped");
    });
    this.client = client;
    await client.start();
    const trace = vscode.workspace.getConfiguration("rulvar").get<string>("trace.server", "off");
    await client.setTrace(trace === "verbose" ? Trace.Verbose : trace === "messages" ? Trace.Messages : Trace.Off);
    this.status.ready(client.initializeResult?.serverInfo?.version ?? "", launch.command);
    this.started.fire();
  }

  private options(): LanguageClientOptions {
    return {
      // no git:, no notebook cells: a diff would show everything twice
      documentSelector: [
        { language: "python", scheme: "file" },
        { language: "python", scheme: "untitled" },
        { scheme: "file", pattern: "**/*.jsonl" },
      ],
      outputChannel: this.log,
      initializationOptions: { trusted: vscode.workspace.isTrusted, ownsCommands: true },
      initializationFailedHandler: () => false,
      middleware: {
        workspace: {
          configuration: async (params, token, next) => {
            const values = await next(params, token);
            if (!Array.isArray(values) || !vscode.workspace.isTrusted) return values;
            // tests run where the Python extension says, unless the setting says otherwise
            return Promise.all(
              values.map(async (value, index) => {
                if (!value || value.interpreter) return value;
                const scope = params.items[index]?.scopeUri;
                const selected = await selectedInterpreter(scope ? vscode.Uri.parse(scope) : undefined);
                return selected ? { ...value, interpreter: selected } : value;
              }),
            );
          },
        },
      },
    };
  }

  /** The first way to start that works here. */
  private async choose(): Promise<Launch | undefined> {
    const folders = vscode.workspace.workspaceFolders ?? [];
    const trusted = vscode.workspace.isTrusted;
    const candidates = launches({
      ...launchSettings(),
      trusted,
      selected: trusted ? await selectedInterpreter(folders[0]?.uri) : undefined,
      folders: folders.map((folder) => folder.uri.fsPath),
      home: homedir(),
      platform: process.platform,
    });
    if (candidates.length === 1) return candidates[0];
    for (const candidate of candidates) {
      if (await works(candidate)) return candidate;
      this.log.debug(`no rulvar server: ${candidate.command}`);
    }
    return undefined;
  }
}

/** Whether the server could be started this way; asks for its version only. */
function works(launch: Launch): Promise<boolean> {
  const args = launch.args.filter((arg) => arg !== "--stdio");
  return new Promise((resolve) => {
    execFile(launch.command, [...args, "--check"], { timeout: 10_000 }, (error) => resolve(!error));
  });
}
