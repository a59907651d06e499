import * as vscode from "vscode";

/** The interpreter that a Python extension has selected for a resource; every extension is optional. */
export async function selectedInterpreter(resource: vscode.Uri | undefined): Promise<string | undefined> {
  return (await fromEnvironments(resource)) ?? (await fromPythonExtension(resource));
}

interface EnvironmentsApi {
  getEnvironment(scope: vscode.Uri | undefined): Promise<{ execInfo?: { run?: { executable?: string } } } | undefined>;
  onDidChangeEnvironment?: vscode.Event<unknown>;
}

interface PythonApi {
  environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string } | undefined;
    resolveEnvironment(env: { path: string }): Promise<{ executable?: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath?: vscode.Event<unknown>;
  };
}

async function api<T>(id: string): Promise<T | undefined> {
  const extension = vscode.extensions.getExtension<T>(id);
  if (!extension) return undefined;
  try {
    return extension.isActive ? extension.exports : await extension.activate();
  } catch {
    return undefined;
  }
}

async function fromEnvironments(resource: vscode.Uri | undefined): Promise<string | undefined> {
  const envs = await api<EnvironmentsApi>("ms-python.vscode-python-envs");
  try {
    return (await envs?.getEnvironment(resource))?.execInfo?.run?.executable;
  } catch {
    return undefined;
  }
}

async function fromPythonExtension(resource: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = (await api<PythonApi>("ms-python.python"))?.environments;
  const active = environments?.getActiveEnvironmentPath(resource);
  if (!environments || !active) return undefined;
  try {
    return (await environments.resolveEnvironment(active))?.executable?.uri?.fsPath;
  } catch {
    return undefined;
  }
}

/** Calls back when another interpreter is selected. */
export async function watchInterpreter(changed: () => void): Promise<vscode.Disposable> {
  const envs = await api<EnvironmentsApi>("ms-python.vscode-python-envs");
  const python = await api<PythonApi>("ms-python.python");
  const events = [envs?.onDidChangeEnvironment, python?.environments?.onDidChangeActiveEnvironmentPath];
  return vscode.Disposable.from(...events.flatMap((event) => (event ? [event(changed)] : [])));
}
