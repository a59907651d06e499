"""Latency of the language server, and of others on the same file, as a person feels it.

    python tests/bench/bench_lsp.py                          ours and a bare pygls server, 1,000 and 5,000 lines
    python tests/bench/bench_lsp.py --project 200            ours in a project of 200 files
    python tests/bench/bench_lsp.py --memory 10000           memory before and after many edits
    python tests/bench/bench_lsp.py --peers                  and ruff, pylsp and pyright on the same files, where they are found
    python tests/bench/bench_lsp.py --other ruff server      another server on the same file

Each run starts a fresh process. Times are milliseconds, median / 95th percentile / least; `cpu` is the
processor time of the server, which a busy machine distorts far less. Everybody has their bytecode, as after an
installation: an editable one that may not write it compiles itself at every start. Nothing is asserted here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TIMEOUT = 60.0
PEERS = {"ruff": ["ruff", "server"], "pylsp": ["pylsp"], "pyright": ["pyright-langserver", "--stdio"]}
PAUSE = 0.02  # between edits: nobody types faster
BARE = 'from pygls.lsp.server import LanguageServer\nLanguageServer("bare", "1").start_io()\n'
HEAD = '''"""Generated — café 😋."""
import os, json
import random
from datetime import datetime

from rulvar import Ctx, workflow

'''
BLOCK = '''
def helper_{n}(value: int, name: str = "x{n}") -> int:
    """Helper {n} — naïve."""
    total = value + {n}
    for item in range(total):
        if item % 7 == 0:
            total += item
    return total


@workflow(name="w{n}")
async def workflow_{n}(ctx: Ctx, args: dict) -> dict:
    started = datetime.now()
    kind = await ctx.agent(f"Classify {n}: {{args['text']}} 😋", label="classify")
    size = await ctx.step("size", lambda: helper_{n}(3), deps=[kind])
    return {{"at": str(started), "kind": kind, "n": random.random(), "size": size}}

'''


def source(lines: int) -> str:
    """A module of about so many lines: workflows with findings and recorded calls."""
    text, n = HEAD, 0
    while text.count("\n") < lines - BLOCK.count("\n"):
        n += 1
        text += BLOCK.format(n=n)
    return text


def write_report(root: Path, name: str, text: str) -> None:
    """A replay report that tells of every `ctx.agent` call of the module."""
    calls = []
    for number, line in enumerate(text.split("\n"), 1):
        if "ctx.agent(" in line:
            site = {
                "file": name,
                "line": number,
                "column": line.index("ctx.") + 1,
                "endLine": number,
                "endColumn": len(line) + 1,
                "digest": hashlib.sha256(line.strip().encode()).hexdigest()[:16],
            }
            calls.append(
                {"kind": "agent", "served": "hit", "site": site, "occurrence": 0, "requestHash": "3f9ac2"}
            )
    test = {
        "nodeId": "test_m.py::test_m",
        "file": "test_m.py",
        "line": 1,
        "outcome": "passed",
        "calls": calls,
    }
    report = {
        "v": 1,
        "kind": "rulvar-replay-report",
        "createdAt": datetime.now(UTC).isoformat(),
        "root": str(root),
    }
    path = root / ".rulvar_cache" / "reports" / "r.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**report, "tests": [test]}))


class Server:
    """A server process and its messages."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.inbox: queue.Queue[tuple[float, dict[str, Any] | None]] = queue.Queue()
        self.last = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            size = 0
            while line := stream.readline().strip():
                if line.lower().startswith(b"content-length"):
                    size = int(line.split(b":")[1])
            if not size:
                self.inbox.put((0.0, None))
                return
            body = stream.read(size)
            at = time.perf_counter()
            message = json.loads(body)
            if "method" in message and "id" in message:
                items = message.get("params", {}).get("items", []) if message.get("params") else []
                self.send({"id": message["id"], "result": [None for _ in items] or None})
            self.inbox.put((at, message))

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> tuple[float, dict[str, Any]]:
        """Send a request; the time of its answer, and the answer."""
        self.last += 1
        number = self.last
        self.send({"id": number, "method": method, **({} if params is None else {"params": params})})
        end = time.perf_counter() + TIMEOUT
        while True:
            at, message = self.inbox.get(timeout=max(0.01, end - time.perf_counter()))
            if message is None:
                raise ConnectionError("the server left")
            if message.get("id") == number and "method" not in message:
                return at, message

    def cpu(self) -> float:
        """Processor time of the process so far, ms."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def memory(self, key: str = "VmHWM") -> float:
        """Peak (or with `VmRSS` present) memory, MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(x for x in status.splitlines() if x.startswith(key)).split()[1]) / 1024

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def initialize(server: Server, root: Path) -> tuple[float, dict[str, Any]]:
    capabilities = {
        "textDocument": {
            "diagnostic": {},
            "publishDiagnostics": {"relatedInformation": True, "versionSupport": True},
            "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}}},
            "hover": {"contentFormat": ["markdown"]},
            "inlayHint": {"resolveSupport": {"properties": ["tooltip"]}},
            "codeLens": {},
        },
        "workspace": {
            "diagnostics": {"refreshSupport": True},
            "configuration": True,
            "workspaceFolders": True,
        },
        "window": {"workDoneProgress": True},
    }
    folder = {"uri": root.as_uri(), "name": "w"}
    params = {
        "processId": os.getpid(),
        "rootUri": root.as_uri(),
        "workspaceFolders": [folder],
        "capabilities": capabilities,
    }
    at, answer = server.ask("initialize", params)
    server.notify("initialized", {})
    return at, answer["result"]["capabilities"]


