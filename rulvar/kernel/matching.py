"""The index of a journal: which operations it holds, and which call gets which.

An operation is what one ctx call left behind: its first entry, the terminal entry that closes it and
the resolution of a wait. Operations of one scope and key form a queue; a live call takes the first
one that is left, so identical calls are told apart by order and a call that was inserted, deleted or
reordered disturbs no other.

A segment that ran after a crash may have repeated an operation whose recorded outcome was not kept.
The repetition takes the place of what it repeated: the queue holds one operation per call, in the
form of its latest attempt.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import RunStatus
from rulvar.kernel.closings import Closings, fold_closings
from rulvar.kernel.disposition import Disposition, disposition
from rulvar.kernel.keys import CURRENT_HASH_VERSION
from rulvar.kernel.scope import agent_scope, scopes_around

__all__ = ["ALWAYS_ASKS", "JournalIndex", "Operation", "scope_below"]

MATCHED_KINDS = frozenset({"agent", "step", "child", "rand", "external", "approval"})
_SUSPENSIONS = frozenset({"external", "approval"})
_CLOSING = frozenset({"resolution", "abandon"})
SEGMENT_BITS = 32
ALWAYS_ASKS = "+"
"""Ends the span id of an agent call that always asks: its entry, which has the original's fields, tells no other way."""
_RUN_STATUSES = get_args(RunStatus)


class Operation:
    """One journaled operation, as the entries of a journal tell it."""

    __slots__ = ("asks_always", "consumed", "first", "is_set_aside", "resolution", "terminal")

    def __init__(self, first: JournalEntry) -> None:
        self.first = first
        self.terminal: JournalEntry | None = first if first.kind == "rand" else None
        self.resolution: JournalEntry | None = None
        self.consumed = False
        self.asks_always = first.kind == "agent" and first.span_id.endswith(ALWAYS_ASKS)
        self.is_set_aside = False
        """Whether a call that always asks passed it over: nobody else gets it, and nobody ends it."""

    @property
    def waits(self) -> bool:
        """Whether it is a wait."""
        return self.first.kind in _SUSPENSIONS

    @property
    def scope_below(self) -> str | None:
        """The scope of what happens inside it, or None when nothing can."""
        return scope_below(self)

    @property
    def status(self) -> str:
        """Status of the terminal entry; ``running`` or ``suspended`` while there is none."""
        return self.first.status if self.terminal is None else self.terminal.status

    @property
    def is_open(self) -> bool:
        """Whether it dangles: started and not finished, or waiting and not resolved."""
        return (self.resolution if self.waits else self.terminal) is None


