"""Builtins and standard functions whose meaning the analysis needs: conversions, iteration,
partial application.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import element_of, join
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.calls import call_value, escape, escape_all
from rulvar_lint.core.containers import format_text, join_text
from rulvar_lint.core.expressions import FLOAT, INT, STR
from rulvar_lint.core.iterables import (
    chain,
    enumerate_,
    erasing,
    extreme,
    from_keys,
    make_dict,
    make_list,
    make_set,
    map_,
    next_,
    reduce_,
    sorted_,
    zip_,
)
from rulvar_lint.core.operators import iterate
from rulvar_lint.core.order import order_of as order_of_value
from rulvar_lint.core.serialization import dumps
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Coro,
    Ext,
    Func,
    Inst,
    Obj,
    Partial,
    Star,
    Super,
    Union,
    Unknown,
    Value,
    options_of,
    with_taint,
)
from rulvar_lint.core.words import words
from rulvar_lint.core.writing import STRING, WAYS

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame


def _unknown(args: Args) -> Value | None:
    taint = args.taint()
    return Unknown(taint) if taint is not None else None


def to_text(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if args.pos else None
    if value is not None:
        f.m.text(f, node, value, WAYS.get(ext.path, STRING))
    if isinstance(value, Obj) and value.type != "builtins.str":
        return Obj("builtins.str", value.taint, node)
    return f.m.tainted_text(args.taint())


def to_number(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return with_taint(FLOAT if ext.path == "builtins.float" else INT, args.taint())


def harmless(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Functions that neither await nor keep their arguments."""
    return _unknown(args)


def object_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return Obj("builtins.object")


def range_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return with_taint(Obj("builtins.range"), args.taint())


