"""Gives calls the keys that they have once the answers before them are masked.

A masked answer may stand in the next prompt, which is then another call to the journal. The replay
serves each call by its place among the recorded ones and notes the key that it has now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.observer import ClaimRecord
from rulvar.engine.branch import Place
from rulvar.engine.calls import Call, Claim
from rulvar.engine.run import Run
from rulvar.kernel.keys import content_key
from rulvar.kernel.matching import Operation

__all__ = ["PlaceMatching", "rekeyed"]


class PlaceMatching:
    """Matches the calls of one replay by their place among recorded ones.

    Attributes:
        identities: by place, what a call is that has another identity than the recorded one.
    """

    def __init__(self, claims: Sequence[ClaimRecord]) -> None:
        self._claims = claims
        self._place = 0
        self.identities: dict[int, Mapping[str, Any]] = {}

    def attach(self, run: Run) -> None:
        """Match the calls of a run."""
        claim = run.claim

        def by_place(place: Place, call: Call) -> Claim:
            number, self._place = self._place, self._place + 1
            if number >= len(self._claims):
                return claim(place, call)
            recorded = self._claims[number]
            if recorded.scope != place.scope or recorded.identity["kind"] != call.identity["kind"]:
                return claim(place, call)
            if recorded.key != call.key:
                self.identities[number] = call.identity
                call = msgspec.structs.replace(call, identity=recorded.identity, key=recorded.key)
            return claim(place, call)

        vars(run)["claim"] = by_place


def rekeyed(
    entries: Sequence[JournalEntry],
    operations: Sequence[Operation | None],
    identities: Mapping[int, Mapping[str, Any]],
) -> list[JournalEntry]:
    """Return entries in which the operations at these places have the keys of their new identities."""
    keys: dict[int, str | None] = {}
    for place, identity in identities.items():
        operation = operations[place]
        if operation is not None:
            for entry in (operation.first, operation.terminal):
                if entry is not None:
                    keys[entry.seq] = content_key(identity, 2 if entry.hash_version != 1 else 1)
    if not keys:
        return list(entries)
    counts: dict[tuple[str, str], int] = {}
    ordinals: dict[int, int] = {}
    result: list[JournalEntry] = []
    for entry in entries:
        key = keys.get(entry.seq, entry.key)
        if entry.ref is not None:
            ordinal = ordinals.get(entry.ref, entry.ordinal)
        else:
            ordinal = counts.get((entry.scope, str(key)), 0)
            counts[entry.scope, str(key)] = ordinal + 1
            ordinals[entry.seq] = ordinal
        if (key, ordinal) == (entry.key, entry.ordinal) or not entry.key:
            result.append(entry)
        else:
            result.append(JournalEntry.from_wire({**entry.to_wire(), "key": key, "ordinal": ordinal}))
    return result
