"""Picks the rows of a large cassette that are worth a field-by-field comparison.

Every recorded request gets a small sketch, once per cassette: its structure, and anchors cut from
its texts. Rows that share the structure and hold the anchors come first.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.request_hash import hashed_request
from rulvar.testing.cassette import Cassette

__all__ = ["likely_rows", "recorded_request"]

_FEW = 200
"""So many rows are all compared in detail."""
_CANDIDATES = 48
_ANCHOR = 20
_ANCHORED_TEXTS = 3


class _RequestOnly(msgspec.Struct):
    request: dict[str, Any]


_decode_request = msgspec.json.Decoder(_RequestOnly).decode


@dataclass(slots=True)
class Sketch:
    """What is kept of a recorded request to rank it."""

    row: int
    structure: int
    length: int
    anchors: tuple[str, ...]


class Sketches:
    """The sketches of one adapter's requests; one per distinct request."""

    def __init__(self, tape: Cassette, adapter_id: str) -> None:
        self._structures: dict[tuple[Any, ...], int] = {}
        self.all: list[Sketch] = []
        for rows in tape.groups.get(adapter_id, {}).values():
            row = rows if isinstance(rows, int) else rows[0]
            self.all.append(self._sketch(row, recorded_request(tape, row)))
        self.structures = list(self._structures)
        counts = Counter(anchor for sketch in self.all for anchor in sketch.anchors)
        self.weights = {anchor: 1 / math.log2(1 + count) for anchor, count in counts.items()}

    def _sketch(self, row: int, request: Mapping[str, Any]) -> Sketch:
        structure = structure_of(request)
        known = self._structures.setdefault(structure, len(self._structures))
        texts = list(_texts(request))
        return Sketch(row, known, sum(map(len, texts)), tuple(_anchors(texts)))


def recorded_request(tape: Cassette, index: int) -> dict[str, Any]:
    """Return the hashed part of the request of a row, and decode nothing else of it."""
    line = tape.data[tape.starts[index] : tape.ends[index]]
    try:
        request = _decode_request(line).request
    except (msgspec.DecodeError, UnicodeDecodeError):
        request = decode_json(line)["request"]
    if request.get("providerOptions", {}) is None:
        return request
    return hashed_request(request)


def likely_rows(tape: Cassette, adapter_id: str, actual: Mapping[str, Any]) -> Iterable[int]:
    """Return the rows of an adapter that may be nearest to a request, in file order."""
    groups = tape.groups.get(adapter_id, {})
    if len(groups) <= _FEW:
        return (rows if isinstance(rows, int) else rows[0] for rows in groups.values())
    sketches = tape.sketches.get(adapter_id)
    if sketches is None:
        sketches = tape.sketches[adapter_id] = Sketches(tape, adapter_id)
    wanted = structure_of(actual)
    apart = [_structures_apart(structure, wanted) for structure in sketches.structures]
    texts = list(_texts(actual))
    whole = "\0".join(texts)
    length = sum(map(len, texts))
    held = {anchor: weight for anchor, weight in sketches.weights.items() if anchor in whole}
    ranked = heapq.nsmallest(
        _CANDIDATES,
        ((_rank(sketch, apart, sketches.weights, held, length), sketch.row) for sketch in sketches.all),
    )
    return sorted(row for _, row in ranked)


def structure_of(request: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a request looks like without its texts: model, roles, part kinds, tools, settings."""
    messages = request.get("messages")
    shape = tuple(
        (message.get("role"), *(part.get("type") for part in _parts(message)))
        for message in (messages if isinstance(messages, (list, tuple)) else ())
        if isinstance(message, Mapping)
    )
    settings = tuple(
        (name, repr(value)) for name, value in sorted(request.items()) if name not in ("messages", "model")
    )
    return (request.get("model"), shape, settings)


def _structures_apart(recorded: tuple[Any, ...], wanted: tuple[Any, ...]) -> float:
    score = 0.2 if recorded[0] != wanted[0] else 0.0
    if recorded[1] != wanted[1]:
        longer = max(len(recorded[1]), len(wanted[1]))
        alike = sum(a == b for a, b in zip(recorded[1], wanted[1], strict=False))
        score += 0.2 + min(longer - alike, 4) * 0.2
    return score + 0.15 * len(set(recorded[2]) ^ set(wanted[2]))


def _rank(
    sketch: Sketch, apart: list[float], weights: Mapping[str, float], held: Mapping[str, float], length: int
) -> float:
    """Return how unlikely a row is; anchors that many rows share say little."""
    score = apart[sketch.structure]
    total = found = 0.0
    for anchor in sketch.anchors:
        total += weights[anchor]
        found += held.get(anchor, 0.0)
    if total:
        score += 2.0 * (1 - found / total)
    longer = max(length, sketch.length)
    return score + (0.3 * abs(length - sketch.length) / longer if longer else 0.0)


def _texts(request: Mapping[str, Any]) -> Iterable[str]:
    messages = request.get("messages")
    if not isinstance(messages, (list, tuple)):
        return
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        for part in _parts(message):
            text = part.get("text")
            if isinstance(text, str):
                yield text
            else:
                yield str(part.get("result", part.get("args", "")))


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, (list, tuple)) else []


def _anchors(texts: list[str]) -> Iterable[str]:
    for text in [*texts[:1], *texts[1:][-(_ANCHORED_TEXTS - 1) :]]:
        size = len(text)
        if size <= 2 * _ANCHOR:
            yield text
            continue
        for start in (0, size // 3, 2 * size // 3, size - _ANCHOR):
            yield text[start : start + _ANCHOR]
