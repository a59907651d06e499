"""The reading side of a cassette: which calls and tests a row serves, and where cassettes are named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rulvar_lsp.features.recorded import code, file_link
from rulvar_lsp.snapshot import Document, Recorded, RecordedCall
from rulvar_lsp.text import Span, Text

_KIND = re.compile(r'"kind"\s*:\s*"rulvar-vcr"')
_NAMED = re.compile(r"""(["'])((?:(?!\1)[^\\\r\n])+\.jsonl)\1""")
_HASH = re.compile(r'"requestHash"\s*:\s*"([0-9a-f]+)"')


@dataclass(frozen=True, slots=True)
class Link:
    """A string in a source file that names a cassette."""

    span: Span
    path: str


@dataclass(frozen=True, slots=True)
class Served:
    """A row of a cassette and what it served in the newest runs."""

    line: int
    calls: tuple[RecordedCall, ...]

    @property
    def title(self) -> str:
        """One line: `served test_replay`."""
        names = list(dict.fromkeys(call.test.name for call in self.calls))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"served {', '.join(names[:3])}{more}"


def is_cassette(text: Text) -> bool:
    """Say whether the text begins as a cassette does."""
    first = next((line for n in range(5) if (line := text.line(n)).strip()), "")
    return _KIND.search(first[:10_000]) is not None


def served_rows(document: Document, recorded: Recorded) -> tuple[Served, ...]:
    """Return the rows that served calls, in order of lines (from 0)."""
    by_row: dict[int, list[RecordedCall]] = {}
    for call in recorded.served_by.get(document.path or "", ()):
        if call.call.row is not None:
            by_row.setdefault(call.call.row - 1, []).append(call)
    return tuple(Served(line, tuple(calls)) for line, calls in sorted(by_row.items()))


def unused_rows(document: Document, recorded: Recorded) -> tuple[int, ...]:
    """Return the rows (from 0) that every test which used this cassette left over.

    Rows that a test recorded are used. Nothing when a test's use is out of date, since it speaks of another file, or
    when a test has not passed: it may have stopped before the rest of its rows.
    """
    path = document.path or ""
    uses = recorded.uses_of.get(path, ())
    if not uses or any(test.outdated or test.run.outcome != "passed" for test, _ in uses):
        return ()
    left = set.intersection(*({row - 1 for row in use.unused} for _, use in uses))
    used = {row - 1 for _, use in uses for row in use.served}
    used |= {
        call.row - 1
        for test, _ in uses
        for call in test.run.calls
        if call.row is not None and test.served_by(call) == path
    }
    return tuple(sorted(left - used))


def row_markdown(document: Document, line: int, recorded: Recorded) -> str | None:
    """What is known about a row."""
    match = _HASH.search(document.text.line(line))
    calls = [s for s in served_rows(document, recorded) if s.line == line]
    if match is None and not calls:
        return None
    lines = [f"row {line + 1}" + (f" {code(match[1][:12])}" if match else "")]
    for served in calls:
        for one in served.calls[:10]:
            path = one.test.absolute(one.site.file)
            place = f"[{os.path.basename(path)}:{one.site.line}]({file_link(path)}#L{one.site.line})"
            lines.append(f"- served {place} in {code(one.test.name)}")
    if len(lines) == 1:
        lines.append("- served no call in the runs that are known")
    return "\n".join(lines)


def cassette_links(
    document: Document, roots: Iterable[str], known: Mapping[str, object], exists: Callable[[str], bool]
) -> tuple[Link, ...]:
    """Return the strings of a source file that name a cassette which exists.

    A path counts from the file's folder, from its `cassettes` folder and from the project roots; a bare
    name also means a cassette of that name that a report tells of.
    """
    if document.path is None:
        return ()
    here = os.path.dirname(document.path)
    folders = [here, os.path.join(here, "cassettes"), *roots]
    found = []
    for number, line in enumerate(document.text.lines):
        if ".jsonl" not in line:
            continue
        for match in _NAMED.finditer(line):
            path = _resolve(match[2], folders, known, exists)
            if path is not None:
                found.append(Link(Span(number, match.start(2), number, match.end(2)), path))
    return tuple(found)


def _resolve(
    name: str, folders: Iterable[str], known: Mapping[str, object], exists: Callable[[str], bool]
) -> str | None:
    for folder in folders:
        path = os.path.normpath(os.path.join(folder, name))
        if exists(path):
            return path
    tail = "/" + name.replace(os.sep, "/")
    return next((path for path in known if path.endswith(tail)), None)