class Session:
    """One fresh server on one file."""

    def __init__(self, command: list[str], root: Path, path: Path, text: str) -> None:
        self.server = Server(command, root)
        self.uri = path.as_uri()
        self.text = text
        self.version = 1
        at, self.capabilities = initialize(self.server, root)
        self.init = (at - self.server.started) * 1e3
        self.pulls = bool(self.capabilities.get("diagnosticProvider"))

    @property
    def document(self) -> dict[str, Any]:
        return {"textDocument": {"uri": self.uri}}

    def diagnostics(self, sent: float) -> float:
        """Milliseconds from `sent` to the diagnostics of the present version."""
        if self.pulls:
            while True:
                at, answer = self.server.ask("textDocument/diagnostic", self.document)
                if "result" in answer:
                    return (at - sent) * 1e3
        while True:
            at, message = self.server.inbox.get(timeout=TIMEOUT)
            if message is None:
                raise ConnectionError("the server left")
            params = message.get("params") or {}
            ours = message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == self.uri
            if ours and params.get("version") in (None, self.version):
                return (at - sent) * 1e3

    def open(self) -> float:
        sent = time.perf_counter()
        item = {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}
        self.server.notify("textDocument/didOpen", {"textDocument": item})
        return self.diagnostics(sent)

    def edit(self, text: str = "#", pause: float = 0.0) -> float:
        time.sleep(pause)
        self.version += 1
        line = self.text.count("\n") // 2
        place = {"line": line, "character": 0}
        change = {"text": text, "range": {"start": place, "end": place}}
        sent = time.perf_counter()
        document = {"uri": self.uri, "version": self.version}
        self.server.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        return self.diagnostics(sent)

    def requests(self) -> dict[str, float]:
        """Milliseconds of each request that the server offers, on the warm file."""
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": self.text.count("\n"), "character": 0}}
        here = {"start": {"line": 20, "character": 16}, "end": {"line": 20, "character": 16}}
        offers = (
            ("lens", "codeLensProvider", "textDocument/codeLens", {}),
            ("hint", "inlayHintProvider", "textDocument/inlayHint", {"range": whole}),
            (
                "action",
                "codeActionProvider",
                "textDocument/codeAction",
                {"range": here, "context": {"diagnostics": []}},
            ),
            ("hover", "hoverProvider", "textDocument/hover", {"position": here["start"]}),
        )
        found = {}
        for name, capability, method, more in offers:
            if self.capabilities.get(capability):
                times = []
                for _ in range(5):
                    sent = time.perf_counter()
                    at, _ = self.server.ask(method, {**self.document, **more})
                    times.append((at - sent) * 1e3)
                found[name] = statistics.median(times)
        return found


