"""How entries that point back close what they point at: answers to waits, and abandoned branches.

The fold goes through the journal once, in order. For a wait the first entry counts that closes it: an answer that
fits the schema in the wait's own entry, or an abandon that covers it. What comes later changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rulvar.contracts.canonical import canonical_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.errors import RulvarError
from rulvar.kernel.scope import scopes_around

__all__ = ["Closable", "Closings", "fold_closings"]


class Closable(Protocol):
    """What the fold asks of an operation."""

    @property
    def first(self) -> JournalEntry:
        """The entry that opened it."""

    @property
    def waits(self) -> bool:
        """Whether it is a wait."""

    @property
    def scope_below(self) -> str | None:
        """The scope of what happens inside it, or None when nothing can."""


@dataclass(frozen=True, slots=True)
class Closings:
    """What the entries of a journal that point back come to.

    Attributes:
        answers: the entry that answers a wait, by the wait's seq.
        answered: seqs of the waits that any answer was tried at.
        refused: seqs of the answers that are none: not to a wait, or not as its schema wants them.
        covered: seqs of the operations that are abandoned.
    """

    answers: Mapping[int, JournalEntry]
    answered: frozenset[int]
    refused: tuple[int, ...]
    covered: frozenset[int]


def fold_closings(operations: Mapping[int, Closable], entries: Sequence[JournalEntry]) -> Closings:
    """Fold the answers and abandons of a journal.

    Args:
        operations: by the seq of their first entry.
        entries: those of the kinds ``resolution`` and ``abandon``, in journal order.
    """
    if not entries:
        return Closings({}, frozenset(), (), frozenset())
    fold = _Fold(operations)
    for entry in entries:
        if entry.kind == "abandon":
            fold.abandon(entry)
        else:
            fold.answer(entry)
    covered = frozenset(seq for seq, operation in operations.items() if fold.is_covered(operation))
    return Closings(fold.answers, frozenset(fold.answered), tuple(fold.refused), covered)


class _Fold:
    def __init__(self, operations: Mapping[int, Closable]) -> None:
        self.answers: dict[int, JournalEntry] = {}
        self.answered: set[int] = set()
        self.refused: list[int] = []
        self._operations = operations
        self._targets: set[int] = set()
        self._scopes: set[str] = set()
        self._contracts: dict[bytes, SchemaContract | None] = {}

    def is_covered(self, operation: Closable) -> bool:
        first = operation.first
        if first.seq in self._targets:
            return True
        return bool(self._scopes) and not self._scopes.isdisjoint(scopes_around(first.scope))

    def abandon(self, entry: JournalEntry) -> None:
        target = self._target(entry)
        if target is None or self.is_covered(target) or target.first.seq in self.answers:
            return
        self._targets.add(target.first.seq)
        below = target.scope_below
        if below is not None:
            self._scopes.add(below)

    def answer(self, entry: JournalEntry) -> None:
        target = self._target(entry)
        if target is None or not target.waits:
            self.refused.append(entry.seq)
            return
        seq = target.first.seq
        self.answered.add(seq)
        if self.is_covered(target) or seq in self.answers:
            return
        if self._fits(target.first, entry):
            self.answers[seq] = entry
        else:
            self.refused.append(entry.seq)

    def _target(self, entry: JournalEntry) -> Closable | None:
        return None if entry.ref is None else self._operations.get(entry.ref)

    def _fits(self, wait: JournalEntry, entry: JournalEntry) -> bool:
        resolution = entry.to_wire().get("resolution")
        if not isinstance(resolution, dict):
            return False
        if b'"schema"' not in wait.line:
            return True
        facts = wait.value
        contract = self._contract(facts["schema"]) if isinstance(facts, dict) and "schema" in facts else None
        return contract is None or not contract.issues(resolution.get("value"))

    def _contract(self, schema: Any) -> SchemaContract | None:
        """Return the contract of a recorded schema; one that cannot be used refuses nothing."""
        if not isinstance(schema, (dict, bool)):
            return None
        text = canonical_json(schema)
        if text not in self._contracts:
            try:
                # a journaled answer was accepted by the rules of its day
                self._contracts[text] = schema_contract(schema, asserts_formats=False)
            except RulvarError:
                self._contracts[text] = None
        return self._contracts[text]
