"""Builtins and library functions that go through their argument."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from rulvar_lint.core.alternatives import join, pairs
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.calls import call_value
from rulvar_lint.core.expressions import INT, is_int
from rulvar_lint.core.operators import iterate
from rulvar_lint.core.order import order_of as order_of_value
from rulvar_lint.core.order import see_order
from rulvar_lint.core.values import (
    Const,
    Container,
    Dict,
    Ext,
    Inst,
    Obj,
    Seq,
    Set,
    Unknown,
    Value,
    options_of,
    with_taint,
)

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame


def _elements(f: Frame, node: ast.AST, args: Args) -> Value | None:
    value = args.first()
    return iterate(f, node, value) if value is not None else None


def make_list(kind: str, verb: str) -> Callable[[Frame, ast.AST, Ext, Args], Value | None]:
    """A conversion that keeps the order of what it goes through."""

    def convert(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
        value = args.first()
        if value is None:
            return f.new_seq(kind, None if args.pos or args.rest is not None else [])
        elem = _elements(f, node, args)
        made = f.new_seq(kind, None, elem)
        if isinstance(value, Seq) and value.items is not None and value.elem is None:
            made.items, made.elem = list(value.items), None
        made.order = order_of_value(f, node, value, verb)
        return with_taint(made, value.taint)

    return convert


def enumerate_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.first()
    if value is None:
        return None
    made = f.new_seq("iter", None, f.new_seq("tuple", [INT, _elements(f, node, args)]))
    made.order = order_of_value(f, node, value, "numbers")
    return made


def zip_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    items = [iterate(f, node, value) for value in args.pos]
    made = f.new_seq("zip", None, f.new_seq("tuple", items) if any(items) else None)
    for value in args.pos:
        made.order = made.order or order_of_value(f, node, value, "pairs")
    return made


def map_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    func = args.pos[0] if args.pos else None
    items = [iterate(f, node, value) for value in args.pos[1:]]
    kind = ext.path.rpartition(".")[2]
    result = call_value(f, node, func, Args(list(items), {})) if func is not None else None
    made = f.new_seq(kind, None, result if kind == "map" else (items[0] if items else None))
    for value in args.pos[1:]:
        made.order = made.order or order_of_value(f, node, value, "maps over" if kind == "map" else "filters")
    return made


def make_set(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.first()
    elem = _elements(f, node, args)
    stable = bool(
        (isinstance(value, Set) and value.stable)
        or (isinstance(value, Obj) and value.type == "builtins.range")
        or (isinstance(value, Seq) and elem is not None and value.items and all(map(is_int, value.items)))
    )
    return f.new_set(elem, stable)


def make_dict(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if args.pos else None
    made = f.new_dict(dict(args.kw))
    name = ext.path.rpartition(".")[2]
    if name in ("defaultdict", "ChainMap") and args.pos:
        if name == "defaultdict":
            made.elem = call_value(f, node, value, Args([], {})) if value is not None else None
        value = args.pos[1] if len(args.pos) > 1 else None
    if isinstance(value, Dict):
        made.entries = {**value.entries, **made.entries}
        made.elem = join(made.elem, value.elem)
    elif isinstance(value, Container) and name not in ("Counter", "ChainMap"):
        entries, elem = pairs(value)
        made.entries = {**entries, **made.entries}
        made.elem = join(made.elem, elem)
    made.order = order_of_value(f, node, value, "fills a mapping from")
    return made


def from_keys(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    made = f.new_dict(None, args.get(1, "value"))
    made.order = order_of_value(f, node, args.pos[0] if args.pos else None, "fills a mapping from")
    return made


def sorted_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    elem = _elements(f, node, args)
    f.m.call_key(f, node, args.kw.get("key"), [elem])
    if "key" not in args.kw:
        f.m.sort(f, node, elem)
    value = args.first()
    made = f.new_seq("list", None, elem)
    return made if value is None or value.taint is None else with_taint(made, value.taint)


def extreme(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    elem = _elements(f, node, args) if len(args.pos) == 1 else None
    f.m.call_key(f, node, args.kw.get("key"), [elem])
    if "key" not in args.kw:
        for value in (elem, *args.pos):
            f.m.sort(f, node, value)
    taint = args.taint()
    if len(args.pos) == 1:
        return with_taint(elem, taint)
    if args.pos and all(is_int(value) for value in args.pos):
        return with_taint(INT, taint)
    return Unknown(taint) if taint is not None else None


def erasing(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Functions whose result does not depend on the order of their argument."""
    name = ext.path.rpartition(".")[2]
    value = args.first()
    elem = None if name in ("len", "bool") else _elements(f, node, args)
    if name in ("sum", "fsum") and elem is not None:
        _sum(f, node, value, elem)
    taint = args.taint()
    return with_taint(INT if name == "len" or is_int(elem) else None, taint)


def _sum(f: Frame, node: ast.AST, value: Value | None, elem: Value) -> None:
    """Adding floats is not associative: their sum does depend on the order."""
    if any(isinstance(o, Obj) and o.type == "builtins.float" for o in options_of(elem)) or any(
        isinstance(o, Const) and isinstance(o.value, float) for o in options_of(elem)
    ):
        see_order(f, node, value, "adds the floats of")


def next_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if args.pos else None
    see_order(f, node, value, "takes an element of")
    for hook in f.m.hooks.mutation:
        hook(f, node, value, "__next__", args)
    if isinstance(value, Inst):
        return f.m.call_special(f, node, value, "__next__", [])
    return _elements(f, node, args)


def reduce_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.get(1, "iterable")
    see_order(f, node, value, "folds")
    func = args.pos[0] if args.pos else None
    if func is not None:
        return call_value(f, node, func, Args([None, iterate(f, node, value)], {}))
    return None


def chain(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    made = f.new_seq("iter", None, None)
    for value in args.pos:
        for part in (value, iterate(f, node, value)):
            made.order = made.order or order_of_value(f, node, part, "chains")
        made.elem = join(made.elem, iterate(f, node, value))
    return made
