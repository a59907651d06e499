"""Masks what a journal holds beside its structure: answers, results, errors, what people were asked and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.redaction import Masked, Redactor
from rulvar.contracts.secret_shapes import MASK

__all__ = ["MaskedEntry", "blanked", "has_payload", "masked"]

_RESULTS = frozenset({"agent", "step", "child"})
_STRUCTURE = {"external": ("key", "schema"), "approval": ("toolName", "flavor", "risk", "input")}
"""Fields of a wait that are what it is."""


@dataclass(frozen=True, slots=True)
class MaskedEntry:
    """One masked place of a journal."""

    seq: int
    path: str
    rule: str


def masked(entry: JournalEntry, redactor: Redactor) -> tuple[JournalEntry, list[MaskedEntry]]:
    """Return an entry without what looks like a secret, and what was masked."""
    found: list[Masked] = []

    def mask(value: Any, path: str) -> Any:
        redaction = redactor.redact(value, path)
        found.extend(redaction.masked)
        return redaction.value

    changed = _changed(entry, mask)
    return changed, [MaskedEntry(entry.seq, item.path, item.rule) for item in found]


def blanked(entry: JournalEntry) -> JournalEntry:
    """Return an entry whose texts are all masked; numbers, booleans and shapes stay."""
    return _changed(entry, lambda value, path: _blank(value))


def has_payload(entry: JournalEntry) -> bool:
    """Whether an entry holds texts that can be blanked."""
    return _changed(entry, lambda value, path: _blank(value)).line != entry.line


def _changed(entry: JournalEntry, change: Any) -> JournalEntry:
    wire = entry.to_wire()
    result = dict(wire)
    for name in ("error", "value"):
        if name in wire and _is_payload(entry, name):
            result[name] = _value(entry, name, wire[name], change)
    resolution = wire.get("resolution")
    if isinstance(resolution, Mapping) and "value" in resolution:
        result["resolution"] = {**resolution, "value": change(resolution["value"], "resolution.value")}
    attribution = wire.get("costAttribution")
    if isinstance(attribution, Mapping) and "label" in attribution:
        label = change(attribution["label"], "costAttribution.label")
        result["costAttribution"] = {**attribution, "label": label}
    return entry if result == wire else JournalEntry.from_wire(result)


def _is_payload(entry: JournalEntry, name: str) -> bool:
    if name == "error":
        return True
    return (entry.kind in _RESULTS and entry.ref is not None) or entry.kind in _STRUCTURE


def _value(entry: JournalEntry, name: str, value: Any, change: Any) -> Any:
    if name == "error" and isinstance(value, Mapping):
        return {**value, "message": change(value.get("message"), "error.message")} | (
            {"data": _error_data(value["data"], change)} if "data" in value else {}
        )
    kept = _STRUCTURE.get(entry.kind)
    if kept is not None and isinstance(value, Mapping):
        return {
            field: item if field in kept else change(item, f"value.{field}") for field, item in value.items()
        }
    return change(value, name)


def _error_data(data: Any, change: Any) -> Any:
    """Return the data of an error; its kind decides what a replay does with it."""
    if not isinstance(data, Mapping):
        return change(data, "error.data")
    return {
        field: item if field == "kind" else change(item, f"error.data.{field}")
        for field, item in data.items()
    }


def _blank(value: Any) -> Any:
    if isinstance(value, str):
        return MASK if value else value
    if isinstance(value, Mapping):
        return {key: _blank(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return value
