"""What processes of one machine know of each other: a clock that does not jump, and who is still alive."""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path

__all__ = ["boot_id", "machine_seconds", "process_identity", "process_is_gone"]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def machine_seconds() -> float:
    """Return seconds since some moment that all processes of this boot share; never set back or forth."""
    if _CLOCK is None or not boot_id():
        return time.time()
    return time.clock_gettime(_CLOCK)


@functools.cache
def boot_id() -> str:
    """Return what names this boot of the machine; empty where nothing does."""
    return _text("/proc/sys/kernel/random/boot_id").strip() if sys.platform == "linux" else ""


def process_identity() -> str:
    """Return what names this process among all that ever run on this machine; empty where nothing does."""
    pid = os.getpid()
    started = _started(pid)
    return f"{boot_id()}/{_pid_namespace()}/{pid}/{started}" if started else ""


def process_is_gone(identity: str) -> bool:
    """Whether a process has certainly ended; a process that cannot be seen from here may be alive."""
    boot, _, rest = identity.partition("/")
    if not rest or not boot_id():
        return False
    if boot != boot_id():
        return True
    namespace, _, rest = rest.partition("/")
    pid, _, started = rest.partition("/")
    if namespace != _pid_namespace() or not pid.isdecimal() or not Path("/proc/self").exists():
        return False
    return _started(int(pid)) != started


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process started, in ticks since boot; empty when it is gone, or a zombie."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return "" if len(fields) < 20 or fields[0] in "ZX" else fields[19]


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
