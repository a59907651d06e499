"""The arguments of a call, and the parameters they are bound to."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import element_of
from rulvar_lint.core.expressions import eval_items
from rulvar_lint.core.order import order_of, see_order
from rulvar_lint.core.values import Const, Container, Ctx, Dict, Func, Seq, Star, Unknown, Value, merge_taint

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.order import Pending
    from rulvar_lint.core.values import Env, Taint


_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class Args:
    """Evaluated arguments. `marks` holds, per argument node, how many findings there were before
    and after it.
    """

    __slots__ = ("kw", "kw_nodes", "marks", "pos", "pos_nodes", "rest")

    def __init__(self, pos: list[Value | None], kw: dict[str, Value | None]) -> None:
        self.pos = pos
        self.kw = kw
        self.rest: Value | None = None
        self.pos_nodes: Sequence[ast.expr] = ()
        self.kw_nodes: Mapping[str, ast.expr] = _NOTHING
        self.marks: Mapping[ast.expr, tuple[int, int]] = _NOTHING

    def values(self) -> list[Value]:
        """The known values among the arguments, `*` and `**` included."""
        found = [value for value in self.pos if value is not None]
        if self.kw:
            found += [value for value in self.kw.values() if value is not None]
        if self.rest is not None:
            found.append(self.rest)
        return found

    def get(self, index: int, name: str) -> Value | None:
        """The argument at `index` or named `name`."""
        if index < len(self.pos):
            value = self.pos[index]
            return value.value if isinstance(value, Star) else value
        if self.rest is not None and name not in self.kw and isinstance(self.rest, Dict):
            return self.rest.entries.get(name)
        return self.kw.get(name)

    def first(self) -> Value | None:
        """The argument that builtins go through."""
        return self.get(0, "iterable")

    def taint(self) -> Taint:
        """What any of the arguments carries."""
        taint: Taint = None
        for value in self.values():
            taint = merge_taint(taint, value.taint)
        return taint

    def node(self, index: int, name: str) -> ast.expr | None:
        """The expression of that argument."""
        if index < len(self.pos_nodes):
            return self.pos_nodes[index]
        return self.kw_nodes.get(name)

    def count(self) -> int:
        """How many arguments are given."""
        return len(self.pos) + len(self.kw)


def eval_args(f: Frame, node: ast.Call) -> Args:
    """Evaluate the arguments of a call, left to right."""
    args = Args(eval_items(f, node.args) if node.args else [], {})
    args.pos_nodes = node.args
    if node.keywords:
        nodes: dict[str, ast.expr] = {}
        args.kw_nodes = nodes
        for keyword in node.keywords:
            value = f.ev[keyword.value.__class__](f, keyword.value)
            if keyword.arg is None:
                args.rest = value if value is not None else Unknown()
            else:
                args.kw[keyword.arg] = value
                nodes[keyword.arg] = keyword.value
    return args


def eval_marked_args(f: Frame, node: ast.Call) -> Args:
    """As `eval_args`, and remembers which findings belong to which argument."""
    args = Args([], {})
    args.pos_nodes = node.args
    marks: dict[ast.expr, tuple[int, int]] = {}
    args.marks = marks
    log = f.m.log
    for arg in node.args:
        before = len(log)
        if arg.__class__ is ast.Starred:
            args.pos += eval_items(f, [arg])
        else:
            args.pos.append(f.ev[arg.__class__](f, arg))
        marks[arg] = (before, len(log))
    nodes: dict[str, ast.expr] = {}
    args.kw_nodes = nodes
    for keyword in node.keywords:
        before = len(log)
        value = f.ev[keyword.value.__class__](f, keyword.value)
        if keyword.arg is None:
            args.rest = value if value is not None else Unknown()
        else:
            args.kw[keyword.arg] = value
            nodes[keyword.arg] = keyword.value
        marks[keyword.value] = (before, len(log))
    return args


def holds_ctx(args: Args) -> bool:
    """Whether ctx itself is among the arguments."""
    return Ctx in map(type, args.pos) or Ctx in map(type, args.kw.values())


def bind(f: Frame, func: Func, args: Args, node: ast.AST | None = None) -> tuple[Env, list[str]]:
    """Parameters to values, and the names of those that take their default. `node` is the call."""
    decl = func.decl
    pos = _expand(args.pos)
    if func.bound is not None:
        pos.insert(0, func.bound)
    kw = args.kw
    rest_elem = element_of(args.rest) if isinstance(args.rest, Container) else None
    env: Env = {}
    defaulted: list[str] = []
    index = 0
    spread: Value | None = None
    is_spread = False
    for param in decl.params:
        name = param.name
        if param.kind == "pos" and index < len(pos):
            value = pos[index]
            if isinstance(value, Star):
                if node is not None and not is_spread:
                    see_order(f, node, value.value, "unpacks")
                spread, is_spread = value.value, True
                value = element_of(spread) if isinstance(spread, Container) else None
            else:
                index += 1
        elif param.kind == "var":
            value = f.new_seq("tuple", pos[index:])
            if node is not None:
                value.order = _order_of_rest(f, node, pos[index:])
            index = len(pos)
        elif param.kind == "varkw":
            names = {p.name for p in decl.params}
            value = f.new_dict({k: v for k, v in kw.items() if k not in names}, args.rest)
        elif name in kw:
            value = kw[name]
        elif isinstance(args.rest, Container) and name in getattr(args.rest, "entries", {}):
            value = args.rest.entries[name]  # type: ignore[attr-defined]
        else:
            value = decl.defaults.get(name)
            if isinstance(value, Const) and (is_spread or args.rest is not None):
                value = None  # what is spread out may give it
            if param.default is not None and not is_spread and args.rest is None:
                defaulted.append(name)
            value = value if value is not None else rest_elem
        env[name] = value if value is not None else f.m.annotated(decl, param)
    return env, defaulted


def _order_of_rest(f: Frame, node: ast.AST, pos: list[Value | None]) -> Pending | None:
    """The arbitrary order of what `*items` leaves for a `*rest` parameter."""
    for value in pos:
        if value.__class__ is Star:
            found = order_of(f, node, value, "unpacks")
            if found is not None:
                return found
    return None


def _expand(pos: list[Value | None]) -> list[Value | None]:
    """Positional arguments with `*items` spelled out where the items are known."""
    if Star not in map(type, pos):
        return list(pos)
    found: list[Value | None] = []
    for value in pos:
        inner = value.value if isinstance(value, Star) else None
        if isinstance(inner, Seq) and inner.items is not None and inner.elem is None:
            found += _expand(inner.items)
        else:
            found.append(value)
    return found
