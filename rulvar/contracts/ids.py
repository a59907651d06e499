"""Identifiers: ULIDs for things that are minted, and the grammar of run ids."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from functools import lru_cache

from rulvar.errors import ConfigError

__all__ = ["UlidSource", "check_run_id", "encode_ulid", "is_run_id"]

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_TIME_SHIFTS = range(40, -1, -10)
_HALF_SHIFTS = range(30, -1, -10)
_RANDOM_BITS = 80
_HALF = (1 << 40) - 1
_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


def encode_ulid(time_ms: int, randomness: int) -> str:
    """Return the 26 characters of a ULID from epoch milliseconds and 80 random bits."""
    high, low = (randomness >> 40) & _HALF, randomness & _HALF  # halves are machine integers, and cheaper
    pairs = [_PAIRS[(high >> shift) & 1023] for shift in _HALF_SHIFTS]
    pairs += [_PAIRS[(low >> shift) & 1023] for shift in _HALF_SHIFTS]
    return _time_part(time_ms) + "".join(pairs)


@lru_cache(maxsize=8)
def _time_part(time_ms: int) -> str:
    return "".join([_PAIRS[(time_ms >> shift) & 1023] for shift in _TIME_SHIFTS])


class UlidSource:
    """Mints ULIDs that ascend: within one millisecond the random part is counted up."""

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._last_ms = -1
        self._last_random = 0

    def mint(self) -> str:
        """Return the next ULID."""
        now = self._now_ms()
        if now <= self._last_ms:
            now = self._last_ms
            self._last_random += 1
        else:
            self._last_ms = now
            self._last_random = secrets.randbits(_RANDOM_BITS - 1)
        return encode_ulid(now, self._last_random)


def check_run_id(run_id: object) -> str:
    """Return a run id that is safe as a file name.

    Raises:
        ConfigError: not 1 to 200 characters of ``A-Z a-z 0-9 . _ -``, or ``.`` or ``..``.
    """
    if isinstance(run_id, str) and _RUN_ID.fullmatch(run_id) and run_id not in {".", ".."}:
        return run_id
    raise ConfigError(
        f"run_id {run_id!r}: use 1 to 200 characters of A-Z a-z 0-9 . _ - (and not '.' or '..')",
        data={"field": "run_id"},
    )


def is_run_id(text: str) -> bool:
    """Whether ``check_run_id`` takes a text."""
    try:
        check_run_id(text)
    except ConfigError:
        return False
    return True
