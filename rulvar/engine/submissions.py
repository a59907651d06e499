"""Runs that are handed to workers: what is submitted, and how a worker drives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.ports.queue import RunQueue, Submission
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.engine.bounds import run_bounds
from rulvar.engine.calls import RunRequest
from rulvar.engine.options import check_text, deadline_ms, run_tags, scope_value
from rulvar.engine.primitives.child import check_args
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError
from rulvar.kernel.admission import check_usd

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine

__all__ = ["kept_submission", "make_submission", "queue_of", "read_submission", "request_of"]

_NAME = "submission"


def make_submission(
    engine: Engine,
    workflow: Workflow[Any],
    args: Any,
    *,
    run_id: str | None,
    budget_usd: float | None,
    deadline_at: datetime | float | None,
    name: str | None,
    tags: Iterable[str],
    scope: Mapping[str, Any] | None,
) -> Submission:
    """Check what is submitted where it is submitted: a worker can only refuse it when nobody listens.

    Raises:
        ConfigError, NonSerializableValueError: an argument is wrong.
    """
    data = None if args is None else journal_form(args, f"enqueue of {workflow.name!r}: args")
    refused = check_args(workflow, None if data is None else decode_json(data))
    if refused is not None:
        raise refused
    return Submission(
        run_id=check_run_id(run_id) if run_id is not None else engine.mint_id(),
        workflow=workflow.name,
        args=None if data is None else data.decode("utf-8"),
        budget_usd=check_usd(budget_usd, "budget_usd"),
        deadline_ms=deadline_ms(deadline_at),
        name=check_text(name, "name"),
        tags=run_tags(tags),
        scope=scope_value(scope),
    )


def request_of(engine: Engine, submission: Submission) -> RunRequest:
    """Return what starts a submitted run; the submission is kept beside it, for whoever resumes it."""
    workflow = engine.workflow_of(submission.workflow)
    return RunRequest(
        run_id=submission.run_id,
        workflow=workflow,
        args=None,
        args_json=None if submission.args is None else submission.args.encode("utf-8"),
        deadline_ms=submission.deadline_ms,
        name=submission.name,
        tags=submission.tags,
        scope=submission.scope,
        **run_bounds(engine, workflow, (submission.budget_usd, None), None),
        kept={_NAME: encode_json(submission.to_wire())},
    )


async def read_submission(engine: Engine, run_id: str) -> Submission | None:
    """Return what a run was submitted as, or None for one that was started in place."""
    return await kept_submission(engine.transcripts, run_id)


async def kept_submission(transcripts: TranscriptStore, run_id: str) -> Submission | None:
    """Return what a run was submitted as, of the transcripts beside its journal."""
    data = await transcripts.get(f"{check_run_id(run_id)}/{_NAME}")
    if data is None:
        return None
    wire = decode_json(data)
    return Submission.from_wire(wire) if isinstance(wire, dict) else None


def queue_of(queue: RunQueue | None) -> RunQueue:
    """Return an engine's queue.

    Raises:
        ConfigError: it has none.
    """
    if queue is None:
        raise ConfigError(
            "the engine has no queue: Engine(queue=ProcrastinateQueue(dsn)) hands runs to workers",
            data={"field": "queue"},
        )
    return queue
