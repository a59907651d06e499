"""The writing end of a run's journal: seqs, ordinals, and entries in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import orjson

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.engine.control import finished
from rulvar.errors import NonSerializableValueError, RulvarError, StoreError

__all__ = ["JournalSink", "JournalWriter"]


class JournalSink(Protocol):
    """Where a writer's entries go: ``append_now`` when the store can, ``append`` otherwise."""

    append_now: Callable[[str, Sequence[JournalEntry]], None] | None

    async def append(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries."""


class JournalWriter:
    """Appends entries to one run.

    Seqs are given in call order; entries reach the store in that order. While the store is busy with
    entries, those that come meanwhile are gathered and stored together. After the store has refused an
    entry nothing more is written: what was not acknowledged must not be built upon.

    Args:
        broken: called once, with why, when nothing more is written.
        tap: is told of every entry, in the order in which they are written.
    """

    def __init__(
        self,
        sink: JournalSink,
        run_id: str,
        next_seq: int,
        broken: Callable[[RulvarError], None] | None = None,
        tap: Callable[[JournalEntry], None] | None = None,
    ) -> None:
        self.run_id = run_id
        self.next_seq = next_seq
        self.appended = 0
        self._sink = sink
        self._now = sink.append_now
        self._pending: list[JournalEntry] = []
        self._stored_seq = next_seq - 1
        self._round: asyncio.Task[None] | None = None
        self._broken: RulvarError | None = None
        self._tell_broken = broken
        self._tap = tap

    async def append(self, wire: dict[str, Any]) -> int:
        """Write one entry and return its seq; it is stored when this returns.

        Args:
            wire: the entry's JSON object without its seq, in the order in which it is written.

        Raises:
            JournalOrderViolation, SupersededError, StoreError: whatever the store raised, now or before.
        """
        seq = self.append_soon(wire)
        if self._now is None:
            await self._until_stored(seq)
        return seq

    async def open(self, wire: dict[str, Any], close: Callable[[int], dict[str, Any]]) -> int:
        """Write the entry that opens an operation and return its seq; see :meth:`append`.

        Args:
            close: makes the entry that closes it, of its seq: written when whoever opens it is cancelled before
                it is stored, and so never comes to close it.
        """
        seq = self.append_soon(wire)
        if self._now is None:
            try:
                await self._until_stored(seq)
            except asyncio.CancelledError:
                await finished(self.append(close(seq)))
                raise
        return seq

    def append_soon(self, wire: dict[str, Any]) -> int:
        """Write one entry without waiting; it is stored before anything that is appended later."""
        if self._broken is not None:
            raise self._broken
        seq = self.next_seq
        entry = _entry(seq, wire)
        self.next_seq = seq + 1
        self.appended += 1
        if self._tap is not None:
            self._tap(entry)
        if self._now is None:
            self._pending.append(entry)
            return seq
        try:
            self._now(self.run_id, (entry,))
        except BaseException as error:
            raise self._break(error) from error
        return seq

    async def flush(self) -> None:
        """Wait until everything appended so far is stored."""
        if self._now is None:
            await self._until_stored(self.next_seq - 1)
        if self._broken is not None:
            raise self._broken

    def refuse(self, error: RulvarError) -> None:
        """Write nothing more, and raise an error at whoever tries."""
        if self._broken is None:
            self._broken = error

    async def _until_stored(self, seq: int) -> None:
        while self._stored_seq < seq:
            if self._broken is not None:
                raise self._broken
            if self._round is None:
                self._round = asyncio.get_running_loop().create_task(self._store_pending())
            # shielded: a branch that is cancelled must not take the others' entries with it
            await asyncio.shield(self._round)

    async def _store_pending(self) -> None:
        entries, self._pending = self._pending, []
        try:
            if self._broken is None and entries:
                await self._sink.append(self.run_id, entries)
                self._stored_seq = entries[-1].seq
        except BaseException as error:
            self._break(error)
        finally:
            self._round = None

    def _break(self, error: BaseException) -> RulvarError:
        if self._broken is not None:
            return self._broken
        self._broken = error if isinstance(error, RulvarError) else store_error(self.run_id, error)
        if self._tell_broken is not None:
            self._tell_broken(self._broken)
        return self._broken


def store_error(run_id: str, error: BaseException) -> StoreError:
    """Return a failure of a store as the error that a run ends with."""
    return StoreError(
        f"run {run_id!r}: the store failed: {type(error).__name__}: {error}", data={"reason": "io"}
    )


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
        full["hashVersion"],
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
