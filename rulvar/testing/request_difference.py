"""Compares two requests field by field: the paths that differ, and how far apart they are.

The distance is 0 for equal requests. A text that differs weighs more than a setting, and a message
too many weighs more than a text, since a call is known by what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.secret_shapes import MASK
from rulvar.testing.excerpt import ABSENT, common_prefix, common_suffix

__all__ = ["Difference", "RequestDifference", "compare_requests"]

_MOST_ALIGNED = 24
_FIELD_ORDER = (
    "model", "messages", "tools", "toolChoice", "schema", "effort", "maxOutputTokens", "stopSequences",
    "providerOptions",
)  # fmt: skip
_SETTING_WEIGHTS = {"model": 0.22, "effort": 0.2, "toolChoice": 0.2, "schema": 0.1, "providerOptions": 0.15}
_OTHER_SETTING = 0.15
_WHOLE_SCHEMA = 0.4
_MOST_OF_A_FIELD = 0.6
_MESSAGE = 1.0
_ROLE = 1.0
_PART = 0.8
_TOOL = 0.3
_TOOL_FIELD = 0.1
_TEXT_DIFFERS = 0.25
_TEXT = 1.5


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs; a side that has no such field is ``ABSENT``."""

    path: str
    recorded: Any
    actual: Any


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """How two requests differ, in the order of the request's fields."""

    distance: float
    differences: tuple[Difference, ...]


