"""Closures of workflow bodies: judged where they are written, and by what their calls give them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from rulvar_lint.core.frame import PLAIN
from rulvar_lint.core.nodes import own_nodes
from rulvar_lint.core.values import Ext, Func, Inst, Obj, Partial

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.memory import Result
    from rulvar_lint.core.values import Env


def is_called_outside(func: Func) -> bool:
    """Whether the code around a closure calls it as well. A closure that only step bodies call is
    judged as a part of them.
    """
    outer = func.frame.decl if func.frame is not None else None
    return outer is not None and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == func.decl.name
        for node in own_nodes(outer.node)
    )


def note_given(f: Frame, func: Func, env: Env) -> None:
    """Remember of what type the arguments of a closure are: it is judged on its own later."""
    for name, value in env.items():
        cls = value.__class__
        if cls is Obj or cls is Inst:
            typed = Obj(value.type) if isinstance(value, Obj) else f.m.generic(value.decl)  # type: ignore[union-attr]
            if func.decl.given is None:
                func.decl.given = {}
            if name not in func.decl.given:
                func.decl.given[name] = typed


def effects_of_arguments(f: Frame, node: ast.AST, func: Func, env: Env, result: Result) -> None:
    """A closure is judged where it is written; what the functions that it is given do is judged at
    the call.
    """
    given = [name for name, value in env.items() if isinstance(value, (Func, Partial, Ext))]
    if not given or not result.effects:
        return
    without = f.m.run(func, {**env, **dict.fromkeys(given)}, PLAIN, f.step, f.depth + 1).effects
    for code, cause in result.effects.items():
        if code not in without:
            f.emit(node, cause.through(func.decl.qualname, f.place(node)))
