"""Applying fixes: all edits that do not touch each other in one pass, everything else left byte
for byte.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.source import decode, encoding_of
from rulvar_lint.core.type_parameters import IS_NEEDED, erase_type_parameters

if TYPE_CHECKING:
    from rulvar_lint.core.diagnostic import Diagnostic, Fix

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Applied:
    """The new text and the diagnostics whose fix is in it."""

    text: str
    fixed: tuple[Diagnostic, ...]


def fix_source(text: str, diagnostics: Iterable[Diagnostic], *, unsafe: bool = False) -> str:
    """The text with the fixes of `diagnostics` applied: the safe ones, and the unsafe ones if
    `unsafe`.

    A fix that overlaps an earlier one is left for the next pass; one that would leave a file that
    does not parse is not applied. Everything outside the edits, line endings included, stays as it
    is.
    """
    return apply(text, diagnostics, unsafe=unsafe).text


def apply(text: str, diagnostics: Iterable[Diagnostic], *, unsafe: bool = False) -> Applied:
    """As `fix_source`, and tells which diagnostics were fixed."""
    wanted = ("safe", "unsafe") if unsafe else ("safe",)
    chosen = [d for d in diagnostics if d.fix is not None and d.fix.applicability in wanted]
    chosen.sort(key=lambda item: item.sort_key)
    starts = _line_starts(text)
    taken: list[tuple[int, int, str]] = []
    fixed: list[Diagnostic] = []
    for diagnostic in chosen:
        assert diagnostic.fix is not None
        spans = _spans(text, starts, diagnostic.fix)
        if spans is None:
            continue
        fresh = [span for span in spans if span not in taken]
        if any(_touch(span, other) for span in fresh for other in taken):
            continue
        taken += fresh
        fixed.append(diagnostic)
    made = _replace(text, taken)
    if made != text and _parses(text) and not _parses(made):
        return _one_by_one(text, fixed, starts)
    return Applied(made, tuple(fixed))


def _one_by_one(text: str, diagnostics: list[Diagnostic], starts: list[int]) -> Applied:
    taken: list[tuple[int, int, str]] = []
    fixed: list[Diagnostic] = []
    for diagnostic in diagnostics:
        assert diagnostic.fix is not None
        spans = _spans(text, starts, diagnostic.fix) or []
        candidate = [*taken, *(span for span in spans if span not in taken)]
        if _parses(_replace(text, candidate)):
            taken = candidate
            fixed.append(diagnostic)
    return Applied(_replace(text, taken), tuple(fixed))


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


def _spans(text: str, starts: list[int], fix: Fix) -> list[tuple[int, int, str]] | None:
    """(start, end, new text) of the edits as offsets; None if one lies outside the text."""
    spans: list[tuple[int, int, str]] = []
    for edit in fix.edits:
        if not (0 < edit.line <= len(starts) and 0 < edit.end_line <= len(starts)):
            return None
        start = starts[edit.line - 1] + edit.column - 1
        end = starts[edit.end_line - 1] + edit.end_column - 1
        if not 0 <= start <= end <= len(text):
            return None
        spans.append((start, end, edit.text))
    return spans


def _touch(left: tuple[int, int, str], right: tuple[int, int, str]) -> bool:
    if left[0] == left[1] or right[0] == right[1]:
        return left[0] <= right[1] and right[0] <= left[1]
    return left[0] < right[1] and right[0] < left[1]


def _replace(text: str, spans: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        older = erase_type_parameters(text.encode("utf-8", "surrogatepass")) if IS_NEEDED else None
        try:
            compile(text if older is None else older, "file", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def is_lossless(text: str) -> bool:
    """Whether a concrete syntax tree of the text gives back exactly the text."""
    import libcst

    try:
        return libcst.parse_module(text).code == text
    except (libcst.ParserSyntaxError, RecursionError):
        return False


def rewrite(data: bytes, diagnostics: Iterable[Diagnostic], *, unsafe: bool = False) -> tuple[bytes, Applied]:
    """The bytes of a file with fixes applied. Byte order mark and encoding are kept."""
    text = decode(data)
    applied = apply(text, diagnostics, unsafe=unsafe)
    if applied.text == text:
        return data, applied
    body = applied.text.encode(encoding_of(data), "strict")
    return (_BOM if data.startswith(_BOM) else b"") + body, applied
