"""The writing end of a run's journal: seqs, ordinals, and entries in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.store import ImmediateJournalStore, JournalStore
from rulvar.errors import NonSerializableValueError

__all__ = ["JournalWriter"]


class JournalWriter:
    """Appends entries to one run.

    Seqs are given in call order; entries reach the store in that order. After the store has refused
    an entry nothing more is written: what was not acknowledged must not be built upon.

    Args:
        tap: is told of every entry, in the order in which they are written.
    """

    def __init__(
        self,
        store: JournalStore,
        run_id: str,
        next_seq: int,
        tap: Callable[[JournalEntry], None] | None = None,
    ) -> None:
        self.run_id = run_id
        self.next_seq = next_seq
        self.appended = 0
        self._store = store
        self._now = store.append_now if isinstance(store, ImmediateJournalStore) else None
        self._pending: list[JournalEntry] = []
        self._lock = asyncio.Lock()
        self._broken: BaseException | None = None
        self._tap = tap

    async def append(self, wire: dict[str, Any]) -> int:
        """Write one entry and return its seq; it is stored when this returns.

        Args:
            wire: the entry's JSON object without its seq, in the order in which it is written.

        Raises:
            JournalOrderViolation, OSError: whatever the store raised, now or before.
        """
        seq = self.append_soon(wire)
        if self._pending:
            await self.flush()
        return seq

    def append_soon(self, wire: dict[str, Any]) -> int:
        """Write one entry without waiting; it is stored before anything that is appended later."""
        if self._broken is not None:
            raise self._broken
        seq = self.next_seq
        self.next_seq = seq + 1
        self.appended += 1
        entry = _entry(seq, wire)
        if self._tap is not None:
            self._tap(entry)
        if self._now is not None and not self._pending:
            try:
                self._now(self.run_id, (entry,))
            except BaseException as error:
                self._broken = error
                raise
        else:
            self._pending.append(entry)
        return seq

    async def flush(self) -> None:
        """Wait until everything appended so far is stored."""
        async with self._lock:
            if self._broken is not None:
                raise self._broken
            entries, self._pending = self._pending, []
            if not entries:
                return
            try:
                await self._store.append(self.run_id, entries)
            except BaseException as error:
                self._broken = error
                raise


def _entry(seq: int, wire: dict[str, Any]) -> JournalEntry:
    full = {"hashVersion": 2, "seq": seq, **wire}
    try:
        line = orjson.dumps(full)
    except TypeError:
        line = _encode_exactly(full)
    return JournalEntry(
        seq,
        wire["kind"],
        wire["status"],
        wire["scope"],
        wire["key"],
        wire["ordinal"],
        wire.get("ref"),
        2,
        wire["spanId"],
        wire.get("memoizeOutcome", False),
        line,
    )


def _encode_exactly(wire: dict[str, Any]) -> bytes:
    """Encode an entry that holds a lone surrogate; fragments are put in as they are."""
    parts: list[bytes] = []
    for name, value in wire.items():
        try:
            text = orjson.dumps(value)
        except TypeError:
            text = encode_json(value)
        parts.append(orjson.dumps(name) + b":" + text)
    line = b"{" + b",".join(parts) + b"}"
    if b"\n" in line:
        raise NonSerializableValueError("journal entry holds a line feed", data={"path": "$"})
    return line
