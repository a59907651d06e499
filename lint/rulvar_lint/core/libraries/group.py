"""The shape of the library table: groups of dotted names that do the same thing."""

from __future__ import annotations

from typing import NamedTuple


class Group(NamedTuple):
    """Dotted names with one effect.

    Attributes:
        code: rule that reports it.
        does: what a call does, to follow the name in a message.
        paths: names, separated by white space; a trailing `.*` stands for every name below.
        when: condition on the arguments: "" (always), "no-args", "few-args" (fewer than two),
            "unseeded", "positive", "now" (the text "now" or "today"), "no-buffer" (not written into memory), "no-tz".
        severity: "" for the rule's own.
        pure: names below a `.*` that do nothing of the kind.
    """

    code: str
    does: str
    paths: str
    when: str = ""
    severity: str = ""
    pure: str = ""
