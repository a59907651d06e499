"""RLV206: formats and time zones that the host decides."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.frame import REGION
from rulvar_lint.core.values import (
    Const,
    Ext,
    LazyImport,
    Value,
)

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.findings import Finding, Plan
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks


def install(hooks: Hooks) -> None:
    """Listen to what this rule judges."""
    hooks.format_spec.append(_format_spec)
    hooks.unknown_call.append(_by_name)
    for kind in ("datetime", "date", "time"):
        hooks.on_call(
            f"datetime.{kind}.strftime datetime.{kind}.astimezone datetime.{kind}.__format__",
            _datetime_method,
        )
    hooks.on_call("time.strftime", _strftime)
    hooks.on_call("datetime.datetime.fromtimestamp", _from_timestamp)
    hooks.on_call("time.localtime", _localtime)
    hooks.on_call("builtins.format", _format)
    hooks.on_call("builtins.str.format", _template)


_ZONES: Final = {
    "datetime.UTC": "",
    "datetime.timezone.utc": "",
    "datetime.timezone": ".utc",
    "datetime": ".timezone.utc",
}


_LOCALE_FORMAT: Final = re.compile(r"(?<!%)(?:%%)*%[-_0^#]?[cxXp]")


_LOCALE_NUMBER: Final = re.compile(r"^(?:.?[<>=^])?[ +-]?z?#?0?\d*(?:\.\d+)?n$")


def _local(f: Frame, node: ast.AST, what: str, fix: Plan | None = None) -> None:
    if f.mode == REGION:
        f.effect(node, "RLV206", what, "warning", fix=fix)


def utc_name(f: Frame) -> str | None:
    """How the module at hand can name the UTC zone."""
    for name, value in f.module.env.items():
        if isinstance(value, LazyImport):
            path = value.name if value.attr is None else f"{value.name}.{value.attr}"
        else:
            path = value.path if isinstance(value, Ext) else ""
        if path in _ZONES:
            return name + _ZONES[path]
    return None


def _constant_text(node: ast.AST | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and all(isinstance(part, ast.Constant) for part in node.values):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return None


def _format_spec(f: Frame, node: ast.AST, spec: ast.AST, value: Value | None) -> None:
    _judge_format(f, node, _constant_text(spec))


def _judge_format(f: Frame, node: ast.AST, spec: str | None) -> None:
    if spec and (_LOCALE_FORMAT.search(spec) or _LOCALE_NUMBER.match(spec)):
        _local(f, node, f"the format `{spec}` follows the locale of the host")


def _template(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    """`"{:n}".format(...)`."""
    from string import Formatter

    func = node.func if isinstance(node, ast.Call) else None
    text = _constant_text(func.value) if isinstance(func, ast.Attribute) else None
    try:
        specs = [spec for _, _, spec, _ in Formatter().parse(text or "")]
    except ValueError:
        return
    for spec in specs:
        _judge_format(f, node, spec)


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
            what = "`astimezone()` without an argument uses the time zone of the host"
            zone = utc_name(f) if isinstance(node, ast.Call) and not args.count() else None
            fix = ("unsafe", f"Pass `{zone}`", [(node, zone)], "argument") if zone else None
            _local(f, node, what, fix)
    elif name in ("strftime", "__format__"):
        _judge_format(f, node, _text_of(args.get(0, "format")))


def _from_timestamp(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    finding = _found(f, node)
    zone = utc_name(f)
    if finding is not None and zone is not None and args.count() == 1:
        finding.fix = ("unsafe", f"Pass `{zone}`", [(node, f"tz={zone}")], "argument")


def _localtime(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    finding = _found(f, node)
    if finding is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        base = f.module.source.segment(node.func.value)
        finding.fix = ("unsafe", "Use `gmtime`", [(node.func, f"{base}.gmtime")], "replace")


def _found(f: Frame, node: ast.AST) -> Finding | None:
    found = f.m.findings.get((f.module.path, getattr(node, "lineno", 0), "RLV206"))
    return found if found is not None and found.node is node else None


def _strftime(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if args.count() >= 2:
        _judge_format(f, node, _text_of(args.get(0, "format")))


def _format(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    _judge_format(f, node, _text_of(args.get(1, "format_spec")))
