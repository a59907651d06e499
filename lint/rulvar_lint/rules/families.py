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


# Families that do nothing but report these rules; on what the others notice more may depend.
_REPORTED: Final = {
    workflows: frozenset({"RLV309", "RLV311"}),
    identity: frozenset({"RLV401", "RLV402"}),
    dependencies: frozenset({"RLV403", "RLV404"}),
}


def hooks(selected: frozenset[str]) -> Hooks:
    """A fresh set of listeners, without those that could only report rules that are not selected."""
    made = Hooks(selected)
    for family in _FAMILIES:
        if family not in _REPORTED or _REPORTED[family] & selected:
            family.install(made)
    return made
