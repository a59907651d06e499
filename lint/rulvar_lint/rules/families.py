"""The families of rules. Each listens to the interpreter through hooks; they do not know each other."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.hooks import Hooks
from rulvar_lint.rules import (
    ambient,
    cassettes,
    concurrency,
    dependencies,
    flow,
    handlers,
    identity,
    locales,
    replacements,
    state,
    steps,
    text,
    workflows,
)

_FAMILIES: Final = (
    ambient,
    replacements,
    text,
    locales,
    state,
    concurrency,
    flow,
    steps,
    handlers,
    workflows,
    identity,
    dependencies,
    cassettes,
)


def hooks() -> Hooks:
    """A fresh set of listeners with every rule installed."""
    made = Hooks()
    for family in _FAMILIES:
        family.install(made)
    return made
