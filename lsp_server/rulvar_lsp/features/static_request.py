"""The part of a model request that the text of a call says by itself.

A request is *static* when prompt, model, schema and effort are written out and nothing else shapes it: no tools,
no profile, no limits. Of such a call the hash is known without running anything.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol

from rulvar_lint.core.syntax import syntax_tree
from rulvar_lsp.text import Span, Text

# options of `ctx.agent` that leave the first request as it is
_HARMLESS = frozenset(
    {"label", "key", "result", "on_error", "retry", "est_cost", "memoize_outcome", "stream"}
)
_ASSIGNED = re.compile(r"^([^\W\d]\w*)[ \t]*(?::[^=\r\n]+)?(\+?)=(?!=)[ \t]*", re.MULTILINE)
_GLOBAL = re.compile(r"^[ \t]+global[ \t]+([\w, \t]+)", re.MULTILINE)
_ROUTED = re.compile(r"""["']loop["']\s*:\s*["']([\w.-]+:[^"'\s]+)["']""")
_MOST_LINES = 60


class Strings(Protocol):
    """Strings by name."""

    def get(self, name: str, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class StaticRequest:
    """What a call asks for. `model` is `adapter:model`, None where the call leaves it to the engine."""

    prompt: str
    model: str | None = None
    effort: str | None = None
    schema: str | None = None  # the JSON Schema as a Python literal


def static_request(source: str, constants: Strings) -> StaticRequest | None:
    """Return what the call in `source` asks for, None where that is not known before it runs.

    `constants` are the module's strings by name.
    """
    try:
        node = syntax_tree(f"({source}\n)", "eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.Call) or len(node.args) > 1:
        return None
    given = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    if node.args:
        given["prompt"] = node.args[0]
    prompt = _string(given.pop("prompt", None), constants)
    if prompt is None:
        return None
    model = effort = schema = None
    for name, value in given.items():
        if name in _HARMLESS or (isinstance(value, ast.Constant) and value.value is None):
            continue
        if name == "model" and (model := _string(value, constants)) is not None and ":" in model:
            continue
        if name == "effort" and (effort := _string(value, constants)) is not None:
            continue
        if name == "schema" and (schema := _literal(value)) is not None:
            continue
        return None
    return StaticRequest(prompt, model, effort, schema)


def _string(node: ast.expr | None, constants: Strings) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return constants.get(name)
        case ast.JoinedStr(values=parts):
            return _joined([_string(part, constants) for part in parts])
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _string(value, constants)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined([_string(left, constants), _string(right, constants)])
    return None


def _joined(parts: list[str | None]) -> str | None:
    return None if None in parts else "".join(part for part in parts if part is not None)


def _literal(node: ast.expr) -> str | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return ast.unparse(node) if isinstance(value, dict) else None


class ModuleStrings:
    """The strings that a module assigns to a name at its margin, once and for good; read when asked for."""

    def __init__(self, text: Text) -> None:
        self._source = text.source
        self._starts: defaultdict[str, list[int]] = defaultdict(list)
        for match in _ASSIGNED.finditer(text.source):
            # several assignments, or one that adds to what was there, make a name that is not known
            self._starts[match[1]] += [match.end()] * (2 if match[2] else 1)
        for match in _GLOBAL.finditer(text.source):
            for name in match[1].split(","):
                self._starts.pop(name.strip(), None)
        self._known: dict[str, str | None] = {}

    def get(self, name: str) -> str | None:
        """The string that a name stands for, None for anything else."""
        if name not in self._known:
            self._known[name] = None  # also the answer to a name that is made of itself
            starts = self._starts.get(name, [])
            if len(starts) == 1 and not _bound_elsewhere(self._source, name):
                self._known[name] = _string(_expression(self._source, starts[0]), self)
        return self._known[name]


def _bound_elsewhere(source: str, name: str) -> bool:
    """Say whether a function may have a variable of its own of this name."""
    bound = (
        rf"^[ \t]+{name}[ \t]*(?::[^=\r\n]+)?\+?=(?!=)|\b{name}[ \t]*:="
        rf"|\b(?:for|as|nonlocal)[ \t]+[^\r\n:]*\b{name}\b|\bdef[ \t]+\w+\([^)]*\b{name}\b"
    )
    return re.search(bound, source, re.MULTILINE) is not None


def _expression(source: str, start: int) -> ast.expr | None:
    """The expression that begins here: as many lines as it takes to make one."""
    end = start
    for _ in range(_MOST_LINES):
        stop = source.find("\n", end)
        end = len(source) if stop < 0 else stop + 1
        try:
            return syntax_tree(source[start:end].strip(), "eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            if end == len(source):
                break
    return None


def call_source(text: Text, span: Span) -> str:
    """The text of a call."""
    return text.source[text.offset(span.line, span.column) : text.offset(span.end_line, span.end_column)]


def routed_models(source: str) -> frozenset[str]:
    """The models that a test file or conftest gives an engine for plain calls."""
    return frozenset(_ROUTED.findall(source))


def imports_module(source: str, stem: str) -> bool:
    """Say whether a file imports a module of this name."""
    if stem not in source:
        return False
    name = re.escape(stem)
    return (
        re.search(
            rf"^[ \t]*(?:import[ \t][^#\r\n]*\b{name}\b|from[ \t]+\S*\b{name}[ \t]+import\b"
            rf"|from[ \t]+\S+[ \t]+import[ \t(][^#]*?\b{name}\b)",
            source,
            re.MULTILINE,
        )
        is not None
    )
