"""The tree of errors: every one of them is offered and drawn."""

from __future__ import annotations

import re

from rulvar import errors
from rulvar.errors import ControlFlow, RulvarError

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, (RulvarError, ControlFlow))
}
RAISED = {name: kind for name, kind in CLASSES.items() if issubclass(kind, RulvarError)}


def test_every_error_is_offered() -> None:
    assert errors.__all__ == sorted(CLASSES)


def test_the_drawing_shows_every_error_below_its_base() -> None:
    above: dict[int, str] = {}
    drawn: dict[str, str] = {}
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        if found := re.match(r"    ([ │├└─]*)([A-Z]\w+) ", line):
            depth = len(found[1])
            above[depth] = found[2]
            drawn[found[2]] = above[depth - 4] if depth else "Exception"
    assert drawn == {name: kind.__bases__[0].__name__ for name, kind in RAISED.items()}
