"""Values that are serialised: whether the orders in them are looked at."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from rulvar_lint.core.order import see_order, use_order
from rulvar_lint.core.values import Const, Container, Dict, Ext, Seq, Set, Value

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.frame import Frame


def _use_lists(f: Frame, node: ast.AST, value: Value | None, depth: int = 0) -> None:
    """The orders that sorting the keys of mappings leaves."""
    if isinstance(value, Dict):
        for inner in (value.elem, *value.entries.values()) if depth < 4 else ():
            _use_lists(f, node, inner, depth + 1)
    elif isinstance(value, Seq):
        if value.order is not None:
            value.order.matters(f, node)
        for inner in (value.elem, *(value.items or ())) if depth < 4 else ():
            _use_lists(f, node, inner, depth + 1)


def dumps(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`json.dumps`: orders are looked at. A `default` function is called."""
    value = args.get(0, "obj")
    keys = args.kw.get("sort_keys")
    if "option" in args.kw or (keys is None and ext.path.startswith("yaml.")):
        keys = Const(True)
    if isinstance(keys, Const) and keys.value:
        _use_lists(f, node, value)
    elif isinstance(value, Container) and not isinstance(value, Set):
        use_order(f, node, value)
    other = args.kw.get("default")
    if isinstance(other, Ext) and other.path in (
        "builtins.list",
        "builtins.tuple",
        "builtins.str",
        "builtins.repr",
    ):
        _see_sets(f, node, value)
    f.m.call_key(f, node, other, [None])
    made = f.m.tainted_text(args.taint())
    for hook in f.m.hooks.dumps:
        made = hook(f, node, ext, args, made)
    return made


def _see_sets(f: Frame, node: ast.AST, value: Value | None, depth: int = 0) -> None:
    """The sets in a value are written in their order."""
    if isinstance(value, Set):
        see_order(f, node, value, "serialises")
    elif isinstance(value, (Dict, Seq)) and depth < 4:
        inner = value.entries.values() if isinstance(value, Dict) else value.items or ()
        for item in (value.elem, *inner):
            _see_sets(f, node, item, depth + 1)
