"""``ctx.parallel``: branches side by side, each with a scope of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from typing import Any

from rulvar.contracts.outcome import Dropped, Settled
from rulvar.contracts.stream import WireError
from rulvar.engine.branch import CURRENT_PLACE, Branch, Place
from rulvar.engine.primitives.step import wire_error
from rulvar.engine.run import Run
from rulvar.errors import AgentCallError, BudgetExhaustedError, ConfigError, ControlFlow
from rulvar.kernel.scope import parallel_scope
from rulvar.runtime.agent import AgentResult

__all__ = ["run_branches", "run_parallel", "settled"]

Thunk = Callable[[], Awaitable[Any]] | Awaitable[Any]


async def run_parallel(run: Run, tasks: Iterable[Thunk], *, settle: bool, abort_siblings: bool) -> list[Any]:
    """Run branches side by side; see ``Ctx.parallel``."""
    place = run.place()
    thunks = _thunks(tasks)
    site = run.next_site(place.scope, "par")
    scopes = [parallel_scope(place.scope, site, number) for number in range(len(thunks))]
    if not settle:
        return await run_branches(run, place, scopes, thunks, abort_siblings=abort_siblings)
    results = await run_branches(run, place, scopes, thunks, abort_siblings=False, collect=True)
    ends = [settled(result) for result in results]
    for scope, end, result in zip(scopes, ends, results, strict=True):
        if end.status in ("error", "cancelled") and end.error is not None:
            run.dropped.append(
                Dropped(source="parallel-settled", scope=scope, error=end.error, entry_ref=entry_ref(result))
            )
    return ends


async def run_branches(
    run: Run,
    place: Place,
    scopes: list[str],
    thunks: list[Thunk],
    *,
    abort_siblings: bool,
    collect: bool = False,
) -> list[Any]:
    """Run one branch per scope and wait for all of them.

    Args:
        abort_siblings: cancel the others when one fails.
        collect: return exceptions instead of raising the first.
    """
    first_error: list[BaseException] = []
    tasks: list[asyncio.Task[Any]] = []

    def ended(task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not first_error:
            first_error.append(error)
        # a refusal before dispatch costs nothing: what its siblings are paying for may finish
        refused = isinstance(error, BudgetExhaustedError)
        if (abort_siblings and not refused) or not isinstance(error, Exception):
            for other in tasks:
                if other is not task:
                    other.cancel()

    loop = asyncio.get_running_loop()
    for scope, thunk in zip(scopes, thunks, strict=True):
        branch = Branch(run.liveness, place.branch)
        here = place.at(branch=branch, scope=scope, span=run.next_span())
        context = copy_context()
        context.run(CURRENT_PLACE.set, here)
        task = loop.create_task(run.inside(_in_branch(thunk, branch)), context=context)
        tasks.append(task)
    place.branch.hand_over(1)
    try:
        for task in tasks:
            task.add_done_callback(ended)
        if tasks:
            await _all_done(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.shield(_all_done(tasks))
        raise
    finally:
        place.branch.hand_over(-1)
    control = next((error for error in _errors(tasks) if isinstance(error, ControlFlow)), None)
    if control is not None:
        raise control
    if first_error and not collect:
        raise first_error[0]
    return [_result(task) for task in tasks]


async def _in_branch(thunk: Thunk, branch: Branch) -> Any:
    try:
        return await (thunk() if callable(thunk) else thunk)
    finally:
        branch.end()


async def _all_done(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)
    await asyncio.sleep(0)  # done callbacks run before the results are read


def _errors(tasks: list[asyncio.Task[Any]]) -> Iterable[BaseException]:
    return (error for task in tasks if not task.cancelled() and (error := task.exception()) is not None)


def _result(task: asyncio.Task[Any]) -> Any:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()


def settled(result: Any) -> Settled:
    """Return how a branch ended, from its result or its exception."""
    if isinstance(result, AgentCallError):
        agent = getattr(result, "result", None)
        if isinstance(agent, AgentResult) and agent.status == "limit":
            return Settled(status="limit", result=agent)
        return Settled(status="error", error=WireError.from_wire(result.to_wire()), result=agent)
    if isinstance(result, asyncio.CancelledError):
        error = WireError(code="cancelled", message="the branch was cancelled", retryable=False)
        return Settled(status="cancelled", error=error)
    if isinstance(result, BaseException):
        return Settled(status="error", error=WireError.from_wire(wire_error(result)))
    return Settled(status="ok", value=result)


def entry_ref(result: Any) -> int | None:
    """Return the seq of the entry that holds a failure."""
    agent = getattr(result, "result", None)
    return agent.entry_ref if isinstance(agent, AgentResult) else None


def _thunks(tasks: Iterable[Thunk]) -> list[Thunk]:
    thunks = list(tasks)
    for number, thunk in enumerate(thunks):
        if not callable(thunk) and not inspect.isawaitable(thunk):
            for other in thunks:
                if inspect.iscoroutine(other):
                    other.close()
            raise ConfigError(
                f"ctx.parallel tasks[{number}]: expected a function without arguments or a coroutine, "
                f"got {type(thunk).__name__}",
                data={"field": f"tasks[{number}]"},
            )
    return thunks
