"""The replay report: which calls each test made, what served them, and why one was not served.

One JSON object, written atomically and validated when it is read; docs/reference/report.md is its
reference. It is the seam between a test run and an editor.
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NoReturn

import msgspec

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.messages import camel_case
from rulvar.errors import ConfigError

__all__ = [
    "CallReport",
    "CassetteReport",
    "DifferenceReport",
    "DivergenceReport",
    "NearestReport",
    "OrphanReport",
    "ReplayRecord",
    "ReplayReport",
    "SiteReport",
    "TestReport",
    "WarningReport",
    "read_report",
    "site_digest",
    "write_report",
]

REPORT_KIND = "rulvar-replay-report"
REPORT_VERSION = 1
CACHE_FOLDER = ".rulvar_cache"

ReplayMode = Literal["strict", "default"]
TestOutcome = Literal["passed", "failed", "error", "skipped"]
CallKind = Literal["agent", "step", "child", "external"]
CallServed = Literal["hit", "miss", "exhausted", "passthrough", "live", "fake", "journal"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename=camel_case):
    """A part of a report: every field is written, null included."""

    __test__ = False


class SiteReport(_Part, frozen=True, kw_only=True):
    """A call expression: 1-based lines and columns in code points, the end exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str
    digest: str


class DifferenceReport(_Part, frozen=True, kw_only=True):
    """One differing field; a side that has no such field is None."""

    path: str
    recorded: str | None
    actual: str | None


class NearestReport(_Part, frozen=True, kw_only=True):
    """The recorded row that is nearest to a request that missed."""

    cassette: str
    row: int
    request_hash: str
    distance: float
    differences: tuple[DifferenceReport, ...]


class CallReport(_Part, frozen=True, kw_only=True):
    """One journaled call: a model turn, a step, a child or an external wait."""

    kind: CallKind
    site: SiteReport | None
    scope: str
    label: str | None
    agent_type: str | None
    turn: int | None
    adapter: str | None
    model: str | None
    request_hash: str | None
    content_key: str | None
    served: CallServed
    occurrence: int | None
    occurrences: int | None
    cassette: str | None
    row: int | None
    usage: dict[str, int] | None
    cost_usd: float | None
    nearest: NearestReport | None
    message: str | None


class CassetteReport(_Part, frozen=True, kw_only=True):
    """A cassette that a test opened: how many rows it has, and the lines that were and were not served."""

    path: str
    rows: int
    served: tuple[int, ...]
    unused: tuple[int, ...]


class OrphanReport(_Part, frozen=True, kw_only=True):
    """A journaled operation that no call of a replay consumed."""

    seq: int
    kind: str
    scope: str
    label: str | None


class DivergenceReport(_Part, frozen=True, kw_only=True):
    """The first call of a strict replay that was not in the journal."""

    site: SiteReport | None
    kind: str
    scope: str
    label: str | None
    reason: str
    differences: tuple[DifferenceReport, ...]


class ReplayRecord(_Part, frozen=True, kw_only=True):
    """One run of a workflow against a journal."""

    run_id: str
    workflow: str
    status: str
    hits: int
    misses: int
    reruns: int
    skipped: int
    orphaned: tuple[OrphanReport, ...]
    divergence: DivergenceReport | None


class WarningReport(_Part, frozen=True, kw_only=True):
    """Nondeterminism that was noticed while a workflow body ran."""

    file: str
    line: int
    code: str
    message: str


class TestReport(_Part, frozen=True, kw_only=True):
    """One test that ran; ``end_line`` and ``digest`` are None where its source cannot be read."""

    node_id: str
    file: str
    line: int
    end_line: int | None = None
    digest: str | None = None
    outcome: TestOutcome
    duration_ms: float
    mode: ReplayMode
    message: str | None
    cassettes: tuple[CassetteReport, ...]
    calls: tuple[CallReport, ...]
    replays: tuple[ReplayRecord, ...]
    warnings: tuple[WarningReport, ...]


