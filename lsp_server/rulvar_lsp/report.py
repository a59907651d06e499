"""The replay report as it is read: typed, validated, refused with the place of the fault.

The format is `docs/reference/report.md`. Unknown fields are ignored, so a report of the same format
version that knows more can be read; another version is refused. Lines and columns are kept as the
file has them: 1-based, columns in code points.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

VERSION = 1
KIND = "rulvar-replay-report"

Served = Literal["hit", "miss", "exhausted", "passthrough", "live", "fake", "journal"]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class ReportError(Exception):
    """A report that cannot be read; the text names the file, the place in it and what to do."""


class Struct(msgspec.Struct, frozen=True, rename="camel"):
    """A frozen value whose fields are camelCase in the file."""


class Site(Struct, frozen=True):
    """Where a call stands in the source, and the digest of its lines at the time of the run."""

    file: str
    line: Positive
    column: Positive
    end_line: Positive
    end_column: Positive
    digest: str
    function: str | None = None


class Difference(Struct, frozen=True):
    """One field in which two requests differ; a side without the field is None."""

    path: str
    recorded: str | None = None
    actual: str | None = None


class Nearest(Struct, frozen=True):
    """The recorded row that is most like a request that was not recorded."""

    row: Positive
    cassette: str | None = None
    request_hash: str | None = None
    distance: float | None = None
    differences: tuple[Difference, ...] = ()


class Divergence(Struct, frozen=True):
    """The first call of a journal replay that was not in the journal."""

    kind: str
    reason: str
    site: Site | None = None
    scope: str = ""
    label: str | None = None
    differences: tuple[Difference, ...] = ()

    def as_call(self) -> Call:
        """The divergence as the call that was not in the journal."""
        return Call(
            kind=self.kind,
            served="miss",
            site=self.site,
            scope=self.scope,
            label=self.label,
            message=self.reason,
            divergence=self,
        )


class Call(Struct, frozen=True):
    """One model turn, step, child or external call."""

    kind: str
    served: Served
    site: Site | None = None
    scope: str = ""
    label: str | None = None
    agent_type: str | None = None
    turn: int | None = None
    adapter: str | None = None
    model: str | None = None
    request_hash: str | None = None
    content_key: str | None = None
    occurrence: Count | None = None
    occurrences: Count | None = None
    cassette: str | None = None
    row: Positive | None = None
    usage: dict[str, int | float | None] | None = None
    cost_usd: float | None = None
    nearest: Nearest | None = None
    message: str | None = None
    divergence: Divergence | None = None


class CassetteUse(Struct, frozen=True):
    """Which rows of a cassette file a test was served, and which were left over (line numbers)."""

    path: str
    rows: Count | None = None
    served: tuple[Positive, ...] = ()
    unused: tuple[Positive, ...] = ()


class Replay(Struct, frozen=True):
    """A run of a workflow against a journal."""

    run_id: str | None = None
    workflow: str | None = None
    status: str | None = None
    hits: Count = 0
    misses: Count = 0
    reruns: Count = 0
    skipped: Count = 0
    divergence: Divergence | None = None


class Warned(Struct, frozen=True):
    """Nondeterminism noticed while the test ran."""

    file: str
    line: Positive
    code: str
    message: str


class TestRun(Struct, frozen=True):
    """One test as it ran."""

    __test__ = False

    node_id: str
    file: str
    line: Positive
    outcome: Literal["passed", "failed", "error", "skipped"]
    end_line: Positive | None = None
    digest: str | None = None
    duration_ms: float | None = None
    mode: str | None = None
    message: str | None = None
    cassettes: tuple[CassetteUse, ...] = ()
    calls: tuple[Call, ...] = ()
    replays: tuple[Replay, ...] = ()
    warnings: tuple[Warned, ...] = ()


class Report(Struct, frozen=True):
    """One pytest run."""

    v: int
    kind: str
    root: str
    tests: tuple[TestRun, ...]
    created_at: str
    rulvar: str | None = None
    mode: str | None = None


class _Head(msgspec.Struct):
    v: object = None
    kind: object = None


_FIELD = re.compile(r" - at `\$\.?([^`]*)`$")
_BYTE = re.compile(r"\(byte (\d+)\)")


def decode_report(data: bytes, name: str) -> Report:
    """Read a report.

    `name` is the file as the message shall call it. Raises `ReportError`, never anything else.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.kind != KIND:
            raise ReportError(f'{name}: kind: expected "{KIND}", found {_show(head.kind)}')
        if head.v != VERSION:
            raise ReportError(
                f"{name}: v: this version of rulvar reads report format {VERSION}, found "
                f"{_show(head.v)}; run the tests again with the rulvar that the editor uses"
            )
        return msgspec.json.decode(data, type=Report)
    except msgspec.ValidationError as error:
        raise ReportError(f"{name}: {_field_fault(str(error))}; run the tests again") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        line = _line_of(str(error), data)
        raise ReportError(
            f"{name}:{line}: not valid JSON ({error}); run the tests again to write a new report"
        ) from None


def _show(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."


def _field_fault(text: str) -> str:
    """Turn msgspec's sentence into `field: fault`."""
    match = _FIELD.search(text)
    return f"{match[1] or 'report'}: {text[: match.start()]}" if match else f"report: {text}"


def _line_of(text: str, data: bytes) -> int:
    match = _BYTE.search(text)
    end = int(match[1]) if match else len(data)
    return data.count(b"\n", 0, end) + 1
