"""The exit codes."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BROKEN_PIPE", "EXIT_OF_STATUS", "FAILED", "INTERRUPTED", "OK", "USAGE", "WAITING"]

OK = 0
FAILED = 1
"""The run ended in an error, was cancelled or ran out of budget; or something diverged."""
USAGE = 2
"""The command, its configuration or what it was pointed at is wrong."""
WAITING = 3
"""The run waits for an answer."""
INTERRUPTED = 130
BROKEN_PIPE = 141

EXIT_OF_STATUS: Mapping[str, int] = {"ok": OK, "suspended": WAITING}
"""What a run's status comes to; every other status is FAILED."""
