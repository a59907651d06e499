"""What the server knows at one moment, immutable: documents and recorded truth.

Features get these values and give plain data back; nothing here knows the protocol, reads a file or
changes.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from rulvar_lsp.text import Text

if TYPE_CHECKING:
    from rulvar_lsp.report import Call, CassetteUse, Report, Site, TestRun, Warned

T = TypeVar("T")

CLOCK_SECONDS = 0.001  # a report's time is cut to milliseconds, a file's is not


@dataclass(frozen=True, slots=True)
class Document:
    """A document. `uri` is spelled as the client spells it; `path` is None for what has no file.

    `changed_at` is when the text last changed, in seconds since the epoch.
    """

    uri: str
    path: str | None
    version: int | None
    text: Text
    language: str = "python"
    changed_at: float = 0.0


@dataclass(frozen=True, slots=True)
class RecordedTest:
    """One test of one report: the newest run of that test that any report tells of."""

    run: TestRun
    root: str
    report: str
    created_at: str
    created: float
    outdated: bool = False  # one of its cassettes was written since

    @property
    def file(self) -> str:
        """Absolute path of the test's file."""
        return self.absolute(self.run.file)

    @property
    def name(self) -> str:
        """The node id without the file: `TestCart::test_empty[one]`."""
        return self.run.node_id.partition("::")[2] or self.run.node_id

    @property
    def function(self) -> str:
        """The node id without file and parameters: `TestCart::test_empty`."""
        return self.name.partition("[")[0]

    def absolute(self, path: str) -> str:
        """Return a path of the report as an absolute one."""
        return posixpath.normpath(posixpath.join(self.root, path))

    def served_by(self, call: Call) -> str | None:
        """Absolute path of the cassette that served the call."""
        return self.absolute(call.cassette) if call.cassette else None


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a test, with its site."""

    test: RecordedTest
    call: Call
    site: Site


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that reports say, indexed by absolute path; the newest run of each test."""

    tests: tuple[RecordedTest, ...] = ()
    calls_in: Mapping[str, tuple[RecordedCall, ...]] = field(default_factory=dict)
    tests_in: Mapping[str, tuple[RecordedTest, ...]] = field(default_factory=dict)
    uses_of: Mapping[str, tuple[tuple[RecordedTest, CassetteUse], ...]] = field(default_factory=dict)
    served_by: Mapping[str, tuple[RecordedCall, ...]] = field(default_factory=dict)
    noticed_in: Mapping[str, tuple[tuple[RecordedTest, Warned], ...]] = field(default_factory=dict)
    revision: int = 0

    def tells_of(self, path: str) -> bool:
        """Say whether a report says anything about a source file."""
        return path in self.calls_in or path in self.tests_in or path in self.noticed_in

    @classmethod
    def of(
        cls,
        reports: Iterable[tuple[str, Report]],
        revision: int,
        written: Mapping[str, float] = MappingProxyType({}),
    ) -> Recorded:
        """Merge reports, given as (path, report); of each test the newest run counts.

        `written` says of cassettes, by absolute path, when they were last written.
        """
        newest: dict[tuple[str, str], RecordedTest] = {}
        for path, report in reports:
            created = _seconds(report.created_at)
            for run in report.tests:
                test = RecordedTest(run, report.root, path, report.created_at, created)
                key = (test.file, test.name)
                if key not in newest or newest[key].created <= test.created:
                    newest[key] = test
        calls: defaultdict[str, list[RecordedCall]] = defaultdict(list)
        tests: defaultdict[str, list[RecordedTest]] = defaultdict(list)
        uses: defaultdict[str, list[tuple[RecordedTest, CassetteUse]]] = defaultdict(list)
        rows: defaultdict[str, list[RecordedCall]] = defaultdict(list)
        noticed: defaultdict[str, list[tuple[RecordedTest, Warned]]] = defaultdict(list)
        merged = [_dated(test, written) for test in newest.values()]
        for test in merged:
            tests[test.file].append(test)
            for call in _all_calls(test.run):
                if call.site is not None:
                    one = RecordedCall(test, call, call.site)
                    calls[test.absolute(call.site.file)].append(one)
                    if call.cassette is not None and call.row is not None:
                        rows[test.absolute(call.cassette)].append(one)
            for use in test.run.cassettes:
                uses[test.absolute(use.path)].append((test, use))
            for warned in test.run.warnings:
                noticed[test.absolute(warned.file)].append((test, warned))
        return cls(
            tests=tuple(merged),
            calls_in=_frozen(calls),
            tests_in=_frozen(tests),
            uses_of=_frozen(uses),
            served_by=_frozen(rows),
            noticed_in=_frozen(noticed),
            revision=revision,
        )


def _frozen(lists: Mapping[str, list[T]]) -> Mapping[str, tuple[T, ...]]:
    return MappingProxyType({key: tuple(value) for key, value in lists.items()})


def _dated(test: RecordedTest, written: Mapping[str, float]) -> RecordedTest:
    paths = {test.absolute(use.path) for use in test.run.cassettes}
    paths |= {test.absolute(call.cassette) for call in test.run.calls if call.cassette}
    late = any(written.get(path, 0.0) > test.created + CLOCK_SECONDS for path in paths)
    return replace(test, outdated=True) if late else test


def _all_calls(run: TestRun) -> Iterable[Call]:
    """The calls of a test, and where a journal replay of it left the journal."""
    yield from run.calls
    for replay in run.replays:
        if (divergence := replay.divergence) is not None:
            yield divergence.as_call()


def _seconds(moment: str) -> float:
    """Seconds since the epoch of an ISO 8601 time; 0 (older than all else) for anything else."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return 0.0