def measure(name: str, command: list[str], lines: int, runs: int, files: int = 0) -> None:
    """Print one row for one server."""
    text = source(lines)
    values: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="bench-lsp-") as folder:
        root = Path(folder)
        (root / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '0'\n")
        path = root / "test_module.py"
        path.write_text(text, encoding="utf-8")
        write_report(root, path.name, text)
        for number in range(files):
            (root / f"module_{number}.py").write_text(source(300), encoding="utf-8")
        for run in range(runs + 1):
            session = Session(command, root, path, text)
            try:
                row = {"init": session.init, "cpu init": session.server.cpu()}
                if session.capabilities.get("textDocumentSync") and name != "bare pygls":
                    row["open"] = session.open()
                    row["cpu open"] = session.server.cpu() - row["cpu init"]
                    time.sleep(0.3)
                    before = session.server.cpu()
                    edits = [session.edit(pause=PAUSE) for _ in range(10)]
                    row["cpu edit"] = (session.server.cpu() - before) / len(edits)
                    row |= session.requests()
                    values["edit"] += edits if run else []
                row["MiB"] = session.server.memory()
            finally:
                session.server.stop()
            for key, value in row.items() if run else ():  # the first run warms the caches
                values[key].append(value)
    life = ("init", "cpu init", "open", "cpu open", "edit", "cpu edit")
    order = (*life, "lens", "hint", "action", "hover", "MiB")
    cells = "  ".join(f"{key} {show(values[key])}" for key in order if values[key])
    print(f"{name}, {text.count(chr(10))} lines{f', {files} files' if files else ''}: {cells}", flush=True)


def show(values: list[float]) -> str:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"{statistics.median(ordered):.1f}/{p95:.1f}/{ordered[0]:.1f}"


def memory(command: list[str], edits: int) -> None:
    """Print the memory of the server as edits go by."""
    text = source(1000)
    with tempfile.TemporaryDirectory(prefix="bench-lsp-") as folder:
        root = Path(folder)
        path = root / "module.py"
        path.write_text(text, encoding="utf-8")
        Session(command, root, path, text).server.stop()
        session = Session(command, root, path, text)
        session.open()
        for done in range(edits + 1):
            session.edit("#" if done % 2 else "\n")
            if done % max(1, edits // 10) == 0:
                print(f"after {done} edits: {session.server.memory('VmRSS'):.1f} MiB", flush=True)
            if done % 100 == 99:  # the text itself must not grow
                session.server.notify(
                    "textDocument/didChange",
                    {
                        "textDocument": {"uri": session.uri, "version": session.version},
                        "contentChanges": [{"text": text}],
                    },
                )
        session.server.stop()


def found_peers() -> dict[str, list[str]]:
    """The command lines of the peers that are installed: beside this Python, by `make bench`, or on PATH."""
    cache = Path(__file__).parents[2] / ".cache" / "bench"
    folders = [Path(sys.executable).parent, cache / "bin", cache / "node_modules" / ".bin"]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    commands = {name: shutil.which(command[0], path=path) for name, command in PEERS.items()}
    return {name: [exe, *PEERS[name][1:]] for name, exe in commands.items() if exe}


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--lines", type=int, action="append")
    parser.add_argument("--project", type=int, default=0, help="how many other files the project has")
    parser.add_argument("--memory", type=int, default=0, help="edit so many times and print the memory")
    parser.add_argument("--peers", action="store_true", help="measure other servers in the same run")
    parser.add_argument("--other", nargs=argparse.REMAINDER, help="the command line of another server")
    args = parser.parse_args()
    ours = [sys.executable, "-m", "rulvar_lsp"]
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="bench-bytecode-") as bytecode:
        os.environ["PYTHONPYCACHEPREFIX"] = bytecode
        run(args, ours)


def run(args: argparse.Namespace, ours: list[str]) -> None:
    """Measure; the first start of each server writes its bytecode."""
    if args.memory:
        memory(ours, args.memory)
        return
    for lines in args.lines or [1000, 5000]:
        if args.other:
            measure(Path(args.other[0]).name, args.other, lines, args.runs)
            continue
        measure("rulvar-lsp", ours, lines, args.runs, args.project)
        for name, command in found_peers().items() if args.peers else ():
            measure(name, command, lines, args.runs, args.project)
    if not args.other:
        measure("bare pygls", [sys.executable, "-c", BARE], 10, args.runs)


if __name__ == "__main__":
    main()
