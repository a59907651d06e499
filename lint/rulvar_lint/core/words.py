"""Long lists of names, written as text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text, which are separated by white space."""
    return tuple(text.split())


def names(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())
