"""Where two journals part: per scope, the first call that is not the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rulvar.cli.journals import Call, calls_of
from rulvar.contracts.entries import JournalEntry

__all__ = ["Divergence", "compare_journals"]

_LONGEST = 100
_LEAD = 24
_MOST_DIFFERENCES = 8
_ABSENT = object()
_COMPARED = ("value", "error", "servedBy", "memoizeOutcome")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference in one scope.

    Attributes:
        position: number of the call within the scope, from 1 on.
        reason: ``outcome`` (the same call, another end), ``changed`` (another call stands there),
            ``inserted`` (only B has it), ``removed`` (only A has it).
        differences: field path, A's text, B's text.
    """

    scope: str
    position: int
    reason: str
    message: str
    a: Call | None
    b: Call | None
    differences: tuple[tuple[str, str, str], ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "scope": self.scope,
            "position": self.position,
            "reason": self.reason,
            "message": self.message,
            "a": _call_wire(self.a),
            "b": _call_wire(self.b),
            "differences": [{"path": path, "a": a, "b": b} for path, a, b in self.differences],
        }


def compare_journals(a: Sequence[JournalEntry], b: Sequence[JournalEntry]) -> list[Divergence]:
    """Return the first divergence of every scope that has one, in the order of A's scopes, then B's."""
    left, right = _by_scope(a), _by_scope(b)
    names_a, names_b = _canonical_scopes(left), _canonical_scopes(right)
    found = []
    for name in dict.fromkeys((*names_a, *names_b)):
        calls_a, calls_b = names_a.get(name, []), names_b.get(name, [])
        divergence = _compare(name, calls_a, calls_b)
        if divergence is not None:
            found.append(divergence)
    return found


def _by_scope(entries: Sequence[JournalEntry]) -> dict[str, list[Call]]:
    scopes: dict[str, list[Call]] = {}
    for call in calls_of(entries):
        scopes.setdefault(call.scope, []).append(call)
    return scopes


def _canonical_scopes(scopes: dict[str, list[Call]]) -> dict[str, list[Call]]:
    """Name agents' scopes by the agent's place among the calls around it: its seq is not comparable."""
    places = {
        str(call.seq): str(number)
        for calls in scopes.values()
        for number, call in enumerate(calls, 1)
        if call.kind == "agent"
    }
    renamed: dict[str, list[Call]] = {}
    for scope, calls in scopes.items():
        parts = [
            f"agent:{places[part[6:]]}" if part.startswith("agent:") and part[6:] in places else part
            for part in scope.split("/")
        ]
        renamed["/".join(parts)] = calls
    return renamed


def _compare(scope: str, a: list[Call], b: list[Call]) -> Divergence | None:
    for index in range(max(len(a), len(b))):
        left = a[index] if index < len(a) else None
        right = b[index] if index < len(b) else None
        position = index + 1
        if left is None or right is None:
            reason, message = ("inserted", "only B has it") if left is None else ("removed", "only A has it")
            return Divergence(scope, position, reason, message, left, right)
        if _key(left) != _key(right):
            return _other_call(scope, position, left, right, a[index:], b[index:])
        differences = tuple(_differences(left, right))
        if differences:
            return Divergence(
                scope, position, "outcome", "the same call ended differently", left, right, differences
            )
    return None


def _other_call(
    scope: str, position: int, left: Call, right: Call, rest_a: list[Call], rest_b: list[Call]
) -> Divergence:
    later_in_b = _key(left) in map(_key, rest_b)
    later_in_a = _key(right) in map(_key, rest_a)
    if later_in_b and not later_in_a:
        return Divergence(scope, position, "inserted", "B has a call more here", left, right)
    if later_in_a and not later_in_b:
        return Divergence(scope, position, "removed", "A has a call more here", left, right)
    if later_in_a and later_in_b:
        return Divergence(scope, position, "changed", "the calls come in another order", left, right)
    differences: tuple[tuple[str, str, str], ...] = ()
    if left.kind == right.kind and left.name != right.name and "#" not in (left.name[0], right.name[0]):
        differences = (("name", left.name, right.name),)
    return Divergence(scope, position, "changed", "another call stands here", left, right, differences)


def _key(call: Call) -> tuple[str, Any]:
    return call.kind, call.first.get("key")


def _differences(left: Call, right: Call) -> Iterator[tuple[str, str, str]]:
    if left.status != right.status:
        yield "status", left.status, right.status
    sides = [
        {"value": call.value, **{name: call.wire.get(name) for name in _COMPARED[1:]}}
        for call in (left, right)
    ]
    found: list[tuple[str, Any, Any]] = []
    for name in _COMPARED:
        found.extend(_differing(sides[0][name], sides[1][name], name))
    for path, a, b in found[:_MOST_DIFFERENCES]:
        yield path, *_excerpts(a, b)
    if len(found) > _MOST_DIFFERENCES:
        yield "...", f"{len(found) - _MOST_DIFFERENCES} more", f"{len(found) - _MOST_DIFFERENCES} more"


def _differing(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    todo = [(a, b, path)]
    while todo:
        left, right, where = todo.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            names = list(dict.fromkeys((*left, *right)))
            todo.extend(
                (left.get(name, _ABSENT), right.get(name, _ABSENT), f"{where}.{name}")
                for name in reversed(names)
            )
        elif isinstance(left, list) and isinstance(right, list):
            longest = max(len(left), len(right))
            todo.extend(
                (_item(left, index), _item(right, index), f"{where}[{index}]")
                for index in reversed(range(longest))
            )
        elif not _same(left, right):
            yield where, left, right


def _same(left: Any, right: Any) -> bool:
    if left is _ABSENT or right is _ABSENT:
        return left is right
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _item(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else _ABSENT


def _excerpts(a: Any, b: Any) -> tuple[str, str]:
    """Return both sides shortened around their first difference."""
    left, right = _text(a), _text(b)
    first = next((i for i, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, first - _LEAD) if max(len(left), len(right)) > _LONGEST else 0
    return _cut(left, start), _cut(right, start)


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _LONGEST]
    return f"{'…' if start else ''}{shown}{'…' if start + _LONGEST < len(text) else ''}"


def _text(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _call_wire(call: Call | None) -> dict[str, Any] | None:
    if call is None:
        return None
    return {
        "seq": call.seq,
        "kind": call.kind,
        "name": call.name,
        "status": call.status,
        "key": call.first.get("key"),
    }
