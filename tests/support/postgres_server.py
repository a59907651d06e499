"""A PostgreSQL server of the tests' own: real, on loopback, in a folder that is thrown away.

Tests take the fixture ``postgres``. The server is started once per test process, as an unprivileged
user even when the tests run as root. Where PostgreSQL is not installed the tests are skipped, but in CI
they fail.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

_MISSING = "PostgreSQL is not installed: apt-get install postgresql (see tests/e2e/postgres/setup.sh)"
_SETTINGS = {
    "fsync": "off",  # the machine does not lose power during a test; a killed server still recovers
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
    "timezone": "UTC",
}


class PostgresServer:
    """One server and its folder."""

    def __init__(self, programs: Path, **settings: str) -> None:
        self._programs = programs
        self._user = _unprivileged_user()
        self._settings = {**_SETTINGS, **settings}
        self._folder = Path(tempfile.mkdtemp(prefix="rulvar-pg-"))
        self.port = _free_port()
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self._call("initdb", "-D", "data", "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def dsn(self) -> str:
        """Connection string of the server's one database."""
        return f"postgresql://tests@127.0.0.1:{self.port}/postgres"

    @property
    def user(self) -> int:
        """The user that the server runs as."""
        return os.geteuid() if self._user is None else self._user.pw_uid

    @property
    def pid(self) -> int:
        """Number of the server's main process."""
        return int((self._folder / "data" / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {
            **self._settings,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
        }
        flags = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        self._call("pg_ctl", "-D", "data", "-l", "log", "-w", "-t", "30", "-o", flags, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast`` cuts connections, ``immediate`` is a crash."""
        self._call("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    def restart(self, mode: str = "fast", away_s: float = 0.0) -> None:
        """Stop it, stay away for a while, and start it again."""
        self.stop(mode)
        time.sleep(away_s)
        self.start()

    def destroy(self) -> None:
        """Stop it and remove its folder."""
        with contextlib.suppress(RuntimeError):
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str) -> None:
        identity = {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid}
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": str(self._folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **identity,
        )
        if done.returncode != 0:
            log = self._folder / "log"
            text = log.read_text()[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program} failed: {done.stderr[-1000:]}\n{text}")


def _unprivileged_user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("no unprivileged user to run PostgreSQL as")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_programs() -> Path | None:
    """Return the folder of the newest installed server's programs, or None."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3].split(".")[0])
    )
    if found:
        return found[-1].parent
    pg_ctl = shutil.which("pg_ctl")
    return Path(pg_ctl).resolve().parent if pg_ctl else None


@functools.cache
def shared_server() -> PostgresServer | None:
    """Return the server of this test process, or None where PostgreSQL is not installed."""
    programs = find_programs()
    if programs is None:
        return None
    server = PostgresServer(programs)
    atexit.register(server.destroy)
    return server


def require_server() -> PostgresServer:
    """Return the server; skip the test where there can be none, and fail it in CI."""
    server = shared_server()
    if server is None:
        if os.environ.get("CI"):
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)
    return server


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    """A PostgreSQL server that all tests share."""
    return require_server()
