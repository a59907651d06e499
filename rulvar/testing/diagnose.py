"""Explains a miss: which recorded request came nearest, and which of its fields differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import FieldDifference, NearestRow
from rulvar.contracts.redaction import Redactor
from rulvar.contracts.request_hash import former_request_hash, hashed_request, request_hash
from rulvar.testing.cassette import Cassette, read_cassette
from rulvar.testing.excerpt import excerpt
from rulvar.testing.nearest_rows import likely_rows, recorded_request
from rulvar.testing.request_difference import RequestDifference, compare_requests

__all__ = ["MissDiagnosis", "diagnose_miss"]

_MOST_DIFFERENCES = 20
_SHORT_HASH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MissDiagnosis:
    """Why no row serves a request.

    Attributes:
        adapter_id: the adapter that was asked.
        request_hash: the hash that no row, or no unused row, carries.
        recorded_occurrences: how many rows carry it; all of them are used up when the call missed.
        nearest: the recorded row nearest to the request, None in a cassette without rows for the adapter.
        reason: what drifted: ``exhausted``, ``unknown-adapter``, ``model``, ``tools``, ``schema``,
            ``messages``, ``settings`` or ``redacted``.
        message: one line for a person.
        explanation: at most three lines: what missed, what differs, what to do.
    """

    adapter_id: str
    request_hash: str
    recorded_occurrences: int
    nearest: NearestRow | None
    reason: str
    message: str
    explanation: str

    @property
    def row(self) -> int | None:
        """The line of the nearest row in the cassette."""
        return self.nearest.row if self.nearest else None

    @property
    def distance(self) -> float | None:
        """How far the nearest row is from the request; 0 is equal."""
        return self.nearest.distance if self.nearest else None

    @property
    def differences(self) -> tuple[FieldDifference, ...]:
        """The fields in which the nearest row differs, in the order of the request's fields."""
        return self.nearest.differences if self.nearest else ()

    def to_wire(self) -> dict[str, Any]:
        """Return the diagnosis as a JSON object."""
        wire: dict[str, Any] = {"reason": self.reason, "message": self.message, "nearest": None}
        if self.nearest is not None:
            wire["nearest"] = {
                "cassette": self.nearest.cassette,
                "row": self.nearest.row,
                "requestHash": self.nearest.request_hash,
                "distance": self.nearest.distance,
                "differences": [
                    {"path": d.path, "recorded": d.recorded, "actual": d.actual} for d in self.differences
                ],
            }
        return wire


def diagnose_miss(
    cassette: Cassette | str | os.PathLike[str],
    request: ChatRequest | Mapping[str, Any],
    adapter_id: str,
) -> MissDiagnosis:
    """Find the recorded row of an adapter that is nearest to a request, and what differs.

    Telemetry (``providerOptions.rulvar``) and ``cacheHint`` are no part of a request's identity and
    are never compared. Texts are redacted and shortened around their first difference.

    Raises:
        ConfigError: the cassette cannot be read, or the request is not an object.
    """
    tape = cassette if isinstance(cassette, Cassette) else read_cassette(cassette)
    digest = request_hash(request)
    recorded = tape.group(adapter_id, digest) or tape.group(adapter_id, former_request_hash(request) or "")
    if recorded:
        return _exhausted(tape, adapter_id, digest, list(recorded))
    actual: dict[str, Any] = Redactor().redact(hashed_request(request)).value
    best = _nearest(tape, adapter_id, actual)
    if best is None:
        return _unknown_adapter(tape, adapter_id, digest)
    index, difference = best
    nearest = NearestRow(
        cassette=tape.place,
        row=tape.lines[index],
        request_hash=tape.row(index).request_hash,
        distance=difference.distance,
        differences=tuple(
            FieldDifference(path=found.path, recorded=texts[0], actual=texts[1])
            for found in difference.differences[:_MOST_DIFFERENCES]
            for texts in [excerpt(found.recorded, found.actual)]
        ),
    )
    return _missed(tape, adapter_id, digest, nearest, difference, actual)


def _nearest(tape: Cassette, adapter_id: str, actual: dict[str, Any]) -> tuple[int, RequestDifference] | None:
    best: tuple[int, RequestDifference] | None = None
    redactor = Redactor()  # a file that a weaker policy recorded is shown no weaker for that
    for index in likely_rows(tape, adapter_id, actual):
        recorded = redactor.redact(recorded_request(tape, index)).value
        difference = compare_requests(recorded, actual)
        if best is None or difference.distance < best[1].distance:
            best = (index, difference)
    return best


def _missed(
    tape: Cassette,
    adapter_id: str,
    digest: str,
    nearest: NearestRow,
    difference: RequestDifference,
    actual: Mapping[str, Any],
) -> MissDiagnosis:
    reason = _reason(difference)
    what = _what_differs(nearest, difference, reason, actual)
    return MissDiagnosis(
        adapter_id=adapter_id,
        request_hash=digest,
        recorded_occurrences=0,
        nearest=nearest,
        reason=reason,
        message=f"not recorded; {what}",
        explanation=f"{_head(tape, adapter_id, digest)}\n{what}\n{_ADVICE.get(reason, _RECORD_AGAIN)}",
    )