def get_attribute(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    base = args.pos[0] if args.pos else None
    name = args.pos[1] if len(args.pos) > 1 else None
    if base is None:
        return None
    if isinstance(name, Const) and isinstance(name.value, str):
        f.m.keyed()
        return join(f.m.attribute(f, node, base, name.value), args.get(2, "default"))
    if isinstance(base, Ext) and f.m.catalog.is_impure_module(base.path):
        f.effect(
            node,
            "RLV111",
            f"`{f.segment(node)}` picks a function of `{base.path}` by a name that is computed",
        )
    return None


def open_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`open` and its like; what is read from a binary file is bytes."""
    mode = args.get(0 if ext.path == "pathlib.Path.open" else 1, "mode")
    binary = isinstance(mode, Const) and isinstance(mode.value, str) and "b" in mode.value
    return Obj("io.RawIOBase" if binary else "io.IOBase", args.taint(), node)


def property_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`name = property(getter, setter)` in a class body."""
    getter, setter = args.get(0, "fget"), args.get(1, "fset")
    if isinstance(getter, Func):
        getter.decl.flags.add("property")
        getter.decl.setter = setter if isinstance(setter, Func) else None
    return getter


def set_attribute(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    base, name = args.get(0, ""), args.get(1, "")
    if base is not None:
        key = name.value if isinstance(name, Const) and isinstance(name.value, str) else "?"
        f.m.store_attribute(f, node, None, base, key, args.get(2, ""))
    return None


def partial(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    func = args.pos[0] if args.pos else None
    return Partial(func, list(args.pos[1:]), dict(args.kw))


def comparison(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`functools.cmp_to_key(compare)`: a key that calls `compare` with two elements."""
    return Partial(args.get(0, "mycmp"), [None], {})


def super_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    frame: Frame | None = f
    while frame is not None and (frame.decl is None or frame.decl.cls is None):
        frame = frame.outer
    if frame is None or frame.decl is None or frame.decl.cls is None or not frame.decl.params:
        return None
    bound = frame.env.get(frame.decl.params[0].name)
    return Super(frame.decl.cls, bound) if isinstance(bound, (Inst, Class)) else None


def type_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if len(args.pos) == 1 else None
    if isinstance(value, Obj) and f.m.catalog.is_type(value.type):
        return Ext(value.type)
    return Class(value.decl) if isinstance(value, Inst) else None


def apply_call(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`operator.call`, `asyncio.run` of a function and the like: call the first argument."""
    return call_value(f, node, args.pos[0] if args.pos else None, Args(list(args.pos[1:]), dict(args.kw)))


def passing(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Functions that give back their argument, such as `typing.cast` and `copy.copy`."""
    value = args.pos[-1] if args.pos else None
    return value.value if isinstance(value, Star) else value


def through(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Iterator tools that keep the order of their argument."""
    value = next((v for v in args.pos if isinstance(v, Container)), None)
    for other in args.values():
        if isinstance(other, Func):
            call_value(f, node, other, Args([iterate(f, node, value)], {}))
    if value is None:
        escape_all(f, node, args)
        return None
    made = f.new_seq("iter", None, element_of(value))
    made.order = order_of_value(f, node, value, "goes through")
    return made


def substitute(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`re.sub(pattern, function, text)`."""
    repl = args.get(0 if ext.path.startswith("re.Pattern") else 1, "repl")
    if isinstance(repl, (Func, Partial)):
        call_value(f, node, repl, Args([None], {}))
    return f.m.tainted_text(args.taint())


def iterator(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`iter(values)`, or `iter(function, sentinel)`."""
    if len(args.pos) == 2:
        return f.new_seq("iter", None, call_value(f, node, args.pos[0], Args([], {})))
    return make_list("iter", "goes through")(f, node, ext, args)


def vars_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    for value in args.values():
        escape(f, node, value)
    return f.new_dict(None, None)


def enter_context(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`stack.enter_context(manager)`: the manager is entered here, and left with the stack."""
    value = args.get(0, "cm")
    is_async = ext.path.endswith("enter_async_context")
    for hook in f.m.hooks.contexts:
        hook(f, node, value, "async with" if is_async else "with", args.node(0, "cm") or node)
    entered = f.m.enter(f, node, value, is_async)
    for option in options_of(value):
        f.m.call_special(f, node, option, "__aexit__" if is_async else "__exit__", [None, None, None])
    if is_async:
        coro = Coro(node, False, entered, "enter_async_context")
        coro.used = True
        return coro
    return entered


# asyncio


def is_ctx_work(f: Frame, value: Value | None, depth: int = 0) -> bool:
    """Whether a value is, holds, or makes un-awaited journaled work."""
    if value is None or depth > 4:
        return False
    if isinstance(value, Coro):
        return value.ctx or any(is_ctx_work(f, held, depth + 1) for held in value.held)
    if isinstance(value, Star):
        return is_ctx_work(f, value.value, depth + 1)
    if isinstance(value, Union):
        return any(is_ctx_work(f, option, depth + 1) for option in value.options)
    if isinstance(value, Container):
        return is_ctx_work(f, element_of(value), depth + 1)
    return False


def combine(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`gather`, `create_task` and their like: they take coroutines and give something to await."""
    values = args.values()
    coro = Coro(node, any(is_ctx_work(f, value) for value in values), None, "task")
    coro.is_task = coro.used = True
    for value in values:
        escape(f, node, value)
    if ext.path.endswith((".run", "run_until_complete")):
        return None
    if ext.path.endswith("as_completed"):
        return f.new_seq("iter", None, coro)
    return coro


_HARMLESS: Final = words(
    """isinstance issubclass hasattr callable print repr_ abs round divmod pow chr ord hex
    oct bin delattr locals globals dir memoryview complex"""
)

TABLE: Final[dict[str, Callable[[Frame, ast.AST, Ext, Args], Any]]] = {
    "builtins.list": make_list("list", "lists"),
    "builtins.tuple": make_list("tuple", "lists"),
    "builtins.iter": iterator,
    "builtins.reversed": make_list("iter", "goes through"),
    "builtins.aiter": make_list("iter", "goes through"),
    "collections.deque": make_list("list", "lists"),
    "builtins.enumerate": enumerate_,
    "builtins.zip": zip_,
    "itertools.zip_longest": zip_,
    "itertools.product": zip_,
    "builtins.map": map_,
    "builtins.filter": map_,
    "builtins.set": make_set,
    "builtins.frozenset": make_set,
    "builtins.dict": make_dict,
    "collections.OrderedDict": make_dict,
    "collections.Counter": make_dict,
    "collections.defaultdict": make_dict,
    "collections.ChainMap": make_dict,
    "types.MappingProxyType": passing,
    "builtins.dict.fromkeys": from_keys,
    "collections.OrderedDict.fromkeys": from_keys,
    "builtins.sorted": sorted_,
    "heapq.nsmallest": sorted_,
    "heapq.nlargest": sorted_,
    "builtins.min": extreme,
    "builtins.max": extreme,
    "builtins.len": erasing,
    "builtins.sum": erasing,
    "math.fsum": erasing,
    "builtins.any": erasing,
    "builtins.all": erasing,
    "builtins.bool": erasing,
    "builtins.next": next_,
    "builtins.anext": next_,
    "builtins.str": to_text,
    "builtins.repr": to_text,
    "builtins.ascii": to_text,
    "builtins.format": to_text,
    "pprint.pformat": to_text,
    "textwrap.dedent": to_text,
    "builtins.int": to_number,
    "builtins.float": to_number,
    "builtins.range": range_,
    "builtins.getattr": get_attribute,
    "builtins.setattr": set_attribute,
    "builtins.open": open_,
    "io.open": open_,
    "pathlib.Path.open": open_,
    "builtins.property": property_,
    "functools.partial": partial,
    "functools.partialmethod": partial,
    "functools.cmp_to_key": comparison,
    "builtins.super": super_,
    "builtins.type": type_,
    "builtins.vars": vars_,
    "functools.reduce": reduce_,
    "operator.call": apply_call,
    "re.sub": substitute,
    "re.subn": substitute,
    "re.Pattern.sub": substitute,
    "re.Pattern.subn": substitute,
    "json.dumps": dumps,
    "orjson.dumps": dumps,
    "ujson.dumps": dumps,
    "simplejson.dumps": dumps,
    "yaml.dump": dumps,
    "yaml.safe_dump": dumps,
    "builtins.staticmethod": passing,
    "builtins.classmethod": passing,
    "builtins.object": object_,
    "itertools.chain": chain,
    "itertools.chain.from_iterable": chain,
    "itertools.islice": through,
    "itertools.takewhile": through,
    "itertools.dropwhile": through,
    "itertools.accumulate": through,
    "itertools.groupby": through,
    "itertools.starmap": through,
    "itertools.batched": through,
    "itertools.pairwise": through,
    "itertools.permutations": through,
    "itertools.combinations": through,
    "itertools.cycle": through,
    "more_itertools.chunked": through,
    **{
        f"asyncio.{name}": combine
        for name in words(
            """gather wait as_completed create_task ensure_future wait_for shield Task
    TaskGroup.create_task AbstractEventLoop.create_task
    AbstractEventLoop.run_until_complete run_coroutine_threadsafe run"""
        )
    },
    "contextlib.ExitStack.enter_context": enter_context,
    "contextlib.ExitStack.enter_async_context": enter_context,
    "contextlib.closing": passing,
    "contextlib.nullcontext": passing,
    "contextlib.aclosing": passing,
    "builtins.str.join": lambda f, node, ext, args: join_text(f, node, args),
    "builtins.bytes.join": lambda f, node, ext, args: join_text(f, node, args),
    "builtins.str.format": lambda f, node, ext, args: format_text(f, node, args),
    **{f"builtins.{name}": harmless for name in _HARMLESS},
}

BUILTIN_STR: Final = STR
