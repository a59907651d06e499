import * as vscode from "vscode";
import type { Server } from "./client";

export interface Place {
  readonly uri: string;
  readonly line: number;
  readonly column: number;
}

interface Sides {
  readonly title: string;
  readonly recorded: string;
  readonly actual: string;
}

const SCHEME = "rulvar-miss";

/** Read-only documents whose text stands in their own URI: both sides of a miss. */
export class MissDocuments implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);

  provideTextDocumentContent(uri: vscode.Uri): string {
    return uri.query;
  }

  dispose(): void {
    this.registration.dispose();
  }
}

/** Open the nearest recorded request and the one that missed in a diff editor. */
export async function showMiss(server: Server, place: Place): Promise<void> {
  const sides = await server.request<Sides | null>("rulvar/nearest", place);
  if (!sides) {
    await server.command("rulvar.explainMiss", place);
    return;
  }
  const document = (name: string, text: string) => vscode.Uri.from({ scheme: SCHEME, path: `/${name}`, query: text });
  await vscode.commands.executeCommand(
    "vscode.diff",
    document("recorded.txt", sides.recorded),
    document("actual.txt", sides.actual),
    `Nearest ${sides.title}`,
  );
}