def compare_requests(recorded: Mapping[str, Any], actual: Mapping[str, Any]) -> RequestDifference:
    """Compare the hashed parts of two requests."""
    comparison = _Comparison()
    names = [name for name in _FIELD_ORDER if name in recorded or name in actual]
    names += sorted((recorded.keys() | actual.keys()) - set(_FIELD_ORDER))
    for name in names:
        left, right = recorded.get(name, ABSENT), actual.get(name, ABSENT)
        if left is not right and not same(left, right):
            compare = _FIELDS.get(name, _Comparison.setting)
            compare(comparison, name, left, right)
    return RequestDifference(round(comparison.distance, 4), tuple(comparison.found))


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; true is not 1, and a mask on the left stands for any word."""
    if isinstance(left, str) and isinstance(right, str):
        return left == right or (MASK in left and _fits_mask(left, right))
    if type(left) is not type(right) and (isinstance(left, bool) or isinstance(right, bool)):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _fits_mask(masked: str, text: str) -> bool:
    first, *rest = masked.split(MASK)
    if not text.startswith(first):
        return False
    position = len(first)
    for piece in rest[:-1]:
        position = text.find(piece, position)
        if position < 0:
            return False
        position += len(piece)
    return len(text) - position >= len(rest[-1]) and text.endswith(rest[-1])


class _Comparison:
    """Collects differences; each kind of field has a method and a weight."""

    def __init__(self) -> None:
        self.found: list[Difference] = []
        self.distance = 0.0

    def note(self, path: str, recorded: Any, actual: Any, weight: float) -> None:
        self.found.append(Difference(path, recorded, actual))
        self.distance += weight

    def setting(self, path: str, recorded: Any, actual: Any) -> None:
        weight = _SETTING_WEIGHTS.get(path, _OTHER_SETTING)
        if path == "schema" and (recorded is ABSENT or actual is ABSENT):
            weight = _WHOLE_SCHEMA
        before = self.distance
        self.tree(path, recorded, actual, weight)
        self.distance = min(self.distance, before + max(_MOST_OF_A_FIELD, weight))

    def tree(self, path: str, recorded: Any, actual: Any, weight: float) -> None:
        """Compare any JSON values, member by member and item by item."""
        if isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            for key in [*recorded, *(key for key in actual if key not in recorded)]:
                left, right = recorded.get(key, ABSENT), actual.get(key, ABSENT)
                if not same(left, right):
                    self.tree(_member(path, key), left, right, weight)
        elif isinstance(recorded, (list, tuple)) and isinstance(actual, (list, tuple)):
            for left, right, place in _aligned(recorded, actual):
                if not same(left, right):
                    self.tree(f"{path}[{place}]", left, right, weight)
        else:
            self.note(path, recorded, actual, weight)

    def messages(self, path: str, recorded: Any, actual: Any) -> None:
        if not (_is_list(recorded) and _is_list(actual)):
            self.note(path, recorded, actual, _MESSAGE)
            return
        for left, right, place in _aligned(recorded, actual):
            here = f"{path}[{place}]"
            if not (isinstance(left, Mapping) and isinstance(right, Mapping)):
                self.note(here, left, right, _MESSAGE)
                continue
            if left.get("role") != right.get("role"):
                self.note(f"{here}.role", left.get("role", ABSENT), right.get("role", ABSENT), _ROLE)
            self.parts(f"{here}.parts", left.get("parts", ABSENT), right.get("parts", ABSENT))

    def parts(self, path: str, recorded: Any, actual: Any) -> None:
        if not (_is_list(recorded) and _is_list(actual)):
            if not same(recorded, actual):
                self.note(path, recorded, actual, _PART)
            return
        for left, right, place in _aligned(recorded, actual):
            here = f"{path}[{place}]"
            if not (isinstance(left, Mapping) and isinstance(right, Mapping)):
                self.note(here, left, right, _PART)
            elif left.get("type") != right.get("type"):
                self.note(f"{here}.type", left.get("type", ABSENT), right.get("type", ABSENT), _PART)
            else:
                self.part(here, left, right)

    def part(self, path: str, recorded: Mapping[str, Any], actual: Mapping[str, Any]) -> None:
        for key in [*recorded, *(key for key in actual if key not in recorded)]:
            left, right = recorded.get(key, ABSENT), actual.get(key, ABSENT)
            if same(left, right):
                continue
            if isinstance(left, str) and isinstance(right, str):
                self.note(
                    _member(path, key), left, right, _TEXT_DIFFERS + _TEXT * (1 - similarity(left, right))
                )
            else:
                before = self.distance
                self.tree(_member(path, key), left, right, _TEXT_DIFFERS)
                self.distance = min(self.distance, before + _PART)

    def tools(self, path: str, recorded: Any, actual: Any) -> None:
        left, right = _by_name(recorded), _by_name(actual)
        if left is None or right is None:
            self.note(path, recorded, actual, _TOOL)
            return
        if left.keys() == right.keys() and list(left) != list(right):
            for index, (before, after) in enumerate(zip(left, right, strict=True)):
                if before != after:
                    self.note(f"{path}[{index}].name", before, after, _TOOL_FIELD)
                    break
        for index, (name, contract) in enumerate(right.items()):
            if name not in left:
                self.note(f"{path}[{index}]", ABSENT, contract, _TOOL)
            elif not same(left[name], contract):
                before_all = self.distance
                self.tree(f"{path}[{index}]", left[name], contract, _TOOL_FIELD)
                self.distance = min(self.distance, before_all + _TOOL)
        for index, (name, contract) in enumerate(left.items()):
            if name not in right:
                self.note(f"{path}[{index}]", contract, ABSENT, _TOOL)


_FIELDS: Mapping[str, Callable[[_Comparison, str, Any, Any], None]] = {
    "messages": _Comparison.messages,
    "tools": _Comparison.tools,
}


def similarity(left: str, right: str) -> float:
    """Return how much of two texts is the same, from 0 to 1, in time linear in their length."""
    total = len(left) + len(right)
    if not total:
        return 1.0
    prefix = common_prefix(left, right)
    suffix = common_suffix(left, right, prefix)
    rest_left = left[prefix : len(left) - suffix].split()
    counts: dict[str, int] = {}
    for word in rest_left:
        counts[word] = counts.get(word, 0) + 1
    shared = 0
    for word in right[prefix : len(right) - suffix].split():
        if counts.get(word, 0):
            counts[word] -= 1
            shared += len(word)
    return min(1.0, (2 * (prefix + suffix) + 2 * shared) / total)


def _aligned(recorded: Sequence[Any], actual: Sequence[Any]) -> Iterator[tuple[Any, Any, int]]:
    """Pair the items of two lists: equal ends first, then by least difference; with a place in either."""
    start = 0
    limit = min(len(recorded), len(actual))
    while start < limit and same(recorded[start], actual[start]):
        start += 1
    end = 0
    while end < limit - start and same(recorded[-1 - end], actual[-1 - end]):
        end += 1
    left, right = recorded[start : len(recorded) - end], actual[start : len(actual) - end]
    for i, j in _pairs(left, right):
        place = start + (j if j is not None else i if i is not None else 0)
        yield (
            ABSENT if i is None else left[i],
            ABSENT if j is None else right[j],
            place,
        )


def _pairs(left: Sequence[Any], right: Sequence[Any]) -> list[tuple[int | None, int | None]]:
    if len(left) == len(right) or not left or not right or len(left) * len(right) > _MOST_ALIGNED**2:
        shared = min(len(left), len(right))
        pairs: list[tuple[int | None, int | None]] = [(i, i) for i in range(shared)]
        pairs += [(i, None) for i in range(shared, len(left))]
        return pairs + [(None, j) for j in range(shared, len(right))]
    return _cheapest_pairs(left, right)


def _cheapest_pairs(left: Sequence[Any], right: Sequence[Any]) -> list[tuple[int | None, int | None]]:
    """Align two short lists by dynamic programming: an unpaired item costs 1, a pair its difference."""
    cost = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left), -1, -1):
        for j in range(len(right), -1, -1):
            choices = []
            if i < len(left) and j < len(right):
                choices.append(cost[i + 1][j + 1] + _apart(left[i], right[j]))
            if i < len(left):
                choices.append(cost[i + 1][j] + 1.0)
            if j < len(right):
                choices.append(cost[i][j + 1] + 1.0)
            cost[i][j] = min(choices, default=0.0)
    pairs: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        here = cost[i][j]
        if i < len(left) and j < len(right) and here == cost[i + 1][j + 1] + _apart(left[i], right[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif i < len(left) and here == cost[i + 1][j] + 1.0:
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    return pairs


def _apart(left: Any, right: Any) -> float:
    if same(left, right):
        return 0.0
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left.get("role") != right.get("role") or left.get("type") != right.get("type"):
            return 1.9
        return 0.1 + 1.5 * (1 - similarity(_all_text(left), _all_text(right)))
    return 0.9


def _all_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return " ".join(_all_text(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return " ".join(map(_all_text, value))
    return str(value)


def _by_name(tools: Any) -> dict[str, Any] | None:
    if not _is_list(tools):
        return None
    named = {str(tool.get("name")): tool for tool in tools if isinstance(tool, Mapping)}
    return named if len(named) == len(tools) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _member(path: str, key: str) -> str:
    if key.replace("-", "_").isidentifier():
        return f"{path}.{key}"
    return f'{path}["{key}"]'
