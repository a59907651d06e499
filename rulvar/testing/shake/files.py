"""What the processes of a shake hand each other: recorded segments one way, what moved the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.entries import decode_entry
from rulvar.contracts.ports.observer import CallSite, ClaimRecord
from rulvar.testing.shake.report import ShakeMove
from rulvar.testing.shake.trace import RecordedSegment, Trace

__all__ = ["RoundResult", "RoundTask", "read_result", "read_task", "write_result", "write_task"]

Recorded = Mapping[str, tuple[RecordedSegment, ...]]
"""Segments by the id of the test that they belong to, in the order in which they ended."""


class _Claim(msgspec.Struct, array_like=True):
    scope: str
    key: str
    identity: bytes
    action: str
    task: int
    label: str | None
    site: CallSite | None


class _Segment(msgspec.Struct, array_like=True):
    run_id: str
    workflow: str
    args: bytes | None
    journal: list[bytes]
    budget_usd: float | None
    claims: list[_Claim]
    status: str
    output_hash: str | None
    error: str | None
    error_code: str | None
    stopped: bool


class _Task(msgspec.Struct):
    number: int
    root: str
    home: dict[str, str | None]
    recorded: dict[str, list[_Segment]]


class RoundTask(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of one round is told.

    Attributes:
        number: of the round, from 1 on.
        root: the directory that paths are shown relative to.
        home: the environment variables that the round was started with others of.
    """

    number: int
    root: str
    home: dict[str, str | None]
    recorded: Any


class RoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one round found.

    Attributes:
        examined: how many segments of each test were compared.
        left_out: per test, why others were not.
    """

    moves: tuple[ShakeMove, ...] = ()
    examined: dict[str, int] = {}
    calls: dict[str, int] = {}
    left_out: dict[str, str] = {}


def write_task(path: Path, task: RoundTask) -> None:
    """Write what a round is told; only this user can read it."""
    wire = _Task(
        number=task.number,
        root=task.root,
        home=task.home,
        recorded={test: [_segment(item) for item in segments] for test, segments in task.recorded.items()},
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.msgpack.encode(wire))


def read_task(path: Path) -> RoundTask:
    """Read what a round is told."""
    wire = msgspec.msgpack.decode(path.read_bytes(), type=_Task)
    recorded = {test: tuple(map(_revived, segments)) for test, segments in wire.recorded.items()}
    return RoundTask(number=wire.number, root=wire.root, home=wire.home, recorded=recorded)


def write_result(path: Path, result: RoundResult) -> None:
    """Write what a round found."""
    path.write_bytes(msgspec.json.encode(result))


def read_result(path: Path) -> RoundResult | None:
    """Read what a round found; None when it wrote nothing."""
    return msgspec.json.decode(path.read_bytes(), type=RoundResult) if path.exists() else None


def _segment(recorded: RecordedSegment) -> _Segment:
    trace = recorded.trace
    return _Segment(
        run_id=recorded.run_id,
        workflow=recorded.workflow,
        args=recorded.args,
        journal=[entry.line for entry in recorded.journal],
        budget_usd=recorded.budget_usd,
        claims=[
            _Claim(
                scope=claim.scope,
                key=claim.key,
                identity=encode_json(dict(claim.identity)),
                action=claim.action,
                task=claim.task,
                label=claim.label,
                site=claim.site,
            )
            for claim in trace.claims
        ],
        status=trace.status,
        output_hash=trace.output_hash,
        error=trace.error,
        error_code=trace.error_code,
        stopped=trace.stopped,
    )


def _revived(segment: _Segment) -> RecordedSegment:
    return RecordedSegment(
        run_id=segment.run_id,
        workflow=segment.workflow,
        args=segment.args,
        journal=tuple(decode_entry(line) for line in segment.journal),
        budget_usd=segment.budget_usd,
        trace=Trace(
            claims=tuple(
                ClaimRecord(
                    scope=claim.scope,
                    key=claim.key,
                    identity=decode_json(claim.identity),
                    action=claim.action,
                    task=claim.task,
                    label=claim.label,
                    site=claim.site,
                )
                for claim in segment.claims
            ),
            status=segment.status,
            output_hash=segment.output_hash,
            error=segment.error,
            error_code=segment.error_code,
            stopped=segment.stopped,
        ),
    )
