"""Worker processes over one database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["Fleet"]

_SUPPORT = Path(__file__).parent


class Fleet:
    """Starts processes of one script, and ends those that are left."""

    def __init__(self, script: Path, *arguments: object) -> None:
        self._command = [sys.executable, str(script), *map(str, arguments)]
        self.alive: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, (str(_SUPPORT), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(self._command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.alive.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        self.reap(process)

    def reap(self, process: subprocess.Popen[bytes], timeout: float = 30) -> int:
        code = process.wait(timeout)
        assert process.stdout is not None
        process.stdout.close()
        self.alive.remove(process)
        return code

    def close(self) -> None:
        for process in list(self.alive):
            process.send_signal(signal.SIGCONT)
            self.kill(process)