class ReplayReport(_Part, frozen=True, kw_only=True):
    """A whole report; paths are relative to ``root`` where they lie below it, and POSIX."""

    v: int
    kind: str
    created_at: str
    rulvar: str
    root: str
    mode: ReplayMode
    tests: tuple[TestReport, ...]

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object of the report."""
        wire: dict[str, Any] = decode_json(encode_json(msgspec.to_builtins(self)))
        return wire


def write_report(path: str | os.PathLike[str], report: ReplayReport) -> None:
    """Write a report; a reader sees the old file or the new one.

    Raises:
        ConfigError: the file cannot be written.
    """
    name = os.path.abspath(os.fspath(path))
    temporary = f"{name}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.makedirs(os.path.dirname(name), exist_ok=True)
        _ignore_cache(name)
        with open(temporary, "wb") as file:
            file.write(encode_json(report.to_wire()) + b"\n")
        os.replace(temporary, name)
    except OSError as error:
        _remove(temporary)
        raise ConfigError(f"{os.fspath(path)}: cannot write the report: {error.strerror or error}") from None


def _ignore_cache(name: str) -> None:
    """Let git ignore the folder of rulvar's caches, if the report lies in it, as the lint does."""
    head, found, _ = name.rpartition(f"{os.sep}{CACHE_FOLDER}{os.sep}")
    if found:
        with contextlib.suppress(OSError), open(f"{head}{found}.gitignore", "x", encoding="utf-8") as file:
            file.write("*\n")


def read_report(path: str | os.PathLike[str]) -> ReplayReport:
    """Read and check a report.

    Raises:
        ConfigError: the file cannot be read, is no report, is of another version, or a field is
            wrong. The message names file and field.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(f"path={path!r}: expected the path of a report", data={"field": "path"})
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as error:
        _refuse(name, None, f"cannot read the report: {error.strerror or error}")
    try:
        wire = decode_json(data)
    except (ValueError, RecursionError) as error:
        _refuse(name, None, f"not JSON: {error}; write the report again with pytest --rulvar-report")
    return report_from_wire(wire, name)


def report_from_wire(wire: Any, name: str) -> ReplayReport:
    """Check the JSON object of a report; the name is for messages."""
    if not isinstance(wire, dict) or wire.get("kind") != REPORT_KIND:
        _refuse(name, "kind", f'expected "{REPORT_KIND}": this file is not a replay report')
    version = wire.get("v")
    if isinstance(version, bool) or version != REPORT_VERSION:
        _refuse(
            name,
            "v",
            f"this report is of version {version!r}, and this rulvar reads version {REPORT_VERSION}; "
            "write it again with this version's pytest --rulvar-report",
        )
    try:
        return msgspec.convert(wire, ReplayReport)
    except UnicodeEncodeError:
        _refuse(name, "report", "a text holds half a surrogate pair, which no report of rulvar does")
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `")
        _refuse(name, place.rstrip("`").removeprefix("$").removeprefix(".") or "report", problem)


def site_digest(lines: list[str]) -> str:
    """Return the digest of the source lines of a call: a reader with another one sees a changed text."""
    text = "\n".join(line.strip() for line in lines)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def relative_path(path: str, root: str) -> str:
    """Return a path as reports hold it: POSIX, and relative to the root where it lies below it."""
    return _below(path, os.path.abspath(root))


@lru_cache(maxsize=4096)
def _below(path: str, root: str) -> str:
    absolute = os.path.abspath(os.path.join(root, path))
    below = os.path.relpath(absolute, root) if _same_drive(absolute, root) else os.pardir
    shown = absolute if below.split(os.sep, 1)[0] == os.pardir else below
    return shown.replace(os.sep, "/")


def _same_drive(path: str, root: str) -> bool:
    return os.path.splitdrive(path)[0] == os.path.splitdrive(root)[0]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def _refuse(name: str, field: str | None, problem: str) -> NoReturn:
    where = f"{name}: {field}" if field else name
    raise ConfigError(f"{where}: {problem}", data={"file": name, "field": field})
