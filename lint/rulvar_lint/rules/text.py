"""RLV202, RLV206-RLV208: texts and numbers that differ between processes, hosts and deploys."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.classes import external_bases, find_attribute, has_unknown_base, is_data_class
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import PLAIN, REGION
from rulvar_lint.core.values import (
    Bound,
    Const,
    Func,
    Inst,
    Obj,
    Seq,
    Union,
    Value,
    merge_taint,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.values import Ext


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.text.append(_default_repr)
    hooks.on_call("builtins.hash builtins.id", _identity)
    hooks.format_spec.append(_format_spec)
    hooks.unknown_call.append(_by_name)
    for kind in ("datetime", "date", "time"):
        hooks.on_call(
            f"datetime.{kind}.strftime datetime.{kind}.astimezone datetime.{kind}.__format__",
            _datetime_method,
        )
    hooks.on_call("time.strftime", _strftime)
    hooks.on_call("builtins.format", _format)
    hooks.text.append(_exc_info)
    hooks.dumps.append(_dumps)
    hooks.ctx_call.append(_unsorted)


# RLV202


_STABLE_BASES: Final = (
    "enum.",
    "builtins.Exception",
    "builtins.BaseException",
    "pydantic",
    "typing.NamedTuple",
    "typing.TypedDict",
    "builtins.",
    "collections.",
    "sqlmodel.",
    "msgspec.",
)
_INERT_BASES: Final = names("""builtins.object abc.ABC typing.Generic typing.Protocol
typing_extensions.Protocol contextlib.AbstractContextManager
contextlib.AbstractAsyncContextManager collections.abc.Callable""")


def has_default_repr(inst: Inst) -> bool:
    """Whether the text of an instance holds its memory address."""
    decl = inst.decl
    for name in ("__str__", "__repr__", "__format__"):
        if find_attribute(decl, name) is not None:
            return False
    if is_data_class(decl) or has_unknown_base(decl):
        return _repr_is_off(inst)
    return all(base in _INERT_BASES for base in external_bases(decl))


def _repr_is_off(inst: Inst) -> bool:
    for expr in inst.decl.node.decorator_list:
        if isinstance(expr, ast.Call):
            for keyword in expr.keywords:
                if (
                    keyword.arg == "repr"
                    and isinstance(keyword.value, ast.Constant)
                    and keyword.value.value is False
                ):
                    return True
    return False


_ADDRESS_TYPES: Final = names(
    """builtins.object threading.Lock threading.RLock asyncio.Lock asyncio.Event"""
)
_ADDRESS_SEQS: Final = frozenset({"gen", "map", "filter", "zip", "iter"})


def _default_repr(f: Frame, node: ast.AST, value: Value) -> None:
    if f.mode not in (REGION, PLAIN):
        return
    what = ""
    if isinstance(value, Inst) and has_default_repr(value):
        what = f"the default text of a `{value.decl.name}` holds its memory address"
    elif isinstance(value, Func):
        what = f"the text of the function `{value.decl.name}` holds its memory address"
    elif isinstance(value, Bound) or (isinstance(value, Obj) and value.type in _ADDRESS_TYPES):
        what = "the default text of an object holds its memory address"
    elif isinstance(value, Seq) and value.kind in _ADDRESS_SEQS:
        what = "the text of an iterator holds its memory address"
    if what:
        f.effect(node, "RLV202", what)


def _identity(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    value = args.pos[0] if args.pos else None
    if ext.path == "builtins.hash":
        if isinstance(value, Const) and isinstance(value.value, int | float | bool):
            return
        if isinstance(value, Obj) and value.type in ("builtins.int", "builtins.float"):
            return
        if args.count() or not isinstance(node, ast.Call):
            f.effect(
                node,
                "RLV202",
                f"`{f.segment(node)}` differs in every process, because text hashes are salted",
            )
    else:
        f.effect(node, "RLV202", f"`{f.segment(node)}` is a memory address")


# RLV206


_LOCALE_FORMAT: Final = re.compile(r"(?<!%)(?:%%)*%[-_0^#]?[cxXp]")
_LOCALE_NUMBER: Final = re.compile(r"^(?:.?[<>=^])?[ +-]?z?#?0?\d*(?:\.\d+)?n$")


def _local(f: Frame, node: ast.AST, what: str) -> None:
    if f.mode == REGION:
        f.effect(node, "RLV206", what, "warning")


def _constant_text(node: ast.AST | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and all(
        isinstance(part, ast.Constant) for part in node.values
    ):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return None


def _format_spec(f: Frame, node: ast.AST, spec: ast.AST, value: Value | None) -> None:
    _judge_format(f, node, _constant_text(spec))


def _judge_format(f: Frame, node: ast.AST, spec: str | None) -> None:
    if spec and (_LOCALE_FORMAT.search(spec) or _LOCALE_NUMBER.match(spec)):
        _local(f, node, f"the format `{spec}` follows the locale of the host")


def _text_of(value: Value | None) -> str | None:
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def _by_name(f: Frame, node: ast.AST, args: Args) -> None:
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute):
        _datetime_call(f, node, func.attr, args)


def _datetime_method(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    _datetime_call(f, node, ext.path.rpartition(".")[2], args)


def _datetime_call(f: Frame, node: ast.AST, name: str, args: Args) -> None:
    if name == "astimezone":
        tz = args.get(0, "tz")
        if (not args.count() and args.rest is None) or (isinstance(tz, Const) and tz.value is None):
            _local(f, node, "`astimezone()` without an argument uses the time zone of the host")
    elif name in ("strftime", "__format__"):
        _judge_format(f, node, _text_of(args.get(0, "format")))


def _strftime(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if args.count() >= 2:
        _judge_format(f, node, _text_of(args.get(0, "format")))


def _format(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    _judge_format(f, node, _text_of(args.get(1, "format_spec")))


# RLV208


def _exc_info(f: Frame, node: ast.AST, value: Value) -> None:
    if (
        f.mode == REGION
        and isinstance(value, Obj)
        and value.type in ("sys.exc_info", "traceback.TracebackException")
    ):
        f.effect(
            node,
            "RLV208",
            "the text of a traceback holds paths, line numbers and addresses",
            "warning",
        )


# RLV207


def _dumps(f: Frame, node: ast.AST, args: Args, value: Value) -> Value:
    """Serialising without sorted keys is remembered, and reported only if it reaches an
    identity."""
    if f.mode != REGION or not isinstance(node, ast.Call):
        return value
    keys = args.kw.get("sort_keys")
    if (isinstance(keys, Const) and keys.value) or args.rest is not None or "option" in args.kw:
        return value
    cause = Cause(
        "RLV207",
        f"`{f.segment(node)}` writes keys in the order they were added",
        f.place(node),
        (),
        "warning",
    )
    f.m.unsorted[cause] = node
    return Obj("builtins.str", merge_taint(value.taint, frozenset((cause,))))


def _unsorted(f: Frame, call: CtxCall) -> None:
    if f.mode != REGION:
        return
    for value in call.args.values():
        for option in value.options if isinstance(value, Union) else (value,):
            for cause in option.taint or ():
                if cause.code == "RLV207" and cause in f.m.unsorted:
                    f.m.report(f, f.m.unsorted[cause], cause)
