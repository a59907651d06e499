"""Tests that are decided by what a helper is given: `at or time.time()` reads no clock when `at` is
passed.
"""

from __future__ import annotations

import ast
from copy import copy
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.frame import HOST, PLAIN
from rulvar_lint.core.nodes import mentions, own_nodes
from rulvar_lint.core.values import (
    Bound,
    Class,
    Const,
    Container,
    Coro,
    Ctx,
    CtxMember,
    Func,
    Inst,
    Obj,
    Partial,
    Union,
    Value,
    merge_taint,
    options_of,
    with_taint,
)

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

_SOMETHING: Final = (Bound, Class, Container, Coro, Ctx, CtxMember, Func, Inst, Obj, Partial)
_ALWAYS_TRUE: Final = (Bound, Class, Ctx, CtxMember, Func, Partial)
_TRUE_TYPES: Final = frozenset({"datetime.datetime", "datetime.date", "uuid.UUID", "pathlib.Path"})
_NUMBERS: Final = ("builtins.", "datetime.timedelta", "decimal.", "fractions.", "numpy.", "pandas.")


def chosen(f: Frame, value: Value | None, by: Value | None) -> Value | None:
    """What an unstable value picks at import, or in a helper, is as unstable. A container or object is copied: only
    the picked one is.
    """
    if by is None or by.taint is None or f.mode not in (HOST, PLAIN):
        return value
    if isinstance(value, Union):
        return Union(tuple(chosen(f, option, by) or option for option in value.options))
    if isinstance(value, (Container, Inst)):
        picked = copy(value)
        picked.taint = merge_taint(value.taint, by.taint)
        return picked
    return with_taint(value, by.taint)


def decided(f: Frame, test: ast.expr) -> bool | None:
    """Whether a test of an argument of the helper that is running is certainly true, or certainly
    false; None where that is open.
    """
    if f.mode != PLAIN or f.loops or f.m.undecided or f.decl is None or "cyclic" in f.decl.flags:
        return None
    answer = _answer(f, test)
    if answer is not None:
        f.m.decisions += 1
    return answer


def _answer(f: Frame, test: ast.expr) -> bool | None:
    cls = test.__class__
    if cls is ast.Name:
        return _alike(_truth(f, value) for value in _given(f, test))
    if cls is ast.UnaryOp and isinstance(test.op, ast.Not):  # type: ignore[attr-defined]
        inner = _answer(f, test.operand)  # type: ignore[attr-defined]
        return None if inner is None else not inner
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        other, op = test.comparators[0], test.ops[0]
        if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(other, ast.Constant) and other.value is None:
            nothing = _alike(_is_none(value) for value in _given(f, test.left))
            return nothing if nothing is None or isinstance(op, ast.Is) else not nothing
    return None


def _alike(answers: object) -> bool | None:
    found = set(answers)  # type: ignore[call-overload]
    return found.pop() if len(found) == 1 else None


def _given(f: Frame, node: ast.expr) -> tuple[Value, ...]:
    """What a parameter was given, if nothing else has been put into it yet."""
    if not isinstance(node, ast.Name) or f.decl is None:
        return ()
    param = next((p for p in f.decl.params if p.name == node.id and p.kind in ("pos", "kw")), None)
    value = f.env.get(node.id)
    if param is None or value is None:
        return ()
    written = param.annotation
    if written is not None and value is f.m.annotated(f.decl, param) and _may_be_none(written):
        return ()
    if any(_binds(inner, node) for inner in own_nodes(f.decl.node)):
        return ()
    return options_of(value)


def _may_be_none(annotation: ast.expr) -> bool:
    return any(mentions(annotation, word) for word in ("Optional", "None")) or any(
        isinstance(part, ast.Constant) and part.value is None for part in ast.walk(annotation)
    )


def _binds(inner: ast.AST, name: ast.Name) -> bool:
    """Whether a node gives a variable a new value before the line that reads it."""
    return (
        isinstance(inner, ast.Name)
        and inner.id == name.id
        and not isinstance(inner.ctx, ast.Load)
        and inner.lineno < name.lineno
    )


def _truth(f: Frame, value: Value) -> bool | None:
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, _ALWAYS_TRUE):
        return True
    if isinstance(value, Inst):
        return None if f.m.may_be_false(value) else True
    if isinstance(value, Obj):
        if value.type == "builtins.float":
            return True if is_clock(value) else None
        if value.type == "builtins.str":
            return True if is_filled(value) else None
        is_object = f.m.catalog.is_type(value.type) and not value.type.startswith(_NUMBERS)
        return True if is_object or value.type in _TRUE_TYPES else None
    return None


def is_clock(value: Obj) -> bool:
    """Whether a number is what `ctx.time()` gives, which is never zero."""
    func = getattr(value.node, "func", None)
    return isinstance(func, ast.Attribute) and func.attr == "time"


def is_filled(value: Obj) -> bool:
    """Whether a text is certainly not empty: it was made from an object, or has letters of its own."""
    node = value.node
    return isinstance(node, ast.Constant) or getattr(getattr(node, "func", None), "id", "") == "str"


def _is_none(value: Value) -> bool | None:
    if isinstance(value, Const):
        return value.value is None
    return False if isinstance(value, _SOMETHING) else None
