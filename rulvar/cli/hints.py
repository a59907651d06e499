"""What a person may have meant: verbs, options and runs that come near to what was typed."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rulvar.cli.verbs import Verb

__all__ = ["did_you_mean", "near_options", "near_run_ids", "near_verb"]

_OTHER_WORDS: Mapping[str, str] = {
    "approve": "answer",
    "continue": "resume",
    "delete": "cancel",
    "describe": "inspect",
    "history": "inspect",
    "info": "inspect",
    "kill": "cancel",
    "list": "runs ls",
    "log": "inspect",
    "logs": "inspect",
    "ps": "runs ls",
    "record": "runs",
    "respond": "answer",
    "retry": "resume",
    "show": "runs",
    "start": "run",
    "status": "runs",
    "stop": "cancel",
    "submit": "run",
    "test": "shake",
    "tree": "runs",
    "verify": "replay",
    "view": "runs",
}
"""Words that other programs have for what a verb does."""
_MOST_RUNS = 3


def did_you_mean(names: Sequence[str], otherwise: str) -> str:
    """Return the end of a message: the names that come near, or what to do where none does."""
    if not names:
        return otherwise
    return f"did you mean {' or '.join(map(repr, names))}?"


def near_verb(word: str, verbs: Iterable[Verb], group: str = "") -> str | None:
    """Return the name of the verb that a word may mean, or None.

    Args:
        group: only verbs of this group.
    """
    names = [
        verb.name for verb in verbs if not group or verb.name == group or verb.name.startswith(f"{group} ")
    ]
    by_tail = {name.rpartition(" ")[2]: name for name in reversed(names)}
    others = {
        other: name
        for other, name in _OTHER_WORDS.items()
        if name in names and (not group or other not in by_tail)
    }
    known = {**by_tail, **others, **{name: name for name in names}}
    near = difflib.get_close_matches(word, known, 1)
    return known[near[0]] if near else None


def near_options(word: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the option of a parser that comes nearest to a word, as a list of at most one."""
    options = [text for action in parser._actions for text in action.option_strings]
    name = word.partition("=")[0]
    longer = [text for text in options if len(name) > 2 and text.startswith(name)]
    near = difflib.get_close_matches(name, options, len(options))
    swapped = [text for text in near if sorted(text) == sorted(name)]
    return (longer or swapped or near)[:1]


def near_run_ids(text: str, known: Sequence[str]) -> list[str]:
    """Return the ids that come near to a text: those that begin with it, the latest first, or those like it."""
    start = text.casefold()
    beginning = (
        sorted((name for name in known if name.casefold().startswith(start)), reverse=True) if text else []
    )
    return (beginning or difflib.get_close_matches(text, known, _MOST_RUNS))[:_MOST_RUNS]
