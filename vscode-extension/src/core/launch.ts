import * as path from "node:path";

/** What is known about where a server could come from. */
export interface Sources {
  readonly trusted: boolean;
  /** `rulvar.serverCommand` */
  readonly serverCommand: readonly string[];
  /** `rulvar.interpreter` */
  readonly interpreter: string;
  /** the interpreter that a Python extension has selected */
  readonly selected: string | undefined;
  readonly folders: readonly string[];
  readonly home: string;
  readonly platform: NodeJS.Platform;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** Python whose packages are meant, for messages; undefined for a command of the user's own. */
  readonly python?: string;
}

/** `-P`: a random.py or json.py of the workspace must not stand in for the standard library. */
const MODULE = ["-P", "-m", "rulvar_lsp"] as const;

/**
 * Ways to start the server, best first. An untrusted workspace contributes nothing: neither its `.venv`, nor the
 * interpreter that an extension selected for it (which may be that very `.venv`). Settings are safe in both cases, since VS Code
 * ignores the workspace's values of restricted settings.
 */
export function launches(from: Sources): Launch[] {
  const [command, ...args] = from.serverCommand.map((word) => withFolder(word, from));
  if (command) return [{ command, args }];
  if (from.interpreter) return [python(withFolder(from.interpreter, from))];
  const found: Launch[] = [];
  if (from.trusted) {
    if (from.selected) found.push(python(from.selected));
    for (const folder of from.folders) {
      for (const name of [".venv", "venv"]) found.push(python(venvPython(folder, name, from.platform)));
    }
  }
  found.push({ command: "rulvar-lsp", args: ["--stdio"] });
  found.push(python(from.platform === "win32" ? "python" : "python3"));
  const seen = new Set<string>();
  return found.filter((one) => !seen.has(one.command) && seen.add(one.command));
}

/** VS Code leaves `${workspaceFolder}`, which people know from its other settings, as it stands; and `~`. */
function withFolder(value: string, from: Sources): string {
  const folder = from.folders[0];
  const full = folder === undefined ? value : value.replaceAll("${workspaceFolder}", folder);
  return full.startsWith("~/") ? path.posix.join(from.home, full.slice(2)) : full;
}

function python(interpreter: string): Launch {
  return { command: interpreter, args: [...MODULE], python: interpreter };
}

function venvPython(folder: string, name: string, platform: NodeJS.Platform): string {
  return platform === "win32"
    ? path.win32.join(folder, name, "Scripts", "python.exe")
    : path.posix.join(folder, name, "bin", "python");
}

/** What to say when no way to start works. */
export function notFound(trusted: boolean): string {
  return trusted
    ? 'no Python with rulvar was found: pip install "rulvar[lsp]", or set rulvar.interpreter'
    : "trust this workspace to use its environment; none outside of it has rulvar";
}

export function sameLaunch(a: Launch | undefined, b: Launch | undefined): boolean {
  return a?.command === b?.command && JSON.stringify(a?.args) === JSON.stringify(b?.args);
}
