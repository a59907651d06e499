"""Interpreting calls: arguments, functions of the project, and names from the library table."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.effects import Cause
from rulvar_lint.core.expressions import eval_items
from rulvar_lint.core.frame import HOST, PLAIN, REGION, STEP
from rulvar_lint.core.order import rebase, use_order
from rulvar_lint.core.values import (
    Bound,
    Class,
    Const,
    Container,
    Coro,
    Ctx,
    CtxMember,
    Ext,
    Func,
    Inst,
    Obj,
    Partial,
    Seq,
    Star,
    Union,
    Unknown,
    Value,
    element_of,
    join,
    merge_taint,
    with_taint,
)

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.libraries.catalog import Entry
    from rulvar_lint.core.values import Env, Taint


class Args:
    """Evaluated arguments. `marks` holds, per argument node, how many findings there were before and after it."""

    __slots__ = ("kw", "kw_nodes", "marks", "pos", "pos_nodes", "rest")

    def __init__(self, pos: list[Value | None], kw: dict[str, Value | None]) -> None:
        self.pos = pos
        self.kw = kw
        self.rest: Value | None = None
        self.pos_nodes: list[ast.expr] = []
        self.kw_nodes: dict[str, ast.expr] = {}
        self.marks: dict[ast.expr, tuple[int, int]] = {}

    def values(self) -> list[Value]:
        """The known values among the arguments, `*` and `**` included."""
        found = [value for value in self.pos if value is not None]
        found += [value for value in self.kw.values() if value is not None]
        if self.rest is not None:
            found.append(self.rest)
        return found

    def get(self, index: int, name: str) -> Value | None:
        """The argument at `index` or named `name`."""
        if index < len(self.pos):
            value = self.pos[index]
            return value.value if isinstance(value, Star) else value
        return self.kw.get(name)

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
        for keyword in node.keywords:
            value = f.ev[keyword.value.__class__](f, keyword.value)
            if keyword.arg is None:
                args.rest = value if value is not None else args.rest
            else:
                args.kw[keyword.arg] = value
                args.kw_nodes[keyword.arg] = keyword.value
    return args


def eval_marked_args(f: Frame, node: ast.Call) -> Args:
    """As `eval_args`, and remembers which findings belong to which argument."""
    args = Args([], {})
    args.pos_nodes = node.args
    log = f.m.log
    for arg in node.args:
        before = len(log)
        args.pos += eval_items(f, [arg])
        args.marks[arg] = (before, len(log))
    for keyword in node.keywords:
        before = len(log)
        value = f.ev[keyword.value.__class__](f, keyword.value)
        if keyword.arg is None:
            args.rest = value
        else:
            args.kw[keyword.arg] = value
            args.kw_nodes[keyword.arg] = keyword.value
        args.marks[keyword.value] = (before, len(log))
    return args


def eval_call(f: Frame, node: ast.Call) -> Value | None:
    """A call expression."""
    func = node.func
    callee: Value | None
    if func.__class__ is ast.Attribute:
        base = f.ev[func.value.__class__](f, func.value)  # type: ignore[attr-defined]
        callee = None if base is None else f.m.attribute(f, func, base, func.attr)  # type: ignore[attr-defined]
    else:
        callee = f.ev[func.__class__](f, func)
    if callee is None:
        return unknown_call(f, node, eval_args(f, node))
    if callee.__class__ is CtxMember:
        return f.m.ctx_call(f, node, callee.name, eval_marked_args(f, node))  # type: ignore[attr-defined]
    return call_value(f, node, callee, eval_args(f, node))


def call_value(f: Frame, node: ast.AST, callee: Value | None, args: Args) -> Value | None:
    """Call any value."""
    if callee is None or isinstance(callee, Unknown):
        return with_taint(unknown_call(f, node, args), callee.taint if callee else None)
    if isinstance(callee, Func):
        return call_function(f, node, callee, args)
    if isinstance(callee, Ext):
        return call_external(f, node, callee, args)
    if isinstance(callee, Class):
        return f.m.construct(f, node, callee.decl, args)
    if isinstance(callee, Bound):
        return f.m.container_method(f, node, callee, args)
    if isinstance(callee, CtxMember):
        return f.m.ctx_call(f, node, callee.name, args)
    if isinstance(callee, Union):
        found: Value | None = None
        for option in callee.options:
            found = join(found, call_value(f, node, option, args))
        return found
    if isinstance(callee, Partial):
        merged = Args([*callee.args, *args.pos], {**callee.keywords, **args.kw})
        merged.rest = args.rest
        return call_value(f, node, callee.func, merged)
    if isinstance(callee, Inst):
        return f.m.call_special(f, node, callee, "__call__", args)
    if isinstance(callee, Obj):
        return call_external(f, node, Ext(f"{callee.type}.__call__", callee), args)
    escape_all(f, node, args)
    return None


def holds_ctx(args: Args) -> bool:
    """Whether ctx itself is among the arguments."""
    return any(value.__class__ is Ctx for value in args.pos) or any(
        value.__class__ is Ctx for value in args.kw.values()
    )


def unknown_call(f: Frame, node: ast.AST, args: Args) -> Value | None:
    """A call of something that cannot be resolved."""
    for hook in f.m.hooks.unknown_call:
        hook(f, node, args)
    taint: Taint = None
    if args.pos or args.kw or args.rest is not None:
        for value in args.values():
            escape(f, node, value)
            taint = merge_taint(taint, value.taint)
        if holds_ctx(args):
            return ctx_work(f, node)
    return Unknown(taint) if taint is not None else None


def ctx_work(f: Frame, node: ast.AST) -> Coro:
    """The result of unresolved code that was given ctx: it may do journaled work, and may not be a coroutine."""
    f.journal(node)
    coro = Coro(node, True, None, "helper")
    coro.used = True
    return coro


def escape_all(f: Frame, node: ast.AST, args: Args) -> None:
    """The arguments go where they are not followed."""
    for value in args.values():
        escape(f, node, value)


def escape(f: Frame, node: ast.AST, value: Value | None, depth: int = 0) -> None:
    """A value goes where it is not followed: coroutines may be awaited there, and orders may be looked at."""
    if value is None or depth > 4:
        return
    if isinstance(value, Coro):
        value.used = True
    elif isinstance(value, Container):
        if value.order is not None:
            use_order(f, node, value)
        consume(value)
    elif isinstance(value, Star):
        escape(f, node, value.value, depth + 1)
    elif isinstance(value, Union):
        for option in value.options:
            escape(f, node, option, depth + 1)
    elif isinstance(value, Partial):
        for item in (*value.args, *value.keywords.values()):
            escape(f, node, item, depth + 1)


def consume(value: Value | None, depth: int = 0) -> None:
    """Coroutines in `value` are, or may be, awaited."""
    if value is None or depth > 4:
        return
    if isinstance(value, Coro):
        value.used = True
        for held in value.held:
            consume(held, depth + 1)
    elif isinstance(value, Container):
        if isinstance(value, Seq) and value.items:
            for item in value.items:
                consume(item, depth + 1)
        consume(value.elem, depth + 1)
        for entry in getattr(value, "entries", {}).values():
            consume(entry, depth + 1)
    elif isinstance(value, Union):
        for option in value.options:
            consume(option, depth + 1)
    elif isinstance(value, Star):
        consume(value.value, depth + 1)


# Functions of the project


def bind(f: Frame, func: Func, args: Args) -> tuple[Env, list[str]]:
    """Parameters to values, and the names of those that take their default."""
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
                spread, is_spread = value.value, True
                value = element_of(spread) if isinstance(spread, Container) else None
            else:
                index += 1
        elif param.kind == "var":
            value = f.new_seq("tuple", pos[index:])
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
            if param.default is not None and not is_spread and args.rest is None:
                defaulted.append(name)
            value = value if value is not None else rest_elem
        env[name] = value if value is not None else f.m.annotated(decl, param)
    return env, defaulted


def _expand(pos: list[Value | None]) -> list[Value | None]:
    """Positional arguments with `*items` spelled out where the items are known."""
    if not any(isinstance(value, Star) for value in pos):
        return list(pos)
    found: list[Value | None] = []
    for value in pos:
        inner = value.value if isinstance(value, Star) else None
        if isinstance(inner, Seq) and inner.items is not None and inner.elem is None:
            found += _expand(inner.items)
        else:
            found.append(value)
    return found


def call_function(f: Frame, node: ast.AST, func: Func, args: Args) -> Value | None:
    """Call a function of the project."""
    decl = func.decl
    env, defaulted = bind(f, func, args)
    f.m.fill_ctx(decl, env)
    takes_ctx = any(value.__class__ is Ctx for value in env.values())
    if f.mode in (REGION, PLAIN):
        for name in defaulted:
            captured_default(f, node, func, name, takes_ctx)
    region_closure = func.frame is not None and func.frame.in_region
    if f.mode == STEP:
        mode = STEP
    elif f.mode != HOST and takes_ctx and not region_closure:
        mode = REGION
    else:
        mode = PLAIN
    result = f.m.run(func, env, mode, f.step, f.depth + 1)
    if f.mode == HOST:
        pass
    elif region_closure and mode == PLAIN:
        if f.mode == REGION:
            f.closure_calls.append((func, node, result.effects))
    elif mode == PLAIN and not decl.trusted:
        for cause in result.effects.values():
            f.emit(node, cause.through(decl.qualname, f.place(node)))
    for cause in result.outward.values():
        f.m.outward(f, node, cause.through(decl.qualname, f.place(node)), func, args)
    if result.journals:
        f.journal(node)
    return _returned(f, node, func, result)


def captured_default(f: Frame, node: ast.AST, func: Func, name: str, takes_ctx: bool) -> None:
    """A default value that was computed at import is used by this call."""
    default = func.decl.defaults.get(name)
    if default is None or default.taint is None or takes_ctx or func.frame is not None:
        return
    origin = next(iter(default.taint))
    f.emit(
        node,
        Cause(
            "RLV203",
            f"the default of `{name}` of `{func.decl.qualname}` was computed at import ({origin.what})",
            origin.place,
        ),
    )


def _returned(f: Frame, node: ast.AST, func: Func, result: Any) -> Value | None:
    decl = func.decl
    value: Value | None = rebase(f, node, result.value, result.frame, decl.qualname)
    returns = getattr(decl.node, "returns", None)
    if returns is not None and (value is None or isinstance(value, Unknown)) and not decl.generator():
        promised = f.m.from_annotation(decl.module, returns)
        value = with_taint(promised, value.taint if value else None) if promised is not None else value
    if not decl.is_async or decl.generator():
        return value
    is_ctx = result.journals and f.mode != HOST
    coro = Coro(node, is_ctx, value, decl.qualname)
    if is_ctx and f.mode == REGION:
        f.coros.append(coro)
    else:
        coro.used = True
    return coro


# Names from the library table


def call_external(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Call a name that is not part of the project."""
    m = f.m
    path = ext.path
    taint: Taint = ext.taint
    if f.mode != STEP:
        for entry in m.catalog.effects(path):
            if _applies(entry.when, args):
                cause = f.effect(node, entry.code, _describe(f, node, ext, entry), entry.severity)
                taint = merge_taint(taint, frozenset((cause,)))
    for hook in m.hooks.calls.get(path, ()):
        hook(f, node, ext, args)
    special = m.functions.get(path)
    if special is not None:
        return with_taint(special(f, node, ext, args), taint)
    if path.startswith("rulvar."):
        return m.rulvar_call(f, node, ext, args)
    for value in args.values():
        escape(f, node, value)
        if value.taint is not None and (path.rpartition(".")[2][:1].islower() or m.catalog.result(path)):
            taint = merge_taint(taint, value.taint)
    result = m.catalog.result(path)
    if result is not None:
        if m.catalog.is_type(path) and not m.catalog.effects(path) and not path.startswith(("pathlib", "datetime")):
            taint = ext.taint
        return Obj(result, taint, node)
    element = m.catalog.element(path)
    if element is not None:
        return f.new_seq("iter", None, Obj(element, taint))
    if holds_ctx(args) and not m.catalog.is_known(path):
        return ctx_work(f, node)
    root = path.partition(".")[0]
    if root in m.stdlib or not root:
        return Unknown(taint) if taint is not None else None
    return Obj(f"{path}()", taint, node)


def _applies(when: str, args: Args) -> bool:
    if not when:
        return True
    count = args.count()
    first = args.pos[0] if args.pos else next(iter(args.kw.values()), None)
    is_none = isinstance(first, Const) and first.value is None
    if when in ("no-args", "unseeded"):
        return (count == 0 and args.rest is None) or is_none
    if when == "some-args":
        return count > 0 and not is_none
    if when == "few-args":
        return count < 2
    if when == "positive":
        return not (isinstance(first, Const) and first.value in (0, 0.0))
    tz = args.get(1, "tz")  # "no-tz"
    return not ("tz" in args.kw or len(args.pos) > 1) or (isinstance(tz, Const) and tz.value is None)


def _describe(f: Frame, node: ast.AST, ext: Ext, entry: Entry) -> str:
    name = f.segment(node.func) if isinstance(node, ast.Call) else ext.path.removeprefix("builtins.")
    shown = ext.path.removeprefix("builtins.")
    if name.rpartition(".")[2] != shown.rpartition(".")[2]:
        return f"`{name}()` (`{shown}`) {entry.does}"
    return f"`{name}()` {entry.does}"


TABLE: Final[dict[type, Any]] = {ast.Call: eval_call}
