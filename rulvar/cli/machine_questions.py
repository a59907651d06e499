"""What state machines ask people: the documents at the places where they wait, told as text.

A journal holds the documents that a machine has saved, so nobody needs the machine's class, or an app,
to be shown the question.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rulvar.errors import RulvarError
from rulvar.machines.fold import fold_run

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry
    from rulvar.contracts.outcome import Pending
    from rulvar.machines.document import Document
    from rulvar.machines.view import RunView

__all__ = ["asked_together", "question_of", "with_questions"]


def with_questions(pending: Sequence[Pending], entries: Iterable[JournalEntry], run_id: str) -> list[Pending]:
    """Return waits with what a person is asked: a machine's wait gets the documents at its place as its prompt."""
    nodes = _nodes(entries, run_id) if any(way.transition is not None for way in pending) else {}
    return [
        way
        if way.prompt is not None or way.key not in nodes
        else replace(way, prompt=question_of(nodes[way.key]))
        for way in pending
    ]


def asked_together(
    pending: Sequence[Pending], entries: Iterable[JournalEntry], run_id: str
) -> list[list[Pending]]:
    """Return the questions for a person, each as the waits of which one is to be answered.

    Several ways out of one place are one question. A machine that asks nothing itself, and waits for a
    child that does, is left out.
    """
    asked = with_questions(pending, entries, run_id)
    nodes = _nodes(entries, run_id) if any(way.transition is not None for way in pending) else {}
    groups: dict[int, list[Pending]] = {}
    for way in asked:
        node = nodes.get(way.key)
        waits_for_child = node is not None and any(
            child.waits for item in node.children for child in item.open_tree()
        )
        if way.prompt is not None or not waits_for_child:
            groups.setdefault(way.entry_ref, []).append(way)
    return list(groups.values())


def question_of(node: RunView) -> str | None:
    """Return what a machine shows where it stands, as text; None when that is nothing."""
    latest: dict[str, Document] = {}
    for document in node.documents:
        is_here = document.place == node.place or node.place in document.enable_at
        is_answered = isinstance(document.content, Mapping) and "answer" in document.content
        if is_here and not document.internal and node.place not in document.hide_at and not is_answered:
            latest[document.name] = document
    return "\n".join(_text(document.content) for document in latest.values()) or None


def _nodes(entries: Iterable[JournalEntry], run_id: str) -> dict[str, RunView]:
    """Return the machine that each wait belongs to, by the wait's key; none where the journal cannot be folded."""
    try:
        tree = fold_run(entries, run_id).tree()
    except RulvarError:
        return {}
    return {way.key: node for node in tree if node.place is not None for way in node.waits}


def _text(content: Any) -> str:
    """Return a document's content for people: a single text as it is, fields on lines of their own otherwise."""
    if not isinstance(content, Mapping):
        return _value(content)
    told = {name: value for name, value in content.items() if value not in (None, "", [], {})}
    if len(told) == 1:
        return _value(next(iter(told.values())))
    return "\n".join(f"{name}: {_value(value)}" for name, value in told.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)
