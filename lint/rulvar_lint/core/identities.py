"""What identifies a journaled call, read off its arguments."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.freevars import names_in
from rulvar_lint.core.nodes import walk
from rulvar_lint.core.values import Const, Func
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall

# Options that are no part of the identity of a call.
IGNORED: Final = names("""label on_error retry replay memoize_outcome limits est_cost stream
fallback phase returns settle abort_siblings on_item_error""")

_SKIPPED: Final = IGNORED | {"key", "prompt"}


def identity_parts(call: CtxCall) -> list[tuple[str, ast.expr]] | None:
    """(name, expression) of what identifies a call; None when arguments are spread and cannot be
    seen.
    """
    args = call.args
    if args.rest is not None or any(isinstance(node, ast.Starred) for node in args.pos_nodes):
        return None
    if isinstance(call.node, ast.Call) and any(keyword.arg is None for keyword in call.node.keywords):
        return None
    key = call.expr("key")
    if isinstance(key, ast.Constant) and key.value is None:
        key = None
    parts: list[tuple[str, ast.expr]] = []
    if call.name == "step":
        if key is not None:
            parts = [("label", key)]
        else:
            label = call.expr("label")
            parts = [("label", label)] if label is not None else []
        deps = call.expr("deps")
        if deps is not None and not _is_empty(deps):
            parts.append(("deps", deps))
        return parts
    if call.name == "await_external":
        return [("key", key)] if key is not None else []
    if call.name == "workflow":
        child, given = call.expr("child"), call.expr("args")
        parts = [("child", child)] if child is not None else []
        second = key if key is not None else given
        return [*parts, ("args", second)] if second is not None else parts
    prompt = call.expr("prompt")
    first = key if key is not None else prompt
    parts = [("prompt", first)] if first is not None else []
    parts += [
        (name, node)
        for name, node in sorted(args.kw_nodes.items())
        if name not in _SKIPPED and not name.startswith("on_") and not _is_none(node)
    ]
    return parts


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, (ast.Tuple, ast.List)) and not node.elts


def canonical(node: ast.AST, known: Mapping[str | ast.AST, str] | None = None) -> str:
    """A text that is equal for expressions that mean the same: quotes and the order of dict keys
    do not count. `known` says what names, and nodes, stand for.
    """
    if known:
        if node in known:
            return known[node]
        if isinstance(node, ast.Name):
            return known.get(node.id, node.id)
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        pairs = sorted(
            (canonical(key, known), canonical(value, known))
            for key, value in zip(node.keys, node.values, strict=True)
            if key
        )
        return "{" + ",".join(f"{k}:{v}" for k, v in pairs) + "}"
    if isinstance(node, ast.Call):
        args = ",".join(canonical(arg, known) for arg in node.args)
        kws = ",".join(
            sorted(f"{keyword.arg}={canonical(keyword.value, known)}" for keyword in node.keywords)
        )
        return f"{canonical(node.func, known)}({args};{kws})"
    if isinstance(node, ast.JoinedStr):
        return "f" + "|".join(canonical(value, known) for value in node.values)
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__}:{node.value!r}"
    fields = []
    for name, value in ast.iter_fields(node):
        if name == "ctx":
            continue
        if isinstance(value, ast.AST):
            fields.append(f"{name}={canonical(value, known)}")
        elif isinstance(value, list):
            parts = (canonical(v, known) if isinstance(v, ast.AST) else repr(v) for v in value)
            fields.append(f"{name}=[{','.join(parts)}]")
        else:
            fields.append(f"{name}={value!r}")
    return f"{type(node).__name__}({','.join(fields)})"


def describe_call(call: CtxCall) -> tuple[str, str]:
    """(identity as a text that means the same for equal calls, the call as shown to people).

    Names stand for what they are assigned, so that renaming a variable changes nothing and
    changing the text in it does.
    """
    parts = identity_parts(call)
    source = call.frame.module.source
    if not parts:
        text = " ".join((source.segment(call.node) or call.name).split())
        return text, text
    names = _Names(call)
    identity = ";".join(f"{name}={names.expand(node)}" for name, node in parts)
    shown = ", ".join(f"{name}={' '.join((source.segment(node) or '').split())}" for name, node in parts)
    return identity, f"ctx.{call.name}({shown})"


class _Names:
    """What the variables of a function stand for, as texts that do not depend on their names."""

    __slots__ = ("bound", "call", "calls")

    def __init__(self, call: CtxCall) -> None:
        self.call = call
        self.calls = {other.node: other for other in call.frame.calls}
        self.bound: dict[str, list[tuple[str, ast.expr | None]]] = {}
        decl = call.frame.decl
        if decl is None:
            return
        for index, param in enumerate(decl.params):
            self.bound[param.name] = [(f"parameter {index}", None)]
        for node in walk(decl.node):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, "", node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            self._bind(node.target, "", node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._bind(node.target, "each of ", node.iter)

    def _bind(self, target: ast.expr, how: str, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.bound.setdefault(target.id, []).append((how, value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, element in enumerate(target.elts):
                self._bind(element, f"{how}part {index} of ", value)

    def text(self, name: str, depth: int = 0) -> str:
        """What a name stands for; the name itself where that cannot be said."""
        entries = self.bound.get(name)
        if entries is None:
            return _global_text(self.call, name) or name
        if depth > _DEPTH:
            return "..."
        return "|".join(
            how if value is None else how + self.expand(value, depth + 1) for how, value in entries
        )

    def expand(self, node: ast.AST, depth: int = 0) -> str:
        """The canonical text of an expression with its names spelled out. A journaled call in it
        stands for what identifies it.
        """
        known: dict[str | ast.AST, str] = {name: self.text(name, depth) for name in names_in(node)}
        for inner in walk(node):
            call = self.calls.get(inner)
            if call is not None and depth <= _DEPTH:
                parts = identity_parts(call) or ()
                texts = (f"{name}={self.expand(part, depth + 1)}" for name, part in parts)
                known[inner] = f"ctx.{call.name}({';'.join(texts)})"
        return canonical(node, known)


_DEPTH: Final = 3


def _global_text(call: CtxCall, name: str) -> str:
    frame = call.frame
    if name in frame.env or frame.owner_of(name) is not None:
        return ""
    value = frame.m.static_global(frame.module, name)
    if isinstance(value, Const):
        return f"{type(value.value).__name__}:{value.value!r}"
    if isinstance(value, Func):
        body = canonical(value.decl.node)
        from hashlib import sha256

        return f"function:{sha256(body.encode('utf-8', 'replace')).hexdigest()[:12]}"
    return ""
