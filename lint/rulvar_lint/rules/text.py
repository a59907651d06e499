"""RLV202, RLV207, RLV208: texts and numbers that differ between processes, hosts and deploys."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.classes import find_attribute, is_data_class
from rulvar_lint.core.effects import Cause, in_order
from rulvar_lint.core.frame import PLAIN, REGION
from rulvar_lint.core.lineage import external_bases, has_unknown_base
from rulvar_lint.core.values import (
    Bound,
    Const,
    Container,
    Dict,
    Ext,
    Func,
    Inst,
    Obj,
    Seq,
    Set,
    Union,
    Unknown,
    Value,
    merge_taint,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.values import Ext


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.text.append(_default_repr)
    hooks.on_call("builtins.hash builtins.id", _identity)
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


def has_default_repr(inst: Inst, way: tuple[str, ...]) -> bool:
    """Whether the text of an instance that one of these methods makes holds its memory address."""
    decl = inst.decl
    for name in way:
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


_ADDRESS_TYPES: Final = names("""builtins.object threading.Lock threading.RLock asyncio.Lock asyncio.Event""")
_PLAIN_TEXT: Final = frozenset({Const, Dict, Ext, Set, Unknown})
_ADDRESS_SEQS: Final = frozenset({"gen", "map", "filter", "zip", "iter"})


def _default_repr(f: Frame, node: ast.AST, value: Value, way: tuple[str, ...]) -> None:
    if f.mode not in (REGION, PLAIN):
        return
    if value.__class__ in _PLAIN_TEXT:
        return
    what = ""
    if isinstance(value, Inst) and has_default_repr(value, way):
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
        if isinstance(value, Const) and isinstance(value.value, (int, float, bool)):
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


# RLV208


def _exc_info(f: Frame, node: ast.AST, value: Value, way: tuple[str, ...]) -> None:
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


def _dumps(f: Frame, node: ast.AST, ext: Ext, args: Args, value: Value) -> Value:
    """Serialising without sorted keys is remembered, and reported only if it reaches an
    identity."""
    if f.mode != REGION or not isinstance(node, ast.Call) or args.rest is not None:
        return value
    keys = args.kw.get("sort_keys")
    is_sorted = "option" in args.kw or ext.path.startswith("yaml.")
    if isinstance(keys, Const):
        is_sorted = bool(keys.value)
    if is_sorted:
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
    if f.m.unsorted:
        for value in call.args.values():
            _report_unsorted(f, value, set())


def _report_unsorted(f: Frame, value: Value | None, seen: set[Value]) -> None:
    if value is None or value in seen:
        return
    seen.add(value)
    for cause in in_order(value.taint):
        if cause.code == "RLV207" and cause in f.m.unsorted:
            f.m.report(f, f.m.unsorted[cause], cause, fix=_sort(f.m.unsorted[cause]))
    inner: list[Value | None] = []
    if isinstance(value, Union):
        inner = list(value.options)
    elif isinstance(value, Container):
        inner = [value.elem, *getattr(value, "entries", {}).values()]
        inner += (value.items or []) if isinstance(value, Seq) else []
    for item in inner:
        _report_unsorted(f, item, seen)


def _sort(node: ast.AST) -> Plan | None:
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or any(k.arg == "sort_keys" for k in node.keywords):
        return None
    if isinstance(func, ast.Attribute) and getattr(func.value, "id", "") == "orjson":
        return None
    return ("unsafe", "Sort the keys", [(node, "sort_keys=True")], "argument")
