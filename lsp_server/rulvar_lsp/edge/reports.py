"""Replay reports on disk: found, watched by time and size, read, merged.

The server looks itself, since not every client watches files (Neovim on Linux does not). A file
that cannot be read keeps what it said before and is complained about once per version of the file.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rulvar_lsp.snapshot import Recorded

if TYPE_CHECKING:
    from rulvar_lsp.report import Report

REPORT_FOLDER = os.path.join(".rulvar_cache", "reports")
MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Seen:
    stamp: tuple[int, int]
    report: Report | None


@dataclass(frozen=True, slots=True)
class Scan:
    """What a look at the disk gave."""

    recorded: Recorded
    changed: bool
    faults: dict[str, str] = field(default_factory=dict)  # path -> what is wrong, new ones only
    healed: tuple[str, ...] = ()  # paths that had a fault and have none any more


class ReportStore:
    """The reports of all project roots. Not thread-safe: one caller at a time."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._faulty: set[str] = set()
        self._recorded = Recorded()
        self._written: dict[str, float] = {}  # cassettes, and when they were last written

    def scan(self, roots: Iterable[str], patterns: Iterable[tuple[str, str]] = ()) -> Scan:
        """Look for reports under `roots` and for (folder, glob) patterns, and read what has
        changed.
        """
        stamps = {path: s for path in _find(roots, patterns) if (s := _stamp(path)) is not None}
        changed = False
        faults: dict[str, str] = {}
        healed: list[str] = []
        for path, stamp in stamps.items():
            known = self._seen.get(path)
            if known is not None and known.stamp == stamp:
                continue
            report, fault = _read(path)
            if fault is not None:
                faults[path] = fault
                self._faulty.add(path)
                report = known.report if known else None
            elif path in self._faulty:
                self._faulty.discard(path)
                healed.append(path)
            self._seen[path] = _Seen(stamp, report)
            changed = changed or fault is None
        for path in self._seen.keys() - stamps.keys():
            del self._seen[path]
            changed = True
            if path in self._faulty:
                self._faulty.discard(path)
                healed.append(path)
        if changed or _written(self._recorded) != self._written:
            changed = True
            self._merge()
        return Scan(self._recorded, changed, faults, tuple(healed))

    def _merge(self) -> None:
        good = [(path, s.report) for path, s in self._seen.items() if s.report is not None]
        revision = self._recorded.revision + 1
        recorded = Recorded.of(good, revision)
        self._written = _written(recorded)
        oldest = min((test.created for test in recorded.tests), default=0.0)
        if any(when > oldest for when in self._written.values()):
            recorded = Recorded.of(good, revision, self._written)
        self._recorded = recorded


def _written(recorded: Recorded) -> dict[str, float]:
    """When the cassettes that the reports name were last written."""
    paths = {*recorded.uses_of, *recorded.served_by}
    return {path: stamp[0] / 1e9 for path in paths if (stamp := _stamp(path)) is not None}


def _find(roots: Iterable[str], patterns: Iterable[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    for root in roots:
        folder = os.path.join(root, REPORT_FOLDER)
        try:
            with os.scandir(folder) as entries:
                found.update(e.path for e in entries if e.name.endswith(".json"))
        except OSError:
            continue
    for folder, pattern in patterns:
        found.update(
            os.path.normpath(os.path.join(folder, hit))
            for hit in glob.iglob(os.path.expanduser(pattern), root_dir=folder, recursive=True)
        )
    return found


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size)


def _read(path: str) -> tuple[Report | None, str | None]:
    from rulvar_lsp.report import ReportError, decode_report

    try:
        found = os.stat(path)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):  # a pipe waits for its writer
            return None, f"{path}: cannot be read (not a file)"
        if found.st_size > MOST_BYTES:
            return None, f"{path}: larger than {MOST_BYTES // 1024 // 1024} MiB; not read"
        with open(path, "rb") as file:
            return decode_report(file.read(), path), None
    except ReportError as error:
        return None, str(error)
    except OSError as error:
        return None, f"{path}: cannot be read ({error.strerror})"
