"""State machines as they are written: places, transitions, a diagram. Read from the syntax, never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from rulvar_lint.core.syntax import syntax_tree
from rulvar_lsp.features.recorded import code
from rulvar_lsp.text import Span, Text

BASE = "StateMachine"
START, END = "start", "end"
_NAME = re.compile(r"(?:class|def)\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Transition:
    """One arrow of a machine: a method, where it starts and where it leads."""

    method: str
    sources: tuple[str, ...]
    target: str
    waits: bool
    guard: str | None
    error_place: str | None
    retries: bool
    name_span: Span
    span: Span

    @property
    def arrow(self) -> str:
        """`start → review, waits`."""
        return f"{', '.join(self.sources)} → {self.target}" + (", waits" if self.waits else "")


@dataclass(frozen=True, slots=True)
class Machine:
    """A subclass of `StateMachine`."""

    name: str
    name_span: Span
    span: Span
    transitions: tuple[Transition, ...]


def machines(text: Text) -> tuple[Machine, ...] | None:
    """Return the machines of a file in order; None when it does not parse."""
    if BASE not in text.source:
        return ()
    try:
        tree = syntax_tree(text.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = []
    bases = {BASE}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            bases |= {alias.asname for alias in node.names if alias.name == BASE and alias.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(_last(base) in bases for base in node.bases):
            bases.add(node.name)
            found.append(_machine(text, node))
    return tuple(sorted(found, key=lambda machine: machine.span.line))


def _machine(text: Text, node: ast.ClassDef) -> Machine:
    transitions = [t for part in node.body if _is_method(part) for t in _transitions(text, part)]
    return Machine(node.name, _name_span(text, node), _whole(node), tuple(transitions))


def _is_method(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _transitions(text: Text, method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Transition]:
    for mark in method.decorator_list:
        called = mark.func if isinstance(mark, ast.Call) else mark
        if _last(called) != "transition":
            continue
        given = _arguments(mark) if isinstance(mark, ast.Call) else {}
        retry = given.get("retry")
        yield Transition(
            method=method.name,
            sources=_places(given.get("from_")) or (START,),
            target=(_places(given.get("to")) or (END,))[0],
            waits=isinstance(w := given.get("wait"), ast.Constant) and w.value is True,
            guard=_words(given.get("guard")),
            error_place=_words(given.get("error_place")),
            retries=retry is not None and not (isinstance(retry, ast.Constant) and retry.value is None),
            name_span=_name_span(text, method),
            span=_whole(method),
        )


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    given = dict(zip(("to", "from_"), call.args, strict=False))
    return given | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _places(node: ast.expr | None) -> tuple[str, ...]:
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(place for part in node.elts for place in _places(part))
    words = _words(node)
    return (words,) if words else ()


def _words(node: ast.expr | None) -> str | None:
    """A string, or a name such as the constant `END`; what cannot be known is shown as it is written."""
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return None
    if isinstance(node, ast.Constant):
        return str(node.value)
    last = _last(node)
    return {"START": START, "END": END}.get(last, last) or ast.unparse(node)[:40]


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def _name_span(text: Text, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Span:
    line = node.lineno - 1
    match = _NAME.search(text.line(line))
    return Span(line, match.start(1), line, match.end(1)) if match else Span(line, 0, line, 0)


def _whole(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Span:
    first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
    return Span(first - 1, 0, (node.end_lineno or node.lineno) - 1, 1 << 20)


def transition_markdown(transitions: Iterable[Transition]) -> str:
    """What a transition does, for a hover over its name."""
    lines = []
    for one in transitions:
        lines.append(f"**{one.method}**: {', '.join(map(code, one.sources))} → {code(one.target)}")
        if one.waits:
            lines.append("- waits until an answer arrives")
        if one.guard:
            lines.append(f"- only if {code(one.guard)}")
        if one.retries:
            lines.append("- is tried again when it fails")
        if one.error_place:
            lines.append(f"- goes to {code(one.error_place)} when no attempt is left")
    return "\n".join(lines)


def diagram(machine: Machine) -> str:
    """The machine as a Mermaid state diagram."""
    places = {p for t in machine.transitions for p in (*t.sources, t.target, t.error_place) if p}
    ids = {place: f"p{n}" for n, place in enumerate(sorted(places - {START, END}))}
    ids |= {START: "[*]", END: "[*]"}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{_plain(place)}" as {key}' for place, key in ids.items() if key != "[*]"]
    for one in machine.transitions:
        label = one.method + (" (waits)" if one.waits else "") + (f" [{one.guard}]" if one.guard else "")
        for source in one.sources:
            lines.append(f"    {ids[source]} --> {ids[one.target]}: {_plain(label)}")
            if one.error_place:
                lines.append(f"    {ids[source]} --> {ids[one.error_place]}: {one.method} failed")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return re.sub(r'["\n:;]', " ", text)
