"""Interpreting calls: arguments, functions of the project, and names from the library table."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.arguments import Args, bind, eval_args, eval_marked_args, holds_ctx
from rulvar_lint.core.closures import effects_of_arguments, is_called_outside, note_given
from rulvar_lint.core.effects import Cause, in_order
from rulvar_lint.core.frame import HOST, PLAIN, REGION, STEP
from rulvar_lint.core.order import order_event, rebase, see_order, use_order
from rulvar_lint.core.values import (
    ATOMS,
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
    merge_taint,
    with_taint,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.libraries.catalog import Entry
    from rulvar_lint.core.values import Taint


def eval_call(f: Frame, node: ast.Call) -> Value | None:
    """A call expression."""
    func = node.func
    callee: Value | None
    if func.__class__ is ast.Attribute:
        base = f.ev[func.value.__class__](f, func.value)
        callee = None if base is None else f.m.attribute(f, func, base, func.attr)
    else:
        callee = f.ev[func.__class__](f, func)
    if callee is None:
        return unknown_call(f, node, eval_args(f, node))
    if callee.__class__ is CtxMember:
        return f.m.ctx_call(f, node, callee.name, eval_marked_args(f, node))
    return call_value(f, node, callee, eval_args(f, node))


def call_value(f: Frame, node: ast.AST, callee: Value | None, args: Args) -> Value | None:
    """Call any value."""
    cls = callee.__class__
    if cls is Ext:
        return call_external(f, node, callee, args)  # type: ignore[arg-type]
    if cls is Bound:
        return f.m.container_method(f, node, callee, args)  # type: ignore[arg-type]
    if cls is Func:
        return call_function(f, node, callee, args)  # type: ignore[arg-type]
    if callee is None or isinstance(callee, Unknown):
        if callee is not None and callee.outer:
            _outer_method(f, node, callee, args)
        return with_taint(unknown_call(f, node, args), callee.taint if callee else None)
    if isinstance(callee, Class):
        return f.m.construct(f, node, callee.decl, args)
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


def _outer_method(f: Frame, node: ast.AST, receiver: Unknown, args: Args) -> None:
    """A method of data from outside the step body that is running."""
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr in f.m.mutators:
        for hook in f.m.hooks.mutation:
            hook(f, node, receiver, func.attr, args)


def unknown_call(f: Frame, node: ast.AST, args: Args) -> Value | None:
    """A call of something that cannot be resolved."""
    for hook in f.m.hooks.unknown_call:
        hook(f, node, args)
    func = node.func if isinstance(node, ast.Call) else None
    name = func.attr if func.__class__ is ast.Attribute else ""
    if args.pos or args.kw:
        if name in f.m.named_methods:
            return f.m.named_methods[name](f, node, args)
    elif name in ("keys", "items"):
        return f.new_seq("keys")  # the views of a mapping, which act like sets in arithmetic
    taint: Taint = None
    if args.pos or args.kw or args.rest is not None:
        if Star in map(type, args.pos) and name not in _ANY_ORDER:
            _see_stars(f, node, args)
        for value in args.values():
            escape(f, node, value)
            taint = merge_taint(taint, value.taint)
        if holds_ctx(args):
            return ctx_work(f, node)
    return Unknown(taint) if taint is not None else None


_ANY_ORDER: Final = names("""union intersection difference update intersection_update
difference_update isdisjoint min max sum""")


def _see_stars(f: Frame, node: ast.AST, args: Args) -> None:
    """`*items` hands over items in their order."""
    for value in args.pos:
        if isinstance(value, Star):
            see_order(f, node, value.value, "unpacks")


def ctx_work(f: Frame, node: ast.AST) -> Coro:
    """The result of unresolved code that was given ctx: it may do journaled work, and may not be a
    coroutine.
    """
    f.journal(node)
    coro = Coro(node, True, None, "helper")
    coro.used = True
    return coro


def escape_all(f: Frame, node: ast.AST, args: Args) -> None:
    """The arguments go where they are not followed."""
    for value in args.values():
        escape(f, node, value)


def escape(f: Frame, node: ast.AST, value: Value | None, depth: int = 0) -> None:
    """A value goes where it is not followed: coroutines may be awaited there, and orders may be
    looked at.
    """
    if value is None or depth > 4 or value.__class__ in ATOMS:
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


def consume(value: Value | None, depth: int = 0, seen: set[Value] | None = None) -> None:
    """Coroutines in `value` are, or may be, awaited."""
    if value is None or depth > 4 or value.__class__ in _INERT:
        return
    if isinstance(value, Coro):
        value.used = True
        for held in value.held:
            consume(held, depth + 1, seen)
    elif isinstance(value, Container):
        seen = set() if seen is None else seen
        if value in seen:
            return
        seen.add(value)
        if isinstance(value, Seq) and value.items:
            for item in value.items:
                consume(item, depth + 1, seen)
        consume(value.elem, depth + 1, seen)
        for entry in getattr(value, "entries", {}).values():
            consume(entry, depth + 1, seen)
    elif isinstance(value, Union):
        for option in value.options:
            consume(option, depth + 1, seen)
    elif isinstance(value, Star):
        consume(value.value, depth + 1, seen)


_INERT: Final = frozenset({Const, Ctx, Ext, Func, Inst, Obj, Unknown})


# Functions of the project


def call_function(f: Frame, node: ast.AST, func: Func, args: Args) -> Value | None:
    """Call a function of the project."""
    decl = func.decl
    env, defaulted = bind(f, func, args, node)
    f.m.fill_ctx(decl, env, called=True)
    takes_ctx = Ctx in map(type, env.values())
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
    inside = region_closure and mode == STEP and not is_called_outside(func)
    result = f.m.run(func, env, mode, f.step, f.depth if inside else f.depth + 1)
    if f.mode == HOST:
        pass
    elif region_closure and func.frame is not None:
        note_given(f, func, env)
        if f.mode == STEP:
            func.frame.exempt.add(decl)
        elif f.mode == REGION:
            func.frame.closure_uses.append((f, func, node))
            effects_of_arguments(f, node, func, env, result)
    elif mode == PLAIN and not decl.trusted:
        for cause in result.effects.values():
            f.emit(node, cause.through(decl.qualname, f.place(node)))
    for cause in result.outward.values():
        f.m.outward(f, node, cause.through(decl.qualname, f.place(node)), func, args)
    if result.journals and inside:
        f.journals = True
    elif result.journals:
        f.journal(node)
        if f.loops:
            order_event(f, node)
    return _returned(f, node, func, result)


def captured_default(f: Frame, node: ast.AST, func: Func, name: str, takes_ctx: bool) -> None:
    """A default value that was computed at import is used by this call."""
    default = func.decl.defaults.get(name)
    if default is None or default.taint is None or takes_ctx or func.frame is not None:
        return
    origin = in_order(default.taint)[0]
    f.emit(
        node,
        Cause(
            "RLV203",
            (f"the default of `{name}` of `{func.decl.qualname}` was computed at import ({origin.what})"),
            origin.place,
        ),
    )


def _says_nothing(value: Value | None) -> bool:
    """Whether an annotation tells more: what code outside the project gives is not known."""
    return value is None or isinstance(value, Unknown) or (isinstance(value, Obj) and value.type[-2:] == "()")


def _returned(f: Frame, node: ast.AST, func: Func, result: Any) -> Value | None:
    decl = func.decl
    value: Value | None = rebase(f, node, result.value, result.frame, decl.qualname)
    returns = None if decl.gives_nothing else getattr(decl.node, "returns", None)
    if returns is not None and _says_nothing(value) and not decl.generator():
        promised = f.m.from_annotation(decl.module, returns)
        decl.gives_nothing = promised is None and decl.module.state == 2
        value = with_taint(promised, value.taint if value else None) if promised is not None else value
    if not decl.is_async or decl.generator():
        if isinstance(value, Coro) and value.ctx and f.mode == REGION and not decl.generator():
            handed = Coro(node, True, value.result, decl.qualname)
            f.coros.append(handed)
            return handed
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
    if args.pos and args.pos[0].__class__ is Inst:
        m.convert(f, node, path, args.pos[0])
    if special is not None:
        return with_taint(special(f, node, ext, args), taint)
    if path.startswith("rulvar."):
        return m.rulvar_call(f, node, ext, args)
    if Star in map(type, args.pos) and path.rpartition(".")[2] not in _ANY_ORDER:
        _see_stars(f, node, args)
    for value in args.values():
        escape(f, node, value)
        if value.taint is not None and (path.rpartition(".")[2][:1].islower() or m.catalog.result(path)):
            taint = merge_taint(taint, value.taint)
    result = m.catalog.result(path)
    if result is not None:
        if (
            m.catalog.is_type(path)
            and not m.catalog.effects(path)
            and not path.startswith(("pathlib", "datetime"))
        ):
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
    last = path.rpartition(".")[2]
    if last.endswith("Stub") and any(isinstance(v, Obj) and v.type == "grpc.Channel" for v in args.pos):
        return Obj("grpc.Stub")
    return Obj(path if last[:1].isupper() else f"{path}()", taint, node)


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
    if when == "now":
        return isinstance(first, Const) and first.value in ("now", "today")
    if when == "positive":
        return not (isinstance(first, Const) and first.value in (0, 0.0))
    if when == "no-buffer":
        file = args.kw.get("file") or args.kw.get("stream")
        return getattr(file, "type", "") != "io.StringIO"
    tz = args.get(1, "tz")  # "no-tz"
    return not ("tz" in args.kw or len(args.pos) > 1) or (isinstance(tz, Const) and tz.value is None)


def _describe(f: Frame, node: ast.AST, ext: Ext, entry: Entry) -> str:
    name = f.segment(node.func) if isinstance(node, ast.Call) else ext.path.removeprefix("builtins.")
    shown = ext.path.removeprefix("builtins.")
    if name.rpartition(".")[2] != shown.rpartition(".")[2]:
        return f"`{name}()` (`{shown}`) {entry.does}"
    return f"`{name}()` {entry.does}"


TABLE: Final[dict[type, Any]] = {ast.Call: eval_call}
