"""Trees are built whatever the garbage collector does meanwhile."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator

import pytest

from rulvar_lint.core.syntax import no_collection, syntax_tree

TEXT = "x = f(a)(b)[c].d + 1\n" * 300


class ParsesAtItsEnd:
    """Garbage that parses when it is collected, as a traceback does that is printed for it."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("f(x)[1].y + (2 * 3)")


@pytest.fixture
def eager_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(50, 1, 1)
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("eager_collector")
def test_a_finalizer_that_parses_disturbs_no_tree_that_is_being_built() -> None:
    for _ in range(50):
        ParsesAtItsEnd()
        assert len(syntax_tree(TEXT).body) == 300


def test_what_is_no_python_is_refused_as_ever() -> None:
    for text in ("f(", "a\0b"):
        with pytest.raises((SyntaxError, ValueError)):
            syntax_tree(text)


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
