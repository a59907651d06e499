"""Runs pytest over and over without starting Python again; executed by path, never imported.

The project's interpreter runs this file, so it needs the standard library and pytest only. It imports what
a run needs once, then forks for each run: every run is a process of its own, in a session of its own, with
fresh copies of everything of the project. What a run imported from installed packages is imported here
afterwards, so that the next one is faster.

One JSON object per line. In: {"run": id, "args", "cwd", "output"}. Out: {"ready"}, {"started": id, "pid"},
{"ended": id, "status"}. A module that changed on disk ends this process with status 3: start it anew.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import sysconfig
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NoReturn

STALE = 3
FIRST = ("pytest", "_pytest.assertion.rewrite", "asyncio", "rulvar", "rulvar.testing")
_PR_SET_PDEATHSIG = 1
_NO_REWRITE = "PYTEST_DONT_REWRITE"


def die_with_parent() -> None:
    """Have the system end this process when its parent is gone, however that came about; on Linux only."""
    parent = os.getppid()
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def preload(names: Iterable[str]) -> None:
    """Import the names that can be imported."""
    for name in names:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)


def plugin_modules() -> list[str]:
    """Modules of the installed pytest plugins."""
    from importlib.metadata import entry_points

    return [entry.module for entry in entry_points(group="pytest11")]


def installed(module: ModuleType) -> bool:
    """Say whether a module belongs to an installed package or the standard library."""
    path = getattr(module, "__file__", None)
    if path is None:
        return False
    if module.__name__.partition(".")[0] == "rulvar":
        return True
    paths = sysconfig.get_paths()
    return any(path.startswith(paths[key] + os.sep) for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def stamps() -> dict[str, int]:
    """When the file of each imported module was last changed."""
    found = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path:
            with contextlib.suppress(OSError):
                found[path] = os.stat(path).st_mtime_ns
    return found


def run(request: dict[str, Any], known: set[str], report: int) -> NoReturn:
    """Run pytest in a forked process and never return."""
    os.setsid()
    die_with_parent()
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(request["output"], os.O_WRONLY | os.O_APPEND)
    for target, descriptor in ((0, null), (1, out), (2, out)):
        os.dup2(descriptor, target)
    os.chdir(request["cwd"])
    sys.path.insert(0, request["cwd"])
    sys.argv = ["pytest", *request["args"]]
    for name in known:
        # pytest warns of plugins that it can no longer rewrite; these were imported before on purpose
        module = sys.modules.get(name)
        if module is not None and "." not in name:
            module.__doc__ = f"{module.__doc__ or ''}\n{_NO_REWRITE}"
    status = 70
    try:
        import pytest

        status = int(pytest.main(request["args"]))
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    with contextlib.suppress(BaseException):
        fresh = [n for n, m in list(sys.modules.items()) if n not in known and installed(m)]
        os.write(report, json.dumps(fresh).encode())
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)


def serve(lines: Iterable[str], say: Callable[[dict[str, Any]], None]) -> None:
    """Answer requests until there are no more."""
    preload([*FIRST, *plugin_modules()])
    seen = stamps()
    say({"ready": True})
    for line in lines:
        request = json.loads(line)
        if any(seen.get(path, when) != when for path, when in stamps().items()):
            sys.exit(STALE)
        known = set(sys.modules)
        reader, writer = os.pipe()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            run(request, known, writer)
        os.close(writer)
        say({"started": request["run"], "pid": pid})
        _, status = os.waitpid(pid, 0)
        say({"ended": request["run"], "status": os.waitstatus_to_exitcode(status)})
        preload(read_names(reader))
        seen = {**stamps(), **seen}


def read_names(reader: int) -> list[str]:
    """The names that a run has sent; a daemon that it left behind may keep the pipe open."""
    os.set_blocking(reader, False)
    data = b""
    with contextlib.suppress(OSError), os.fdopen(reader, "rb") as stream:
        data = stream.read() or b""
    try:
        names = json.loads(data)
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)]


def main() -> None:
    """Talk over standard input and a private copy of standard output."""
    die_with_parent()
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(sys.stdin, lambda message: print(json.dumps(message), file=channel, flush=True))


if __name__ == "__main__":
    main()
