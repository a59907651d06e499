"""Diagnostics of a cassette that is open in the editor: every bad line, not only the first.

The checks of a line are the engine's own; a line that was looked at before is not looked at again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rulvar_lsp.features.cassette import is_cassette
from rulvar_lsp.features.diagnostics import Finding
from rulvar_lsp.text import Span, Text

MOST_FINDINGS = 200
_ROW_FAULT = "cassette-row"
_HEADER_FAULT = "cassette-header"
_SECRET = "cassette-secret"
_DOUBLE = "cassette-duplicate"


@dataclass(frozen=True, slots=True)
class Line:
    """What one line of a cassette is: its faults as (code, text, start, end), and its slot."""

    faults: tuple[tuple[str, str, int, int], ...] = ()
    slot: tuple[str, str, int] | None = None  # adapter, request hash, occurrence


class CassetteChecker:
    """Checks cassettes; remembers lines by their text. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], Line] = {}
        self._rules: Rules | None = None

    def check(self, text: Text) -> tuple[Finding, ...]:
        """Return the findings of a cassette; nothing for text that is none."""
        if not is_cassette(text):
            return ()
        if self._rules is None:
            self._rules = Rules.load()
        fresh: dict[tuple[str, bool], Line] = {}
        found: list[Finding] = []
        slots: dict[tuple[str, str, int], int] = {}
        header = True
        for number, line in enumerate(text.lines):
            if not line.strip():
                continue
            key = (line, header)
            seen = fresh[key] = self._known.get(key) or self._rules.look(line, header)
            header = False
            found += [
                Finding(Span(number, a, number, b), code, "error", said) for code, said, a, b in seen.faults
            ]
            if seen.slot is not None and (first := slots.setdefault(seen.slot, number)) != number:
                said = f"occurrence {seen.slot[2]} of this request is recorded on line {first + 1} too"
                found.append(Finding(Span(number, 0, number, len(line)), _DOUBLE, "error", said))
            if len(found) >= MOST_FINDINGS:
                break
        self._known = fresh
        return tuple(found[:MOST_FINDINGS])


@dataclass(frozen=True, slots=True)
class Rules:
    """The engine's checks."""

    check_header: Callable[[Any], None]
    check_row: Callable[[Any], None]
    is_terminal: Callable[[Any], bool]
    find_secrets: Callable[[str], list[Any]]
    wrong_field: type[Exception]
    supported: frozenset[int]

    @classmethod
    def load(cls) -> Rules:
        """Import the engine's part that is needed."""
        from rulvar.contracts.redaction import find_secrets
        from rulvar.kernel.keys import SUPPORTED_HASH_VERSIONS
        from rulvar.testing import cassette_shape as shape

        return cls(
            shape.check_header,
            shape.check_row,
            shape.is_terminal,
            find_secrets,
            shape.WrongField,
            frozenset(SUPPORTED_HASH_VERSIONS),
        )

    def look(self, line: str, header: bool) -> Line:
        """Look at one line."""
        whole = (0, len(line))
        code = _HEADER_FAULT if header else _ROW_FAULT
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            column = getattr(error, "pos", 0)
            said = f"not JSON: {getattr(error, 'msg', 'too deep')}; a torn line is recorded again"
            return Line(((code, said, min(column, len(line)), len(line)),))
        faults = [(code, said, *whole) for said in self._faults(value, header)]
        faults += [
            (_SECRET, f"looks like a credential ({secret.rule}); record again", *_place(secret))
            for secret in self.find_secrets(line)
        ]
        return Line(tuple(faults), None if header else _slot(value))

    def _faults(self, value: Any, header: bool) -> list[str]:
        try:
            (self.check_header if header else self.check_row)(value)
        except self.wrong_field as error:
            return [str(error)]
        except Exception as error:
            return [f"cannot be read ({type(error).__name__})"]
        if header:
            version = value["hashVersion"]
            if int(version) in self.supported:
                return []
            window = " and ".join(map(str, sorted(self.supported)))
            return [f"hashVersion {version} is outside the supported {window}; record it again"]
        terminal = [self.is_terminal(event) for event in value["events"]]
        if sum(terminal) == 1 and terminal[-1]:
            return []
        return ["events: expected exactly one terminal event (finish or error), as the last"]


def _place(secret: Any) -> tuple[int, int]:
    return secret.start, secret.end


def _slot(value: Any) -> tuple[str, str, int] | None:
    if not isinstance(value, dict):
        return None
    adapter, digest = value.get("adapterId"), value.get("requestHash")
    occurrence = value.get("occurrence")
    if isinstance(adapter, str) and isinstance(digest, str) and isinstance(occurrence, int):
        return adapter, digest, occurrence
    return None
