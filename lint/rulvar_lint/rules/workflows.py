"""RLV309, RLV311: thunks that see the wrong loop variable, and functions that cannot be
workflows."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ancestry import end_of, start_of
from rulvar_lint.core.brackets import bracketed
from rulvar_lint.core.containers import GROWS
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import REGION
from rulvar_lint.core.freevars import bound_by
from rulvar_lint.core.values import (
    ATOMS,
    Container,
    Coro,
    Func,
    Inst,
    Partial,
    Seq,
    Star,
    Union,
    Value,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame, Loop
    from rulvar_lint.core.hooks import Hooks


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.escaping.append(_comprehension)
    hooks.mutation.append(_mutation)
    hooks.store_item.append(_store_item)
    hooks.store.append(_store)
    hooks.unknown_call.append(_unknown_call)
    hooks.region_end.append(_signature)


# RLV309


def late_functions(value: Value | None, depth: int = 0, seen: set[Value] | None = None) -> list[Func]:
    """Functions in a value that read variables of a loop when they run."""
    if value is None or depth > 4 or value.__class__ in ATOMS:
        return []
    seen = set() if seen is None else seen
    if value in seen:
        return []
    seen.add(value)
    if isinstance(value, Func):
        return [value] if value.late else []
    inner: list[Value | None] = []
    if isinstance(value, Seq):
        inner = [*(value.items or ()), value.elem]
    elif isinstance(value, Container):
        inner = [*getattr(value, "entries", {}).values(), value.elem]
    elif isinstance(value, Inst):
        inner = list(value.attrs.values())
    elif isinstance(value, Coro):
        inner = list(value.held)
    elif isinstance(value, Union):
        inner = list(value.options)
    elif isinstance(value, Star):
        inner = [value.value]
    elif isinstance(value, Partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    return [func for item in inner for func in late_functions(item, depth + 1, seen)]


def _outlives(f: Frame, func: Func, loop_node: ast.AST) -> None:
    names = list(dict.fromkeys(name for node, name in func.late if node is loop_node))
    if names:
        where = func.decl.node
        shown = " and ".join(f"`{name}`" for name in names)
        what = f"the function reads {shown} when it runs, after the loop has moved on"
        f.m.report(f, where, Cause("RLV309", what, f.place(where)), fix=_bind(f, func, names))


def _bind(f: Frame, func: Func, names: list[str]) -> Plan | None:
    node = func.decl.node
    args = node.args
    if args.kwarg is not None:
        return None
    text = ", ".join(f"{name}={name}" for name in names)
    message = f"Bind {', '.join(f'`{name}`' for name in names)} now"
    if args.vararg or args.args or args.kwonlyargs:
        return ("safe", message, [(_last_parameter(f, args), f", {text}")], "after")
    if args.posonlyargs:
        return None
    if isinstance(node, ast.Lambda):
        return ("safe", message, [(node, f"lambda {text}")], "keyword")
    line = f.module.source.line_text(node.lineno)
    match = re.search(rf"\bdef\s+{node.name}\s*\(\s*\)", line)
    if match is None:
        return None
    offset = len(line[: match.end() - 1].encode())
    at = ast.Pass(lineno=node.lineno, col_offset=offset, end_lineno=node.lineno, end_col_offset=offset)
    return ("safe", message, [(at, text)], "before")


def _last_parameter(f: Frame, args: ast.arguments) -> ast.AST:
    """What the last parameter ends with: its default, its annotation or its name."""
    parts: list[ast.AST | None] = [
        args.vararg,
        *args.args,
        *args.defaults,
        *args.kwonlyargs,
        *args.kw_defaults,
    ]
    parts += [arg.annotation for arg in (*args.args, *args.kwonlyargs, args.vararg) if arg is not None]
    last = max((part for part in parts if part is not None), key=lambda part: (end_of(part), start_of(part)))
    return bracketed(f.module.source, last) if isinstance(last, ast.expr) else last


def _comprehension(f: Frame, node: ast.AST, value: Value, reason: str) -> None:
    if f.mode == REGION:
        for func in late_functions(value):
            _outlives(f, func, node)


def _kept(f: Frame, value: Value | None, born: int, root: ast.AST | None) -> None:
    """A value is kept by something that was made before the loop began."""
    functions = late_functions(value)
    if not functions:
        return
    name = _root(root)
    for loop in f.loops:
        inside = loop.serial <= born if born >= 0 else _bound_in(loop, name)
        if not inside:
            for func in functions:
                _outlives(f, func, loop.node)


def _bound_in(loop: Loop, name: str) -> bool:
    return bool(name) and name in bound_by(loop)


def _root(node: ast.AST | None) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _mutation(f: Frame, node: ast.AST, receiver: Value | None, method: str, args: Args | None) -> None:
    if f.mode != REGION or not f.loops or not isinstance(receiver, Container):
        return
    if args is None:
        lambdas = _displayed(getattr(node, "value", None))
        for func in f.closures if lambdas else ():
            if func.decl.node in lambdas:
                _kept(f, func, receiver.born, None)
        return
    for value_ in args.values():
        _kept(f, value_, receiver.born, None)


def _displayed(value: object) -> set[ast.AST]:
    """The lambdas that are items of what is written out; not those that a call in it is given."""
    found: set[ast.AST] = set()
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Lambda):
            found.add(node)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            todo += node.elts
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            todo.append(node.elt)
        elif isinstance(node, ast.Starred):
            todo.append(node.value)
        elif isinstance(node, ast.IfExp):
            todo += [node.body, node.orelse]
        elif isinstance(node, ast.Dict):
            todo += node.values
    return found


def _store_item(f: Frame, node: ast.AST, target: ast.AST, base: Value | None, value: Value | None) -> None:
    if f.mode == REGION and f.loops and value is not None:
        born = base.born if isinstance(base, Container) else -1
        _kept(f, value, born, target)


def _store(
    f: Frame,
    node: ast.AST,
    target: ast.AST | None,
    base: Value | None,
    name: str,
    value: Value | None,
) -> None:
    if f.mode == REGION and f.loops and value is not None:
        _kept(f, value, -1, target)


_KEEPERS: Final = GROWS | names("""register submit add_task schedule enqueue subscribe on
add_callback add_done_callback start_soon create_task""")


def _unknown_call(f: Frame, node: ast.AST, args: Args) -> None:
    func = node.func if isinstance(node, ast.Call) else None
    if f.mode != REGION or not f.loops or not isinstance(func, ast.Attribute) or func.attr not in _KEEPERS:
        return
    for value in args.values():
        _kept(f, value, -1, func)


# RLV311


def _signature(f: Frame) -> None:
    decl = f.decl
    if decl is None or decl not in f.m.registered or "workflow" not in decl.flags:
        return
    node = decl.node
    what = ""
    if isinstance(node, ast.Lambda):
        what = "a lambda cannot be a workflow"
    elif not decl.is_async:
        what = f"the workflow `{decl.name}` is not `async def`"
    elif decl.generator():
        what = f"the workflow `{decl.name}` is an async generator"
    elif "partial" not in decl.flags:  # which parameters are left is for the type checker
        skip = 1 if decl.cls is not None and "staticmethod" not in decl.flags else 0
        positional = [param for param in decl.params if param.kind == "pos"][skip:]
        required = [param for param in positional if param.default is None]
        has_rest = any(param.kind == "var" for param in decl.params)
        if (len(positional) < 2 and not has_rest) or len(required) > 2:
            what = f"the workflow `{decl.name}` does not take `(ctx, args)`"
    if what:
        f.m.report(f, node, Cause("RLV311", what, f.place(node)), fix=_make_async(f, decl.node))


def _make_async(f: Frame, node: ast.AST) -> Plan | None:
    if isinstance(node, ast.FunctionDef):
        return ("unsafe", "Make the function async", [(node, "async ")], "before")
    return None
