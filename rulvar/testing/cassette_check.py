"""Checks committed cassettes: readable, replayable, and without anything that looks like a secret."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.redaction import MASK, Redactor
from rulvar.contracts.request_hash import former_request_hash, request_hash
from rulvar.errors import ConfigError, RulvarError
from rulvar.testing.cassette import Cassette, cassette_name, read_cassette
from rulvar.testing.cassette_rules import check_replayable

__all__ = ["CassetteFinding", "check_cassette"]

FindingKind = Literal["unreadable", "not-replayable", "secret", "hash"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteFinding:
    """One thing that is wrong with a cassette.

    Attributes:
        kind: ``unreadable``, ``not-replayable``, ``secret`` (text that redaction would mask) or
            ``hash`` (a row whose request hashes to something else: it was edited).
        line: in the file; None when it is about the whole of it.
        field: field path in the row.
        rule: the redaction rule that fired.
    """

    path: str
    kind: FindingKind
    message: str
    line: int | None = None
    field: str | None = None
    rule: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: getattr(self, name) for name in ("path", "kind", "line", "field", "rule", "message")}


def check_cassette(
    path: str | os.PathLike[str], redact: Callable[[str], str] | None = None, *, hashes: bool = False
) -> list[CassetteFinding]:
    """Return what is wrong with a cassette, in the order of its lines; nothing is changed.

    Args:
        redact: the project's own masking hook; text that it would change is a finding too.
        hashes: look for edited rows too, whose request hashes to something else. A row that a hook
            masked when it was recorded looks like one.
    """
    name = cassette_name(path, "path")
    try:
        tape = read_cassette(name)
    except ConfigError as error:
        return [_refusal(name, "unreadable", error)]
    findings: list[CassetteFinding] = []
    try:
        check_replayable(tape)
    except ConfigError as error:
        findings.append(_refusal(name, "not-replayable", error))
    findings.extend(_row_findings(tape, Redactor(redact), hashes))
    return findings


def _row_findings(tape: Cassette, redactor: Redactor, hashes: bool) -> Iterator[CassetteFinding]:
    for row in tape.rows:
        places = redactor.redact(row.request, "request").masked
        places += redactor.redact_events(row.wire["events"]).masked
        for place in dict.fromkeys(places):
            yield CassetteFinding(
                path=tape.path,
                kind="secret",
                line=row.line,
                field=place.path,
                rule=place.rule,
                message=f"text that looks like a secret ({place.rule}); record the cassette again, or mask it",
            )
        if hashes and not _hashes_to_itself(row.request, row.request_hash):
            yield CassetteFinding(
                path=tape.path,
                kind="hash",
                line=row.line,
                field="requestHash",
                message="the request hashes to something else, and nothing in it is masked: the row was edited",
            )


def _hashes_to_itself(request: Mapping[str, Any], recorded: str) -> bool:
    """Whether a row was found by its own request; a masked one cannot be told."""
    if _is_masked(request):
        return True
    try:
        return recorded in (request_hash(request), former_request_hash(request))
    except RulvarError:
        return True


def _is_masked(value: Any) -> bool:
    if isinstance(value, str):
        return MASK in value
    if isinstance(value, Mapping):
        return any(_is_masked(key) or _is_masked(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_is_masked, value))


def _refusal(path: str, kind: FindingKind, error: ConfigError) -> CassetteFinding:
    return CassetteFinding(
        path=path,
        kind=kind,
        line=error.data.get("line"),
        field=error.data.get("field"),
        message=error.message.removeprefix(f"{path}: "),
    )