class JournalIndex:
    """Operations of a journal by scope and key, in O(1) per call.

    Args:
        entries: the journal, in order.
        invalidate: seqs of operations whose recorded outcome must not be kept.
    """

    def __init__(self, entries: Sequence[JournalEntry], invalidate: Iterable[int] = ()) -> None:
        self.has_v1 = False
        self.next_seq = 0
        self.ordinals: dict[tuple[str, str], int] = {}
        self.operations: dict[int, Operation] = {}
        self.decisions: dict[str, list[JournalEntry]] = {}
        self.settled: str | None = None
        """The status that the run settled in last."""
        self.closings: Closings
        self._invalidate: frozenset[int] = frozenset()
        self._repeated: dict[int, int] = {}  # what took the place of an operation
        # what an earlier resume was asked to run again, and from which seq on
        self._dismissed: dict[int, int] = {}
        self._queues: dict[tuple[str, str], list[Operation]] = {}  # the next one comes last
        self._asked_anew: dict[tuple[str, str], list[Operation]] = {}  # the same of calls that always ask
        self._shared: set[tuple[str, str]] = set()
        self._has_duplicates = False
        self._anywhere: dict[str, list[Operation]] | None = None  # as queues are
        self._by_scope: dict[str, list[Operation]] = {}
        self._open_waits: dict[str, list[Operation]] | None = None
        self._by_agent: dict[tuple[str, Any], list[JournalEntry]] | None = None
        closing: list[JournalEntry] = []
        for entry in entries:
            self._add(entry, closing)
        self._close(closing)
        self._queue()
        self._invalidate = self._named(frozenset(invalidate)) | self._dismissed.keys()

    @property
    def settled_ok(self) -> bool:
        """Whether the run settled ok before."""
        return self.settled == "ok"

    def take(self, scope: str, key: str, older_key: str | None = None) -> Operation | None:
        """Take the first operation left of a scope and key; None is a miss and disturbs nothing.

        What calls that always ask have left comes last.

        Args:
            older_key: the key of the same identity in version 1, when the journal has such entries.
        """
        queue = self._queues.get((scope, key))
        if older_key is not None and older_key != key:
            older = _left(self._queues.get((scope, older_key)))
            if older and (not _left(queue) or (queue and older[-1].first.seq < queue[-1].first.seq)):
                queue = older
        return _next(queue) or _next(self._asked_anew.get((scope, key)))

    def set_aside(self, scope: str, key: str) -> None:
        """Take what a call that always asks has left, so that the next call like it gets its own answer."""
        if operation := _next(self._asked_anew.get((scope, key))):
            operation.is_set_aside = True

    def take_anywhere(self, key: str, older_key: str | None = None) -> Operation | None:
        """Take the first operation left of a key, whatever its scope; see ``take``."""
        if self._anywhere is None:
            self._anywhere = {}
            for operation in reversed(self.operations.values()):
                if operation.status == "ok":
                    self._anywhere.setdefault(operation.first.key, []).append(operation)
        found = _next(self._anywhere.get(key))
        return found if found is not None or older_key is None else _next(self._anywhere.get(older_key))

    def in_scope(self, scope: str) -> Sequence[Operation]:
        """Return the operations of exactly this scope, in journal order."""
        if not self._by_scope:
            for operation in self.operations.values():
                self._by_scope.setdefault(operation.first.scope, []).append(operation)
        return self._by_scope.get(scope, ())

    def decisions_of(self, kind: str, agent_ref: int | None) -> Sequence[JournalEntry]:
        """Return the decisions of a kind about an agent call, in journal order."""
        if self._by_agent is None:
            self._by_agent = {}
            for name, entries in self.decisions.items():
                for entry in entries:
                    value = entry.value if isinstance(entry.value, dict) else {}
                    told = value.get("agentRef", value.get("targetRef"))
                    if isinstance(told, int):
                        self._by_agent.setdefault((name, told), []).append(entry)
        return self._by_agent.get((kind, agent_ref), ())

    def disposition(self, operation: Operation) -> Disposition:
        """Return what to do with a matched operation; see the table in ``kernel.disposition``."""
        entry = operation.first if operation.terminal is None else operation.terminal
        invalidated = operation.first.seq in self._invalidate or entry.seq in self._invalidate
        return self._by_table(operation, invalidated=invalidated)

    def is_first_rerun(self, operation: Operation) -> bool:
        """Whether only the resume at hand runs an operation again; unless that is journaled, a later one serves it."""
        if operation.first.seq not in self._invalidate or operation.first.seq in self._dismissed:
            return False
        return self._by_table(operation, invalidated=False) is Disposition.REPLAY

    def _by_table(self, operation: Operation, *, invalidated: bool) -> Disposition:
        entry = operation.first if operation.terminal is None else operation.terminal
        status = "running" if operation.terminal is None else entry.status
        if status == "ok" and not invalidated:
            return Disposition.REPLAY  # the commonest row of every version's table
        return disposition(
            status,
            hash_version=int(operation.first.hash_version),
            memoized=operation.first.memoize_outcome or entry.memoize_outcome,
            run_settled_ok=self.settled_ok,
            error=entry.to_wire().get("error") if status == "error" else None,
            invalidated=invalidated,
        )

    def waits_below(self, operation: Operation) -> Sequence[Operation]:
        """Return the open waits in the scope of an operation that dangles, in journal order."""
        below = None if operation.terminal is not None else scope_below(operation)
        if below is None:
            return ()
        if self._open_waits is None:
            self._open_waits = {}
            for wait in self.operations.values():
                if wait.waits and wait.is_open and not self.is_skipped(wait):
                    for scope in scopes_around(wait.first.scope):
                        self._open_waits.setdefault(scope, []).append(wait)
        return self._open_waits.get(below, ())

    def next_ordinal(self, scope: str, key: str) -> int:
        """Claim the next ordinal of a key within a scope."""
        place = (scope, key)
        ordinal = self.ordinals.get(place, 0)
        self.ordinals[place] = ordinal + 1
        return ordinal

    def is_skipped(self, operation: Operation) -> bool:
        """Whether an abandon entry covers the operation."""
        return self.is_abandoned(operation.first.seq)

    def is_abandoned(self, seq: int | None) -> bool:
        """Whether an abandon entry covers the operation that began with an entry."""
        return seq in self.closings.covered

    def orphans(self, served_scopes: Iterable[str] = ()) -> tuple[list[Operation], list[Operation]]:
        """Return the open operations that no call took, in journal order, and apart those that are abandoned.

        A wait that an answer was tried at is none, and neither is what lies in or below the scopes.
        """
        orphans: tuple[list[Operation], list[Operation]] = ([], [])
        for operation in self._left_open(served_scopes):
            orphans[self.is_skipped(operation)].append(operation)
        return orphans

    def _left_open(self, served_scopes: Iterable[str]) -> Iterator[Operation]:
        served = frozenset(served_scopes)
        for operation in self.operations.values():
            first = operation.first
            if not operation.is_open or first.seq in self.closings.answered:
                continue
            if operation.consumed and not operation.is_set_aside:
                continue
            if served.isdisjoint(scopes_around(first.scope)):
                yield operation

    def unconsumed(self) -> list[Operation]:
        """Return every operation that no call took, in journal order."""
        return [operation for operation in self.operations.values() if not operation.consumed]

    def _named(self, seqs: frozenset[int]) -> frozenset[int]:
        """Return the operations that seqs name: by any entry of any attempt, and the children around them.

        A child that is served whole would never come to what is in it.
        """
        if not seqs:
            return seqs
        named: set[int] = set()
        scopes: set[str] = set()
        for seq, operation in self.operations.items():
            if seq in seqs or (operation.terminal is not None and operation.terminal.seq in seqs):
                named.add(seq)
                scopes.update(scopes_around(operation.first.scope))
        children = [child for child in self.operations.values() if child.first.kind == "child"]
        named.update(child.first.seq for child in children if scope_below(child) in scopes)
        for seq in sorted(named):
            while (later := self._repeated.get(seq)) is not None:
                named.add(later)
                seq = later
        return frozenset(named)

    def _add(self, entry: JournalEntry, closing: list[JournalEntry]) -> None:
        kind = entry.kind
        if entry.seq >= self.next_seq:
            self.next_seq = entry.seq + 1
        if entry.hash_version == 1:
            self.has_v1 = True
        if kind == "decision":
            self._add_decision(entry)
        elif kind in _CLOSING:
            closing.append(entry)
        elif kind in MATCHED_KINDS:
            if entry.ref is None:
                self._add_operation(entry)
            elif (operation := self.operations.get(entry.ref)) is not None:
                operation.terminal = entry
        else:
            self._count(entry)

    def _add_operation(self, entry: JournalEntry) -> None:
        self._has_duplicates = self._has_duplicates or entry.seq in self.operations
        operation = self.operations[entry.seq] = Operation(entry)
        place = self._count(entry)
        queues = self._asked_anew if operation.asks_always else self._queues
        queue = queues.get(place)
        if queue is None:
            queues[place] = [operation]
        else:
            queue.append(operation)
            self._shared.add(place)

    def _count(self, entry: JournalEntry) -> tuple[str, str]:
        place = (entry.scope, entry.key)
        if entry.hash_version == CURRENT_HASH_VERSION and self.ordinals.get(place, 0) <= entry.ordinal:
            self.ordinals[place] = entry.ordinal + 1
        return place

    def _add_decision(self, entry: JournalEntry) -> None:
        self._count(entry)
        if entry.key.startswith("pc:"):
            return  # one per exchange: nothing of it is matched or folded
        value = entry.value
        if not isinstance(value, dict):
            return
        kind = value.get("decisionType")
        if kind == "run_settle":
            status = value.get("runStatus")
            self.settled = status if status in _RUN_STATUSES else self.settled
        elif kind == "invalidation" and isinstance(value.get("target"), int):
            self._dismissed[value["target"]] = entry.seq
        elif isinstance(kind, str):
            self.decisions.setdefault(kind, []).append(entry)

    def _close(self, entries: Sequence[JournalEntry]) -> None:
        self.closings = fold_closings(self.operations, entries)
        for seq, entry in self.closings.answers.items():
            self.operations[seq].resolution = entry

    def _queue(self) -> None:
        """Put each repetition in the place of what it repeats, and the queues in the order of taking."""
        if self._has_duplicates:  # the last operation of a seq is the one that counts
            self._queues.clear()
            self._asked_anew.clear()
            for operation in self.operations.values():
                place = (operation.first.scope, operation.first.key)
                queues = self._asked_anew if operation.asks_always else self._queues
                queues.setdefault(place, []).append(operation)
        for queue in self._asked_anew.values():  # a repetition is no other call's: each stands for itself
            queue.reverse()
        for place in self._shared & self._queues.keys():
            self._queues[place] = self._latest_attempts(self._queues[place])[::-1]

    def _latest_attempts(self, group: list[Operation]) -> list[Operation]:
        """Return one operation per call: a repetition stands where the first one stood that it may repeat."""
        calls: list[Operation] = []
        # a heap of places in calls whose operation an earlier segment ran for nothing
        repeatable: list[int] = []
        fresh: list[int] = []  # the same of the segment at hand, which cannot repeat itself
        # a heap of seqs of invalidations, and the places that they free
        dismissed: list[tuple[int, int]] = []
        current = -1
        for operation in group:
            segment = segment_of(operation.first)
            if segment > current:
                current = segment
                for place in fresh:
                    heapq.heappush(repeatable, place)
                fresh.clear()
            while dismissed and dismissed[0][0] < operation.first.seq:
                heapq.heappush(repeatable, heapq.heappop(dismissed)[1])
            if repeatable and segment == current:
                place = heapq.heappop(repeatable)
                calls[place].consumed = True
                self._repeated[calls[place].first.seq] = operation.first.seq
                calls[place] = operation
            else:
                place = len(calls)
                calls.append(operation)
            if operation.terminal is None:
                continue  # one that dangles is finished under its own first entry, never repeated
            if self._by_table(operation, invalidated=False) is Disposition.RERUN:
                fresh.append(place)
            elif operation.first.seq in self._dismissed:
                heapq.heappush(dismissed, (self._dismissed[operation.first.seq], place))
        return calls


def _next(queue: list[Operation] | None) -> Operation | None:
    """Take the operation that comes next."""
    if not _left(queue):
        return None
    assert queue is not None
    operation = queue.pop()
    operation.consumed = True
    return operation


def _left(queue: list[Operation] | None) -> list[Operation] | None:
    """Drop from the end of a queue what has been taken by another way."""
    while queue and queue[-1].consumed:
        queue.pop()
    return queue


def scope_below(operation: Operation) -> str | None:
    """Return the scope of what happens inside an operation, or None when nothing can."""
    first = operation.first
    if first.kind == "child":
        value = first.value
        scope = value.get("childScope") if isinstance(value, dict) else None
        return scope if isinstance(scope, str) else None
    return agent_scope(first.scope, first.seq) if first.kind in ("agent", "step") else None


def segment_of(entry: JournalEntry) -> int:
    """Return the execution segment (0-based) that wrote an entry, as its span id tells."""
    digits = entry.span_id[1:].removesuffix(ALWAYS_ASKS)
    return int(digits) >> SEGMENT_BITS if digits.isdecimal() else 0
