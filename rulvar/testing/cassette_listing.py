"""Looks into cassettes: what a folder holds, what a row says, what a file adds up to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.stream import Finish, StreamError, TextDelta
from rulvar.contracts.usage import ZERO_USAGE, Usage, add_usage
from rulvar.errors import ConfigError
from rulvar.runtime.pricing import price_usd
from rulvar.testing.cassette import Cassette, CassetteRow, cassette_name, read_cassette
from rulvar.testing.diagnose import diagnose_miss

__all__ = ["cassette_stats", "explain_request", "find_rows", "list_cassettes", "row_summary"]

_SHORT = 60


def list_cassettes(paths: Iterable[str | os.PathLike[str]]) -> list[dict[str, Any]]:
    """Describe cassettes: files as they are given, folders with every ``*.jsonl`` cassette below.

    Returns:
        One object per file: ``path``, ``rows``, ``bytes``, ``adapters``, ``models``, ``hashVersion``,
        ``recordedAt``; or ``path`` and ``error`` for a file that cannot be read. Other JSONL files in
        a folder are left out.
    """
    return [_describe(path) for path in _files(paths)]


def row_summary(row: CassetteRow) -> dict[str, Any]:
    """Return a row in short: where it stands, what was asked, what came back."""
    events = row.events
    terminal = events[-1] if events else None
    usage = terminal.usage.to_wire() if isinstance(terminal, Finish) else None
    outcome = (
        terminal.finish.reason
        if isinstance(terminal, Finish)
        else (f"error {terminal.error.code}" if isinstance(terminal, StreamError) else "unfinished")
    )
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return {
        "line": row.line,
        "adapter": row.adapter_id,
        "model": row.model,
        "requestHash": row.request_hash,
        "occurrence": row.occurrence,
        "prompt": _shortened(_prompt(row.request)),
        "answer": _shortened(text),
        "outcome": outcome,
        "usage": usage,
        "costUsd": _cost(row),
    }


def find_rows(cassette: Cassette, selector: str) -> list[CassetteRow]:
    """Return the rows that a selector means: a line number, or the first digits of a request hash.

    Raises:
        ConfigError: no row fits.
    """
    rows = [row for row in cassette.rows if str(row.line) == selector] if selector.isdigit() else []
    if not rows and len(selector) >= 4:
        rows = [row for row in cassette.rows if row.request_hash.startswith(selector.lower())]
    if not rows:
        raise ConfigError(
            f"{cassette.path}: no row at line {selector!r}, and no requestHash that starts with it (4 digits at "
            "least)",
            data={"cassette": cassette.path, "selector": selector},
        )
    return rows


def cassette_stats(cassette: Cassette | str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a cassette adds up to, per adapter and model.

    Raises:
        ConfigError: it is named by its path, and cannot be read.
    """
    cassette = cassette if isinstance(cassette, Cassette) else read_cassette(cassette)
    models: dict[tuple[str, str], dict[str, Any]] = {}
    totals: dict[tuple[str, str], Usage] = {}
    for row in cassette.rows:
        key = (row.adapter_id, row.model)
        entry = models.setdefault(
            key, {"adapter": key[0], "model": key[1], "rows": 0, "errors": 0, "costUsd": 0.0}
        )
        entry["rows"] += 1
        terminal = row.last_event
        if isinstance(terminal, Finish):
            totals[key] = add_usage(totals.get(key, ZERO_USAGE), terminal.usage)
        else:
            entry["errors"] += 1
        entry["costUsd"] += _cost(row) or 0.0
    for key, entry in models.items():
        entry["usage"] = totals.get(key, ZERO_USAGE).to_wire()
        entry["costUsd"] = round(entry["costUsd"], 6)
    groups = [rows for group in cassette.groups.values() for rows in group.values()]
    return {
        "path": cassette.path,
        "rows": len(cassette.rows),
        "requests": len(groups),
        "repeated": sum(not isinstance(rows, int) for rows in groups),
        "bytes": len(cassette.data),
        "hashVersion": cassette.header.hash_version,
        "recordedAt": cassette.header.recorded_at,
        "models": list(models.values()),
        "costUsd": round(sum(entry["costUsd"] for entry in models.values()), 6),
    }


def explain_request(
    cassette: str | os.PathLike[str], request: Mapping[str, Any], adapter_id: str | None = None
) -> dict[str, Any]:
    """Say what a cassette would serve for a request, or why it would not.

    Args:
        request: the JSON object of a request.
        adapter_id: may be left out when the cassette holds one adapter.

    Raises:
        ConfigError: the cassette or the request is wrong, or there are several adapters to choose from.
    """
    tape = read_cassette(cassette)
    if adapter_id is None:
        if len(tape.groups) != 1:
            known = ", ".join(f'"{name}"' for name in tape.groups) or "none"
            raise ConfigError(f"{tape.path}: name the adapter; the cassette holds {known}")
        adapter_id = next(iter(tape.groups))
    ChatRequest.from_wire(request)
    diagnosis = diagnose_miss(tape, request, adapter_id)
    rows = [tape.lines[row] for row in tape.group(adapter_id, diagnosis.request_hash)]
    return {
        "cassette": tape.path,
        "adapter": adapter_id,
        "requestHash": diagnosis.request_hash,
        "served": bool(rows),
        "lines": rows,
        **diagnosis.to_wire(),
    }


def _files(paths: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[str, bool]]:
    if isinstance(paths, (str, os.PathLike)) or not isinstance(paths, Iterable):
        raise ConfigError(
            f"paths: expected a list of files and folders, got {type(paths).__name__}; write [path], also for one",
            data={"field": "paths"},
        )
    for number, path in enumerate(paths):
        name = cassette_name(path, f"paths[{number}]")
        if not os.path.isdir(name):
            yield name, True
            continue
        for folder, folders, files in os.walk(name):
            folders[:] = sorted(item for item in folders if not item.startswith("."))
            for file in sorted(files):
                full = os.path.join(folder, file)
                if file.endswith(".jsonl") and _starts_like_a_cassette(full):
                    yield full, False


def _describe(found: tuple[str, bool]) -> dict[str, Any]:
    path, _ = found
    try:
        tape = read_cassette(path)
    except ConfigError as error:
        return {"path": path, "error": error.message}
    return {
        "path": path,
        "rows": len(tape.rows),
        "bytes": len(tape.data),
        "adapters": list(tape.groups),
        "models": sorted({declaration.model for declaration in tape.declarations}),
        "hashVersion": tape.header.hash_version,
        "recordedAt": tape.header.recorded_at,
    }


def _starts_like_a_cassette(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b'"rulvar-vcr"' in file.read(4096).split(b"\n", 1)[0]
    except OSError:
        return False


def _prompt(request: Mapping[str, Any]) -> str:
    messages = request.get("messages")
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, Mapping) and message.get("role") == "user":
            parts = message.get("parts")
            return " ".join(
                str(part.get("text", ""))
                for part in (parts if isinstance(parts, list) else [])
                if isinstance(part, Mapping)
            )
    return ""


def _cost(row: CassetteRow) -> float | None:
    pricing = row.caps.pricing
    terminal = row.last_event
    return (
        price_usd(pricing, terminal.usage) if pricing is not None and isinstance(terminal, Finish) else None
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"
