"""Whether a name means one function for certain, so that a fix may put another in its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.ancestry import ancestors
from rulvar_lint.core.nodes import walk

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionDecl, Module
    from rulvar_lint.core.frame import Frame


def is_certain(f: Frame, node: ast.AST) -> bool:
    """Whether `node` calls a dotted name whose first part nothing binds but one import."""
    func = node.func if isinstance(node, ast.Call) else node
    while isinstance(func, ast.Attribute):
        func = func.value
    if not isinstance(func, ast.Name):
        return False
    if _is_bound_around(f, node, func.id):
        return False
    decl: FunctionDecl | None = f.decl
    while decl is not None:
        if func.id in _changeable(f.module, decl.node) or any(p.name == func.id for p in decl.params):
            return False
        decl = decl.parent
    return func.id not in _changeable(f.module, f.module.tree)


def _is_bound_around(f: Frame, node: ast.AST, name: str) -> bool:
    """Whether a comprehension around a node goes through several values of a name."""
    found: set[str] = set()
    for outer in ancestors(f.decl.node if f.decl is not None else f.module.tree, node):
        for generator in getattr(outer, "generators", ()):
            _add(found, generator.target)
    return name in found


def _changeable(module: Module, scope: ast.AST) -> frozenset[str]:
    """The names that a scope binds other than by one import."""
    known = module.bounds.get(scope)
    if known is None:
        known = module.bounds[scope] = frozenset(_bound_otherwise(scope))
    return known


def _bound_otherwise(scope: ast.AST) -> set[str]:
    found: set[str] = set()
    sources: dict[str, set[str]] = {}
    todo: list[Any] = [] if isinstance(scope, ast.Lambda) else list(getattr(scope, "body", ()))
    while todo:
        node = todo.pop()
        cls = node.__class__
        if cls is ast.Assign:
            for target in node.targets:
                _add(found, target)
        elif cls in _SINGLE:
            continue
        elif cls is ast.Import or cls is ast.ImportFrom:
            for name, source in _imports(node):
                sources.setdefault(name, set()).add(source)
        elif cls in _DEFINITIONS:
            found.add(node.name)
        else:
            _add_bound(found, node, cls)
            for name in ("body", "orelse", "finalbody"):
                todo += getattr(node, name, ())
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                todo += part.body
    return found | {name for name, given in sources.items() if len(given) > 1}


_SINGLE: Final = frozenset({ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Pass, ast.Break, ast.Continue})
_DEFINITIONS: Final = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef})


def _add(found: set[str], target: ast.expr) -> None:
    """Add the names that a target binds."""
    if isinstance(target, ast.Name):
        found.add(target.id)
    elif not isinstance(target, (ast.Attribute, ast.Subscript)):
        found.update(inner.id for inner in walk(target) if isinstance(inner, ast.Name))


def _add_bound(found: set[str], node: Any, cls: type) -> None:
    """Add the names that the head of a statement binds."""
    if cls in (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor):
        _add(found, node.target)
    elif cls in (ast.With, ast.AsyncWith):
        for item in node.items:
            if item.optional_vars is not None:
                _add(found, item.optional_vars)
    elif cls in (ast.If, ast.While):
        found.update(inner.target.id for inner in walk(node.test) if isinstance(inner, ast.NamedExpr))


def _imports(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """(name, where it comes from) for each name that an import binds."""
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module}.{alias.name}"
    elif isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield alias.asname or top, alias.name if alias.asname else top
