"""Builtins and standard functions whose meaning the analysis needs: conversions, iteration, partial application."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.calls import Args, call_value, escape, escape_all
from rulvar_lint.core.containers import format_text, join_text
from rulvar_lint.core.expressions import FLOAT, INT, STR, is_int
from rulvar_lint.core.operators import iterate
from rulvar_lint.core.order import order_of as order_of_value
from rulvar_lint.core.order import see_order, use_order
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Coro,
    Dict,
    Ext,
    Func,
    Inst,
    Obj,
    Partial,
    Seq,
    Set,
    Star,
    Super,
    Union,
    Unknown,
    Value,
    element_of,
    join,
    merge_taint,
    options_of,
    with_taint,
)

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.values import Taint


def _first(args: Args) -> Value | None:
    return args.get(0, "iterable")


def _taint(args: Args) -> Taint:
    taint: Taint = None
    for value in args.values():
        taint = merge_taint(taint, value.taint)
    return taint


def _unknown(args: Args) -> Value | None:
    taint = _taint(args)
    return Unknown(taint) if taint is not None else None


def _elements(f: Frame, node: ast.AST, args: Args) -> Value | None:
    value = _first(args)
    return iterate(f, node, value) if value is not None else None


def make_list(kind: str, verb: str) -> Callable[[Frame, ast.AST, Ext, Args], Value | None]:
    """A conversion that keeps the order of what it goes through."""

    def convert(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
        value = _first(args)
        if value is None:
            return None if args.pos or args.rest is not None else f.new_seq(kind, [])
        elem = _elements(f, node, args)
        made = f.new_seq(kind, None, elem)
        if isinstance(value, Seq) and value.items is not None and value.elem is None:
            made.items, made.elem = list(value.items), None
        made.order = order_of_value(f, node, value, verb)
        return with_taint(made, value.taint)

    return convert


def enumerate_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = _first(args)
    if value is None:
        return None
    made = f.new_seq("iter", None, f.new_seq("tuple", [INT, _elements(f, node, args)]))
    made.order = order_of_value(f, node, value, "numbers")
    return made


def zip_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    items = [iterate(f, node, value) for value in args.pos]
    made = f.new_seq("zip", None, f.new_seq("tuple", items) if any(items) else None)
    for value in args.pos:
        made.order = made.order or order_of_value(f, node, value, "pairs")
    return made


def map_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    func = args.pos[0] if args.pos else None
    items = [iterate(f, node, value) for value in args.pos[1:]]
    kind = ext.path.rpartition(".")[2]
    result = call_value(f, node, func, Args(list(items), {})) if func is not None else None
    made = f.new_seq(kind, None, result if kind == "map" else (items[0] if items else None))
    for value in args.pos[1:]:
        made.order = made.order or order_of_value(f, node, value, "maps over" if kind == "map" else "filters")
    return made


def make_set(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = _first(args)
    elem = _elements(f, node, args)
    stable = bool(
        (isinstance(value, Set) and value.stable)
        or (isinstance(value, Obj) and value.type == "builtins.range")
        or (isinstance(value, Seq) and elem is not None and value.items and all(map(is_int, value.items)))
    )
    return f.new_set(elem, stable)


def make_dict(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if args.pos else None
    made = f.new_dict(dict(args.kw))
    name = ext.path.rpartition(".")[2]
    if name in ("defaultdict", "ChainMap") and args.pos:
        if name == "defaultdict":
            made.elem = call_value(f, node, value, Args([], {})) if value is not None else None
        value = args.pos[1] if len(args.pos) > 1 else None
    if isinstance(value, Dict):
        made.entries = {**value.entries, **made.entries}
        made.elem = join(made.elem, value.elem)
    elif isinstance(value, Container):
        made.elem = element_of(value)
    made.order = order_of_value(f, node, value, "fills a mapping from")
    return made


def from_keys(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    made = f.new_dict(None, args.get(1, "value"))
    made.order = order_of_value(f, node, args.pos[0] if args.pos else None, "fills a mapping from")
    return made


def sorted_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    elem = _elements(f, node, args)
    f.m.call_key(f, node, args.kw.get("key"), [elem])
    value = _first(args)
    made = f.new_seq("list", None, elem)
    return made if value is None or value.taint is None else with_taint(made, value.taint)


def extreme(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    elem = _elements(f, node, args) if len(args.pos) == 1 else None
    f.m.call_key(f, node, args.kw.get("key"), [elem])
    taint = _taint(args)
    if len(args.pos) == 1:
        return with_taint(elem, taint)
    if args.pos and all(is_int(value) for value in args.pos):
        return with_taint(INT, taint)
    return Unknown(taint) if taint is not None else None


def erasing(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Functions whose result does not depend on the order of their argument."""
    name = ext.path.rpartition(".")[2]
    value = _first(args)
    elem = _elements(f, node, args)
    if name in ("sum", "fsum") and elem is not None:
        _sum(f, node, value, elem)
    if isinstance(value, Inst) and name in ("len", "bool"):
        f.m.call_special(f, node, value, f"__{name}__", [])
    taint = _taint(args)
    return with_taint(INT if name == "len" or is_int(elem) else None, taint)


