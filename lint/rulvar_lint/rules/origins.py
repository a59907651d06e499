"""Whether a name means one function for certain, so that a fix may put another in its place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from rulvar_lint.core.nodes import own_nodes

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
    decl: FunctionDecl | None = f.decl
    while decl is not None:
        if func.id in _changeable(f.module, decl.node) or any(p.name == func.id for p in decl.params):
            return False
        decl = decl.parent
    return func.id not in _changeable(f.module, f.module.tree)


def _changeable(module: Module, scope: ast.AST) -> frozenset[str]:
    """The names that a scope binds other than by one import."""
    known = module.bounds.get(scope)
    if known is None:
        known = module.bounds[scope] = frozenset(_bound_otherwise(scope))
    return known


def _bound_otherwise(scope: ast.AST) -> set[str]:
    found: set[str] = set()
    sources: dict[str, set[str]] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            origin = f"{'.' * node.level}{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                name = alias.asname or (alias.name if origin else alias.name.partition(".")[0])
                source = origin + (alias.name if origin or alias.asname else name)
                sources.setdefault(name, set()).add(source)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (
            isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name
        ):
            found.add(node.name or "")
    return found | {name for name, given in sources.items() if len(given) > 1}