def _exhausted(tape: Cassette, adapter_id: str, digest: str, rows: list[int]) -> MissDiagnosis:
    count = len(rows)
    lines = ", ".join(str(tape.lines[row]) for row in rows[:5]) + (", ..." if count > 5 else "")
    where = f"line{'s' if count > 1 else ''} {lines}"
    message = f"recorded {count} time{'s' if count > 1 else ''} ({where}), and every occurrence is used up"
    last = rows[-1]
    return MissDiagnosis(
        adapter_id=adapter_id,
        request_hash=digest,
        recorded_occurrences=count,
        nearest=NearestRow(cassette=tape.place, row=tape.lines[last], request_hash=digest, distance=0.0),
        reason="exhausted",
        message=message,
        explanation=(
            f'{tape.path}: adapter "{adapter_id}": requestHash {digest} is exhausted\n'
            f"this request was {message}\n"
            "the code makes this call more often than when it was recorded: record the cassette again, or "
            "build fresh adapters with replay() for each run"
        ),
    )


def _unknown_adapter(tape: Cassette, adapter_id: str, digest: str) -> MissDiagnosis:
    others = [other for other, group in tape.groups.items() if digest in group]
    known = ", ".join(f'"{other}"' for other in tape.groups) or "none"
    what = (
        f'the same request is recorded for adapter "{others[0]}"'
        if others
        else f'no row is of adapter "{adapter_id}"; adapters in the cassette: {known}'
    )
    return MissDiagnosis(
        adapter_id=adapter_id,
        request_hash=digest,
        recorded_occurrences=0,
        nearest=None,
        reason="unknown-adapter",
        message=f"not recorded; {what}",
        explanation=(
            f"{_head(tape, adapter_id, digest)}\n{what}\n"
            "route the call to a recorded adapter, or record it with this one"
        ),
    )


_RECORD_AGAIN = "if the change is meant, record what the cassette lacks: pytest --rulvar-record=new_episodes"
_ADVICE: Mapping[str, str] = {
    "model": "route the call to the recorded model, or record it for this one",
    "redacted": "a secret in the request changed: keep secrets out of prompts, or record the cassette again",
}


def _head(tape: Cassette, adapter_id: str, digest: str) -> str:
    return f'{tape.path}: adapter "{adapter_id}": no row was recorded for this request, requestHash {digest}'


def _reason(difference: RequestDifference) -> str:
    """Return what drifted: the first field, in order of what explains most."""
    tops = {_top(found.path) for found in difference.differences}
    if not tops:
        return "redacted"
    if tops == {"model"}:
        return "model"
    return next((name for name in ("messages", "tools", "schema", "model") if name in tops), "settings")


def _what_differs(
    nearest: NearestRow, difference: RequestDifference, reason: str, actual: Mapping[str, Any]
) -> str:
    row = f"line {nearest.row} ({nearest.request_hash[:_SHORT_HASH]})"
    if reason == "redacted":
        return (
            f"{row} holds the same request under another hash: they differ only where the cassette is "
            "redacted, or the row was edited by hand (cacheHint and telemetry never change a hash)"
        )
    first = nearest.differences[0]
    if reason == "model":
        return f"{row} is the same request, recorded for another model: {first.recorded}, not {first.actual}"
    tool = _tool_at(first.path, actual)
    shown = f"{tool}{_show_difference(first)}"
    return f"nearest is {row}: {shown}{_and_more(difference)}"


def _show_difference(found: FieldDifference) -> str:
    if found.recorded is None:
        return f"{found.path} was not there when it was recorded, and is now {_quoted(found.actual)}"
    if found.actual is None:
        return f"{found.path} is gone; recorded {_quoted(found.recorded)}"
    return f"{found.path} was {_quoted(found.recorded)}, and is now {_quoted(found.actual)}"


def _tool_at(path: str, actual: Mapping[str, Any]) -> str:
    """Name the tool that a path like ``tools[0].description`` lies in."""
    if not path.startswith("tools[") or "]." not in path:
        return ""
    name = actual["tools"][int(path[len("tools[") : path.index("]")])].get("name")
    return "" if path.endswith("].name") else f'the contract of tool "{name}" changed: '


def _and_more(difference: RequestDifference) -> str:
    more = difference.differences[1:]
    if not more:
        return ""
    shown = ", ".join(found.path for found in more[:3])
    return f"; also {shown}" + (f" and {len(more) - 3} more" if len(more) > 3 else "")


def _quoted(text: str | None) -> str:
    return f"`{text}`"


def _top(path: str) -> str:
    for stop, character in enumerate(path):
        if character in ".[":
            return path[:stop]
    return path
