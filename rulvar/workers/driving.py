"""What one job does: start or resume its run, answer a wait first if it is asked to, and say what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rulvar.contracts.outcome import Outcome
from rulvar.contracts.ports.queue import Submission
from rulvar.engine.answers import resolve_wait
from rulvar.engine.submissions import read_submission
from rulvar.errors import ConfigError, ResolutionError, RulvarError, StoreError, SupersededError
from rulvar.workers.giving_up import give_up_if_stuck

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine
    from rulvar.engine.handle import RunHandle

__all__ = ["drive", "pause_before_retry"]

SETTLED = frozenset({"ok", "error", "cancelled", "exhausted"})
_AGAIN = frozenset({"settlement", "store", "superseded"})
_LONGEST_PAUSE_S = 30.0


async def drive(
    engine: Engine,
    run_id: str,
    submission: Mapping[str, Any] | None = None,
    answer: Mapping[str, Any] | None = None,
    *,
    is_wanted_again: bool = False,
    is_unwanted: Callable[[], bool] = lambda: False,
    max_interruptions: int | None = None,
) -> Outcome | None:
    """Drive a run to the end of a segment; None when there was nothing to do.

    Args:
        is_wanted_again: whether a run that has ended is resumed all the same.
        is_unwanted: when the task is cancelled, says whether the run itself is to be cancelled. If
            not, the worker goes away, and the run is let go for another one.
        max_interruptions: how often in a row the run may have broken off at one place.

    Raises:
        LeaseHeldError, StoreError: try again later; nothing is lost.
        RulvarError: the run cannot be driven; trying again will not help.
    """
    meta = await engine.store.load_meta(run_id)
    asked = None if submission is None else Submission.from_wire(submission)
    if meta is None:
        if asked is None:
            return None  # the run was deleted meanwhile
        try:
            return await _to_the_end(engine.start(asked), is_unwanted)
        except ConfigError:
            meta = await engine.store.load_meta(run_id)
            if meta is None:
                raise
            # it is there by now: another worker had fallen silent with this job, and has woken up
    if meta.get("status") in SETTLED and answer is None and not is_wanted_again:
        return None  # another job of the same run had driven it
    if meta.get("status") == "running":
        await give_up_if_stuck(engine, run_id, meta, max_interruptions)
    if answer is not None:
        await _answer(engine, run_id, answer)
    asked = asked or await read_submission(engine, run_id)
    args = None if asked is None or asked.args is None else _parsed(asked.args)
    deadline = None if asked is None or asked.deadline_ms is None else asked.deadline_ms / 1000
    return await _to_the_end(engine.resume(run_id, args=args, deadline_at=deadline), is_unwanted)


async def _to_the_end(handle: RunHandle, is_unwanted: Callable[[], bool]) -> Outcome:
    try:
        outcome = await handle.result()
    except asyncio.CancelledError:
        if not is_unwanted():
            await handle.let_go("its worker is shutting down")
            raise
        await handle.cancel("cancelled on request")
        outcome = await handle.result()
    except SupersededError as lost:  # before it began: somebody was faster
        raise _later(lost.message) from lost
    error = outcome.error
    if outcome.status == "error" and error is not None and error.code in _AGAIN:
        # the run itself has not ended: its store was in trouble, or another owner took it
        raise _later(error.message)
    return outcome


def _later(why: str) -> StoreError:
    return StoreError(why, data={"reason": "unavailable"}, retryable=True)


async def _answer(engine: Engine, run_id: str, answer: Mapping[str, Any]) -> None:
    try:
        await resolve_wait(engine, run_id, str(answer["key"]), answer["value"])
    except ResolutionError:
        # an earlier attempt of this job has journaled it, or an earlier answer has won: the run goes on
        return


def _parsed(text: str) -> Any:
    from rulvar.contracts.canonical import decode_json

    try:
        return decode_json(text.encode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"submission: args is not JSON ({error})", data={"field": "args"}) from None


def pause_before_retry(error: BaseException, attempts: int) -> float | None:
    """Return for how many seconds a job waits before it is tried again; None when that will not help."""
    if isinstance(error, asyncio.CancelledError):
        return 0.0
    if not isinstance(error, RulvarError) or not error.retryable:
        return None
    backoff: float = min(_LONGEST_PAUSE_S, 0.5 * 2 ** min(attempts, 10))
    left = error.data.get("expiresInS")
    return min(backoff, max(0.1, float(left))) if isinstance(left, (int, float)) else backoff
