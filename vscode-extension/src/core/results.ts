/** What the server's `rulvar.replayStrict` gives back, and how a test view shows it. */

export interface Miss {
  readonly uri: string;
  readonly line: number;
  readonly character: number;
  readonly message: string;
}

export interface TestResult {
  readonly name: string;
  readonly outcome: "passed" | "failed" | "error" | "skipped";
  readonly message: string | null;
  readonly durationMs: number | null;
  readonly calls: string;
  readonly misses: readonly Miss[];
}

export interface RunResult {
  readonly ok: boolean;
  readonly status: "passed" | "failed" | "cancelled" | "timeout" | "error" | "running";
  readonly summary: string;
  readonly output?: string;
  readonly tests: readonly TestResult[];
}

export type Verdict =
  | { readonly kind: "passed" | "skipped" | "cancelled" }
  | { readonly kind: "failed" | "errored"; readonly text: string };

/** The result of `name` in a run; parametrized variants are taken together. */
export function verdict(run: RunResult, name: string): Verdict {
  if (run.status === "cancelled") return { kind: "cancelled" };
  const own = run.tests.filter((t) => t.name === name || t.name.split("[")[0] === name);
  const bad = own.filter((t) => t.outcome === "failed" || t.outcome === "error");
  if (bad.length) {
    const text = bad.map((t) => `${t.name}: ${t.message ?? t.outcome}${t.calls ? ` (${t.calls})` : ""}`).join("\n");
    return { kind: bad.some((t) => t.outcome === "failed") ? "failed" : "errored", text };
  }
  if (own.length) return { kind: own.every((t) => t.outcome === "skipped") ? "skipped" : "passed" };
  if (run.status === "passed") return { kind: "passed" };
  return { kind: run.status === "failed" ? "failed" : "errored", text: run.summary };
}

/** A terminal wants CR LF. */
export function terminalText(text: string): string {
  return text.replace(/\r?\n/g, "\r\n") + "\r\n";
}
