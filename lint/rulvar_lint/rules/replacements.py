"""What may stand in the place of an unstable call: the fixes of RLV101-RLV114."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ancestry import ancestors
from rulvar_lint.core.frame import REGION
from rulvar_lint.core.values import Const, Ext
from rulvar_lint.rules.origins import is_certain
from rulvar_lint.rules.shims import DIRECT

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.findings import Finding
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks

_UTC: Final = frozenset({"datetime.timezone.utc", "datetime.UTC"})
_LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warning": "warn",
    "warn": "warn",
    "error": "error",
    "exception": "error",
    "critical": "error",
}


def install(hooks: Hooks) -> None:
    """Listen to the calls that have a replacement."""
    hooks.on_call(" ".join(DIRECT), _direct)
    hooks.on_call("datetime.datetime.now", _now)
    hooks.on_call("random.random", _random)
    hooks.on_call("builtins.print", _print)
    for level in _LEVELS:
        hooks.on_call(f"logging.{level} logging.Logger.{level}", _logging)
    hooks.on_call("builtins.input", _input)


def _finding(f: Frame, node: ast.AST, args: Args, code: str) -> Finding | None:
    if f.mode != REGION or _is_handed_on(node, args):
        return None
    found = f.m.findings.get((f.module.path, getattr(node, "lineno", 0), code))
    if found is None or found.node is not node or found.fix is not None:
        return None
    return found if code == "RLV113" or is_certain(f, node) else None


def _is_handed_on(node: ast.AST, args: Args) -> bool:
    """Whether a call does not call the function itself but is given it, as `map` is."""
    return isinstance(node, ast.Call) and len(node.args) + len(node.keywords) > args.count()


def _direct(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    code = "RLV103" if ext.path.startswith("uuid.") else "RLV101"
    finding, name = _finding(f, node, args, code), f.ctx_name()
    if finding is None or name is None or args.count():
        return
    safety, template = DIRECT[ext.path]
    text = template.format(ctx=name)
    place: ast.AST = node
    if code == "RLV103":
        member = _member(f, node)
        if member is not None:
            if member.attr != "hex":
                return
            place, text = member, f'{text}.replace("-", "")'
    finding.fix = (safety, f"Use `{text}`", [(place, text)], "replace")


def _member(f: Frame, node: ast.AST) -> ast.Attribute | None:
    """The attribute that is read of a call's result at once. `ctx.uuid()` is a string."""
    if f.decl is None:
        return None
    chain = ancestors(f.decl.node, node)
    above = chain[1] if len(chain) > 1 else None
    return above if isinstance(above, ast.Attribute) and above.value is node else None


def _now(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    finding, name = _finding(f, node, args, "RLV101"), f.ctx_name()
    if finding is None or name is None or args.count() > 1:
        return
    tz = args.get(0, "tz")
    is_naive = not args.count() or (isinstance(tz, Const) and tz.value is None)
    is_utc = isinstance(tz, Ext) and tz.path in _UTC
    if not is_naive and not is_utc:
        zone = args.node(0, "tz")
        segment = f.module.source.segment(zone) if zone is not None else None
        text = f"{name}.now().astimezone({segment})" if segment else ""
    else:
        text = f"{name}.now()"
    if text:
        finding.fix = ("safe" if is_utc else "unsafe", f"Use `{text}`", [(node, text)], "replace")


def _random(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    finding, name = _finding(f, node, args, "RLV102"), f.ctx_name()
    if finding is not None and name is not None and not args.count():
        quote = _quote(f, node) if finding.in_text else '"'
        text = f"{name}.random({quote}{_target(f, node) or 'draw'}{quote})"
        finding.fix = ("safe", f"Use `{text}`", [(node, text)], "replace")


def _quote(f: Frame, node: ast.AST) -> str:
    """The quote that does not end the f-string around a node."""
    source = f.module.source
    line: int = getattr(node, "lineno", 0)
    before = source.line_text(line)[: source.column(line, getattr(node, "col_offset", 0)) - 1]
    openers = re.findall(r"[fF][rR]?([\"'])", before)
    return "'" if not openers or openers[-1] == '"' else '"'


def _target(f: Frame, node: ast.AST) -> str:
    """The variable that a line assigns to."""
    line = f.module.source.line_text(getattr(node, "lineno", 0))
    match = re.match(r"\s*([A-Za-z_]\w*)\s*(?::[^=]*)?=[^=]", line)
    return match[1] if match else ""


def _print(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        _log(f, node, args, "info", node.args[0], [])


def _logging(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if isinstance(node, ast.Call) and node.args and not node.keywords:
        level = _LEVELS[ext.path.rpartition(".")[2]]
        _log(f, node, args, level, node.args[0], node.args[1:])


def _log(f: Frame, node: ast.Call, args: Args, level: str, message: ast.expr, rest: list[ast.expr]) -> None:
    finding = _finding(f, node, args, "RLV113")
    name = f.ctx_name() if finding is not None else None
    if finding is None or name is None:
        return
    texts = [f.module.source.segment(part) for part in (message, *rest)]
    if None in texts or any(isinstance(part, ast.Starred) for part in (message, *rest)):
        return
    said = str(texts[0])
    if rest:
        is_mapping = isinstance(message, ast.Constant) and "%(" in str(message.value)
        given = str(texts[1]) if is_mapping else f"({', '.join(map(str, texts[1:]))},)"
        said = f"{said} % {given}"
    elif not isinstance(message, (ast.Constant, ast.JoinedStr)):
        said = f"str({said})"
    finding.fix = ("unsafe", "Use `ctx.log`", [(node, f'{name}.log("{level}", {said})')], "replace")


def _input(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    finding, name = _finding(f, node, args, "RLV112"), f.ctx_name()
    if finding is not None and name is not None and f.decl is not None and f.decl.is_async:
        text = f'await {name}.await_external("answer")'
        finding.fix = ("manual", "Suspend until a person answers", [(node, text)], "replace")