def _sum(f: Frame, node: ast.AST, value: Value | None, elem: Value) -> None:
    """Adding floats is not associative: their sum does depend on the order."""
    if any(isinstance(o, Obj) and o.type == "builtins.float" for o in options_of(elem)) or any(
        isinstance(o, Const) and isinstance(o.value, float) for o in options_of(elem)
    ):
        see_order(f, node, value, "adds the floats of")


def next_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if args.pos else None
    see_order(f, node, value, "takes an element of")
    for hook in f.m.hooks.mutation:
        hook(f, node, value, "__next__", args)
    if isinstance(value, Inst):
        return f.m.call_special(f, node, value, "__next__", [])
    return _elements(f, node, args)


def to_text(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if args.pos else None
    if value is not None:
        f.m.text(f, node, value)
    return f.m.tainted_text(_taint(args))


def to_number(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return with_taint(FLOAT if ext.path == "builtins.float" else INT, _taint(args))


def harmless(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Functions that neither await nor keep their arguments."""
    return _unknown(args)


def range_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return with_taint(Obj("builtins.range"), _taint(args))


def get_attribute(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    base = args.pos[0] if args.pos else None
    name = args.pos[1] if len(args.pos) > 1 else None
    if base is None:
        return None
    if isinstance(name, Const) and isinstance(name.value, str):
        return join(f.m.attribute(f, node, base, name.value), args.get(2, "default"))
    if isinstance(base, Ext) and f.m.catalog.is_impure_module(base.path):
        f.effect(node, "RLV111", f"`{f.segment(node)}` picks a function of `{base.path}` by a name that is computed")
    return None


def set_attribute(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    base, name = args.get(0, ""), args.get(1, "")
    if base is not None:
        key = name.value if isinstance(name, Const) and isinstance(name.value, str) else "?"
        f.m.store_attribute(f, node, None, base, key, args.get(2, ""))
    return None


def partial(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    func = args.pos[0] if args.pos else None
    return Partial(func, list(args.pos[1:]), dict(args.kw))


def super_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    frame: Frame | None = f
    while frame is not None and (frame.decl is None or frame.decl.cls is None):
        frame = frame.outer
    if frame is None or frame.decl is None or frame.decl.cls is None or not frame.decl.params:
        return None
    bound = frame.env.get(frame.decl.params[0].name)
    return Super(frame.decl.cls, bound) if isinstance(bound, Inst | Class) else None


def type_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[0] if len(args.pos) == 1 else None
    return Class(value.decl) if isinstance(value, Inst) else None


def reduce_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.get(1, "iterable")
    see_order(f, node, value, "folds")
    func = args.pos[0] if args.pos else None
    if func is not None:
        return call_value(f, node, func, Args([None, iterate(f, node, value)], {}))
    return None


def apply_call(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`operator.call`, `asyncio.run` of a function and the like: call the first argument."""
    return call_value(f, node, args.pos[0] if args.pos else None, Args(list(args.pos[1:]), dict(args.kw)))


def dumps(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`json.dumps`: orders are looked at. A `default` function is called."""
    value = args.get(0, "obj")
    if isinstance(value, Container) and not isinstance(value, Set):
        use_order(f, node, value)
    f.m.call_key(f, node, args.kw.get("default"), [None])
    made = f.m.tainted_text(_taint(args))
    for hook in f.m.hooks.dumps:
        made = hook(f, node, args, made)
    return made  # type: ignore[no-any-return]


def passing(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Functions that give back their argument, such as `typing.cast` and `copy.copy`."""
    value = args.pos[-1] if args.pos else None
    return value.value if isinstance(value, Star) else value


def chain(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    made = f.new_seq("iter", None, None)
    for value in args.pos:
        for part in (value, iterate(f, node, value)):
            made.order = made.order or order_of_value(f, node, part, "chains")
        made.elem = join(made.elem, iterate(f, node, value))
    return made


def through(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """Iterator tools that keep the order of their argument."""
    value = next((v for v in args.pos if isinstance(v, Container)), None)
    for other in args.pos:
        if isinstance(other, Func):
            call_value(f, node, other, Args([iterate(f, node, value)], {}))
    if value is None:
        escape_all(f, node, args)
        return None
    made = f.new_seq("iter", None, element_of(value))
    made.order = order_of_value(f, node, value, "goes through")
    return made


def vars_(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    for value in args.values():
        escape(f, node, value)
    return f.new_dict(None, None)


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
    if ext.path.endswith("as_completed"):
        return f.new_seq("iter", None, coro)
    return coro


_HARMLESS: Final = ["isinstance", "issubclass", "hasattr", "callable", "print", "repr_", "abs", "round", "divmod", "pow", "chr", "ord", "hex", "oct", "bin", "delattr", "locals", "globals", "dir", "property", "classmethod", "staticmethod", "memoryview", "bytes", "bytearray", "complex", "object"]

TABLE: Final[dict[str, Callable[[Frame, ast.AST, Ext, Args], Any]]] = {
    "builtins.list": make_list("list", "lists"),
    "builtins.tuple": make_list("tuple", "lists"),
    "builtins.iter": make_list("iter", "goes through"),
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
    "functools.partial": partial,
    "functools.partialmethod": partial,
    "builtins.super": super_,
    "builtins.type": type_,
    "builtins.vars": vars_,
    "functools.reduce": reduce_,
    "operator.call": apply_call,
    "json.dumps": dumps,
    "orjson.dumps": dumps,
    "ujson.dumps": dumps,
    "simplejson.dumps": dumps,
    "yaml.dump": dumps,
    "yaml.safe_dump": dumps,
    "typing.cast": passing,
    "copy.copy": passing,
    "copy.deepcopy": passing,
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
        for name in ["gather", "wait", "as_completed", "create_task", "ensure_future", "wait_for", "shield", "TaskGroup.create_task", "AbstractEventLoop.create_task", "AbstractEventLoop.run_until_complete", "run_coroutine_threadsafe", "run"]
    },
    "contextlib.closing": passing,
    "contextlib.nullcontext": passing,
    "contextlib.aclosing": passing,
    "builtins.str.join": lambda f, node, ext, args: join_text(f, node, args),
    "builtins.bytes.join": lambda f, node, ext, args: join_text(f, node, args),
    "builtins.str.format": lambda f, node, ext, args: format_text(f, node, args),
    **{f"builtins.{name}": harmless for name in _HARMLESS},
}

BUILTIN_STR: Final = STR
