"""Syntax trees of Python text."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import overload


@overload
def syntax_tree(text: str | bytes) -> ast.Module: ...
@overload
def syntax_tree(text: str | bytes, mode: str) -> ast.Expression: ...


def syntax_tree(text: str | bytes, mode: str = "exec") -> ast.AST:
    """Parse a module, or with ``eval`` an expression.

    Raises:
        SyntaxError, ValueError: it is no Python.
        RecursionError, MemoryError: it is nested too deeply.
    """
    try:
        return ast.parse(text, mode=mode)
    except (
        SystemError
    ):  # Python 3.11: a finalizer that parsed, too, while the tree was being built (gh-106905)
        with no_collection():
            return ast.parse(text, mode=mode)


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold the cyclic garbage collector back: a new tree makes it run for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
