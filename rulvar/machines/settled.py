"""Answers to a machine whose run is not live: guard and payload are asked over the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import Pending
from rulvar.engine.waits import admit_answer
from rulvar.machines.answer import admit
from rulvar.machines.commit import Commit
from rulvar.machines.definition import Definition
from rulvar.machines.mentions import Mentions
from rulvar.machines.progress import Progress

__all__ = ["admit_settled", "commits_of", "progress_of"]


def admit_settled(
    definition: Definition, mentions: Mentions, entries: list[JournalEntry], way: Pending, value: Any
) -> Any:
    """Check an answer and return what is journaled for it.

    A wait of a child is checked by the child's own class where the machine's code mentions it. Where it
    does not, the payload's schema is checked now, and the guard when the run is resumed.

    Raises:
        ResolutionError: the answer is refused.
    """
    if way.transition is None:
        return admit_answer(way, value)
    owner = _owner(definition, mentions, entries, way.scope)
    if owner is None:
        return admit_answer(way, value)
    progress = progress_of(entries, way.scope)
    return admit(owner, owner.machine(), progress.place, progress.state, way, value)


def progress_of(entries: Iterable[JournalEntry], scope: str) -> Progress:
    """Return where the machine of a scope stands."""
    progress = Progress()
    for commit in commits_of(entries, scope):
        progress.apply(commit)
    return progress


def commits_of(entries: Iterable[JournalEntry], scope: str) -> Iterator[Commit]:
    """Yield the commits of the machine of a scope, in order."""
    for entry in entries:
        if entry.kind == "step" and entry.scope == scope and entry.ref is not None and entry.status == "ok":
            value = entry.value
            if isinstance(value, dict) and "transition" in value:
                yield Commit.from_wire(value)


def _owner(
    definition: Definition, mentions: Mentions, entries: Iterable[JournalEntry], scope: str
) -> Definition | None:
    if not scope:
        return definition
    for entry in entries:
        if entry.kind != "child" or entry.ref is not None:
            continue
        value = entry.value
        if isinstance(value, dict) and value.get("childScope") == scope:
            workflow = mentions.workflow(str(value.get("workflow")))
            found = getattr(getattr(workflow, "source", None), "definition", None)
            return found if isinstance(found, Definition) else None
    return None
