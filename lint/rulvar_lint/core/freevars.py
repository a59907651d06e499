"""Which names a piece of code binds, reads or changes. Pure syntax."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.nodes import LEAVES, children, walk
from rulvar_lint.core.values import Value

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionDecl
    from rulvar_lint.core.frame import Loop

_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NAMING: Final = (ast.alias, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping)
_BINDERS: Final = frozenset({*_COMPREHENSIONS, *_FUNCTIONS, *_DEFINITIONS, *_NAMING})


def bound_in(nodes: list[ast.AST]) -> set[str]:
    """Names that the nodes bind in their own scope: assignments, targets, imports, definitions."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        node: Any = todo.pop()
        cls = node.__class__
        if cls is ast.Name:
            if node.ctx.__class__ is not ast.Load:
                found.add(node.id)
            continue
        if cls in _BINDERS:
            if cls in _COMPREHENSIONS:
                todo.extend(n for n in walk(node) if isinstance(n, ast.NamedExpr))
                continue
            if cls is ast.Lambda:
                continue
            if cls in _DEFINITIONS:
                found.add(node.name)
                todo += node.decorator_list
                continue
            if cls is ast.alias:
                found.add((node.asname or node.name).partition(".")[0])
            elif cls is ast.MatchMapping:
                if node.rest:
                    found.add(node.rest)
            elif node.name:
                found.add(node.name)
        if cls not in LEAVES:
            todo += children(node)
    return found


def loop_bound(node: ast.AST) -> frozenset[str]:
    """Names that one iteration of a loop or comprehension binds."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return frozenset(bound_in([node.target, *node.body]))
    if isinstance(node, ast.While):
        return frozenset(bound_in([node.test, *node.body]))
    if isinstance(node, _COMPREHENSIONS):
        nodes: list[ast.AST] = [generator.target for generator in node.generators]
        nodes += [n.target for n in walk(node) if isinstance(n, ast.NamedExpr)]
        return frozenset(bound_in(nodes))
    return frozenset()


def free_names_of(decl: FunctionDecl) -> dict[str, ast.Name]:
    """The free names of a declared function, found once."""
    if decl.free is None:
        decl.free = free_names(decl.node)
    return decl.free


def free_names(node: ast.AST) -> dict[str, ast.Name]:
    """Names that a function reads from outside itself, with their first occurrence. Defaults are
    not included.
    """
    found: dict[str, ast.Name] = {}
    _free(node, frozenset(), found)
    return found


def _free(node: ast.AST, hidden: frozenset[str], found: dict[str, ast.Name]) -> None:
    args: ast.arguments = node.args  # type: ignore[attr-defined]
    params = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    params |= {arg.arg for arg in (args.vararg, args.kwarg) if arg is not None}
    if isinstance(node, ast.Lambda):
        _walk([node.body], hidden | params | bound_in([node.body]), found)
        return
    body: list[Any] = node.body  # type: ignore[attr-defined]
    outer = {
        name
        for n in body
        for inner in walk(n)
        if isinstance(inner, (ast.Nonlocal, ast.Global))
        for name in inner.names
    }
    _walk(body, hidden | params | (bound_in(body) - outer), found)


def _walk(nodes: list[Any], hidden: frozenset[str] | set[str], found: dict[str, ast.Name]) -> None:
    todo = list(reversed(nodes))
    while todo:
        node = todo.pop()
        cls = node.__class__
        if cls is ast.Name:
            if node.id not in hidden and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, node)
        elif cls in LEAVES:
            continue
        elif cls in _FUNCTIONS:
            defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
            _walk([*defaults, *getattr(node, "decorator_list", ())], hidden, found)
            _free(node, frozenset(hidden), found)
        elif cls in _COMPREHENSIONS:
            _walk([node.generators[0].iter], hidden, found)
            inner = set(hidden) | set(loop_bound(node))
            parts: list[Any] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            parts = [part for part in parts if part is not None]
            for generator in node.generators:
                parts += generator.ifs
            parts += [generator.iter for generator in node.generators[1:]]
            _walk(parts, inner, found)
        else:
            todo += reversed(children(node))


def names_in(node: ast.AST) -> set[str]:
    """All names that an expression reads."""
    return {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def bound_by(loop: Loop) -> frozenset[str]:
    """Names that one iteration of `loop` binds."""
    if loop.bound is None:
        loop.bound = known_bound(loop.bounds, loop.node)
    return loop.bound


def known_bound(known: dict[ast.AST, frozenset[str]], node: ast.AST) -> frozenset[str]:
    """As `loop_bound`, remembered in `known`."""
    found = known.get(node)
    if found is None:
        found = known[node] = loop_bound(node)
    return found


_PICKS: Final = frozenset({"min", "max", "sorted", "set", "frozenset", "any", "all", "sum", "len"})


def depends_on_element(loop: Loop, expr: ast.expr, name: str, value: Value | None) -> bool:
    """Whether a value set or returned inside a loop depends on which element comes first."""
    if isinstance(expr, ast.Constant):
        return False
    if not (names_in(expr) & bound_by(loop)) - {name}:
        return False
    if name:
        if isinstance(expr, (ast.BoolOp, ast.BinOp)) and name in names_in(expr):
            return getattr(value, "type", "") == "builtins.str" or not isinstance(
                expr, ast.BoolOp | ast.BinOp
            )
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id in _PICKS:
            return name not in names_in(expr)
    return not isinstance(expr, ast.Compare)
