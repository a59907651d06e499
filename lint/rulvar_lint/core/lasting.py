"""What lasts as long as the process: values that the top level of a module or class holds, and the
variables of the host functions that make workflows.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.nodes import own_nodes
from rulvar_lint.core.usage import Usage
from rulvar_lint.core.values import Container, Func, Inst, Obj, Value
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionDecl

MAX_DEPTH: Final = 3
# Types whose every use moves them on.
ADVANCING: Final = names("""itertools.count itertools.cycle random.Random numpy.random.Generator
numpy.random.RandomState""")


def outlive(value: Value | None, depth: int = 0) -> Value | None:
    """The value as one that lasts. An instance that a function made is copied: the function may be
    called again.
    """
    if isinstance(value, Obj):
        return _advancing(value)
    if isinstance(value, Func) and value.frame is not None and not value.lasts:
        value = Func(value.decl, value.frame, value.env, value.bound)
        value.lasts = True
    if isinstance(value, Inst) and value.scope == "module":
        for name, inner in value.attrs.items():
            if isinstance(inner, Obj):
                value.attrs[name] = _advancing(inner)
    if not isinstance(value, (Inst, Container)) or value.scope != "local":
        return value
    if isinstance(value, Container):
        value.scope = "module" if depth == 0 else value.scope
        return value
    made = Inst(value.decl, "module", value.home, value.born)
    made.taint = value.taint
    made.attrs = {
        name: outlive(inner, depth + 1) if depth < MAX_DEPTH else inner for name, inner in value.attrs.items()
    }
    return made


def _advancing(value: Obj) -> Obj:
    if value.lasts or value.type not in ADVANCING:
        return value
    made = Obj(value.type, value.taint, value.node)
    made.lasts = True
    return made


def changed_inside(decl: FunctionDecl) -> tuple[frozenset[str], frozenset[str]]:
    """The variables of a function whose object is changed by functions inside it that it gives away,
    and those that functions inside it rebind.
    """
    if decl.changed is None:
        usage = Usage(decl.body)
        given = usage.referenced | _given(decl)
        changed = {name for name, by in usage.names.items() if by & given}
        rebound = {
            name for node in ast.walk(decl.node) if isinstance(node, ast.Nonlocal) for name in node.names
        }
        decl.changed = frozenset(changed), frozenset(rebound)
    return decl.changed


def _given(decl: FunctionDecl) -> set[str]:
    """Functions inside a function that are decorated, or named other than to be called."""
    called: set[ast.AST] = set()
    found: set[str] = set()
    for node in own_nodes(decl.node):
        if isinstance(node, ast.Call):
            called.add(node.func)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list:
            found.add(node.name)
        elif isinstance(node, ast.Name) and node not in called:
            found.add(node.id)
    return found
