"""Where an unstable value goes: into an identity, a branch or the result. It completes the message
of its finding.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ctxcalls import SIGNATURES
from rulvar_lint.core.effects import in_order
from rulvar_lint.core.frame import REGION
from rulvar_lint.core.values import ATOMS, Container, Dict, Seq, Value, options_of
from rulvar_lint.core.words import names
from rulvar_lint.rules.wording import rank

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.findings import Sink
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.values import Taint

_IDENTITY: Final = names("""prompt key label deps args model effort schema agent_type tools isolation""")


def install(hooks: Hooks) -> None:
    """Listen to where values go."""
    hooks.ctx_call.append(_arguments)
    hooks.sink.append(_sink)
    hooks.region_end.append(_results)


def _note(f: Frame, kind: str, node: ast.AST, taint: Taint) -> None:
    line: int = getattr(node, "lineno", 0)
    for cause in in_order(taint):
        add_sink(f.m.sinks.setdefault((cause.code, cause.place), {}), (kind, line, f.module.path))


def add_sink(known: dict[str, Sink], sink: Sink) -> None:
    """Remember where a value goes, if that says more than what is known of the same file."""
    first = known.setdefault(sink[2], sink)
    if first is not sink and rank(sink) < rank(first):
        known[sink[2]] = sink


def _taint_of(value: Value | None, depth: int = 0, seen: set[Value] | None = None) -> Taint:
    if value is None or depth > 3:
        return None
    if value.taint is not None or value.__class__ in ATOMS:
        return value.taint
    if isinstance(value, Container):
        seen = set() if seen is None else seen
        if value in seen:
            return None
        seen.add(value)
    inner: list[Value | None] = []
    if isinstance(value, Seq):
        inner = [*(value.items or ()), value.elem]
    elif isinstance(value, Dict):
        inner = [*value.entries.values(), value.elem]
    elif isinstance(value, Container):
        inner = [value.elem]
    for item in inner:
        found = _taint_of(item, depth + 1, seen)
        if found is not None:
            return found
    return None


def _arguments(f: Frame, call: CtxCall) -> None:
    if f.mode != REGION:
        return
    names = SIGNATURES.get(call.name, ())
    for index, value in enumerate(call.args.pos):
        if index < len(names) and names[index] in _IDENTITY:
            _argument(f, call, names[index], value)
    for name, value in call.args.kw.items():
        if name in _IDENTITY:
            _argument(f, call, name, value)


def _argument(f: Frame, call: CtxCall, name: str, value: Value | None) -> None:
    for option in options_of(value):
        taint = _taint_of(option)
        if taint is not None:
            kind = name if name in ("prompt", "key", "label", "deps", "args") else "identity"
            _note(f, kind, call.node, taint)


def _sink(f: Frame, node: ast.AST, kind: str, value: Value) -> None:
    if f.mode == REGION:
        _note(f, kind, node, value.taint)


def _results(f: Frame) -> None:
    if f.outer is not None and f.outer.in_region:
        return
    for node, value in f.returned:
        for option in options_of(value):
            taint = _taint_of(option)
            if taint is not None:
                _note(f, "result", node, taint)
