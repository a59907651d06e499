"""``ctx.parallel``: branches side by side, each with a scope of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from rulvar.contracts.outcome import Dropped, Settled
from rulvar.contracts.stream import WireError
from rulvar.engine.branch import CURRENT_PLACE, Branch, Place
from rulvar.engine.control import unwrapped
from rulvar.engine.primitives.step import wire_error
from rulvar.engine.run import Run
from rulvar.errors import (
    AgentCallError,
    BudgetExceededError,
    BudgetExhaustedError,
    ConfigError,
    ControlFlow,
    NotAwaitableError,
    RunSuspended,
)
from rulvar.kernel.scope import parallel_scopes
from rulvar.runtime.agent import AgentResult

__all__ = ["Returned", "begun", "listed", "run_branches", "run_parallel", "settled"]

Thunk = Callable[[], Awaitable[Any]] | Awaitable[Any]


class Returned:
    """An exception that a branch returned, and did not end with: a value as any other."""

    __slots__ = ("value",)

    def __init__(self, value: BaseException) -> None:
        self.value = value


async def run_parallel(run: Run, tasks: Iterable[Thunk], *, settle: bool, abort_siblings: bool) -> list[Any]:
    """Run branches side by side; see ``Ctx.parallel``."""
    thunks = _thunks(run, tasks)
    try:
        place = run.place()
    except BaseException:
        _close(thunks)
        raise
    site = run.next_site(place.scope, "par")
    scopes = parallel_scopes(place.scope, site, len(thunks))
    abort = abort_siblings and not settle
    results = await run_branches(run, place, scopes, thunks, partial(_begin, run), abort_siblings=abort)
    raise_exhausted(results)
    if not settle:
        _raise_first(results)
        return [end.value if type(end) is Returned else end for end in results]
    ends = [settled(result) for result in results]
    for scope, end, result in zip(scopes, ends, results, strict=True):
        if end.status == "error" and end.error is not None:
            run.dropped.append(
                Dropped(source="parallel-settled", scope=scope, error=end.error, entry_ref=entry_ref(result))
            )
    return ends


async def run_branches(
    run: Run,
    place: Place,
    scopes: list[str],
    thunks: list[Thunk],
    begin: Callable[[Any], Awaitable[Any]],
    *,
    abort_siblings: bool,
    ended: list[int] | None = None,
) -> list[Any]:
    """Run one branch per scope, wait for all of them, and return what each ended with: a value or an exception.

    An exception that is a value is told as ``Returned``.

    Args:
        begin: makes of a thunk what its branch awaits, in that branch.
        abort_siblings: cancel the others when one fails.
        ended: takes the numbers of the branches in the order in which they end.
    """
    group = _Group(thunks, begin, abort_siblings)
    loop = asyncio.get_running_loop()
    for number, scope in enumerate(scopes):
        branch = Branch(run.liveness, place.branch)
        group.branches.append(branch)
        here = place.in_branch(branch, scope, run.next_span())
        group.tasks.append(loop.create_task(group.run_one(number, here)))
    place.branch.hand_over(1)
    try:
        await group.wait()
    finally:
        place.branch.hand_over(-1)
        _close(thunks)
    raised = [end for end in group.ends if isinstance(end, BaseException)]
    for passes_on in (_unwinds, _leaves) if raised else ():
        if (end := next(filter(passes_on, raised), None)) is not None:
            raise end
    if ended is not None:
        ended.extend(group.order)
    return group.ends


def _unwinds(end: BaseException) -> bool:
    """Whether the run is over, or stands still, where a branch was."""
    return isinstance(end, ControlFlow)


def _leaves(end: BaseException) -> bool:
    """Whether a branch ended with what is no error of it: an exit, or a test's own verdict."""
    return not isinstance(end, (Exception, asyncio.CancelledError))


def raise_exhausted(ends: Iterable[Any]) -> None:
    """Raise the first refusal of an agent or a child among the ends of branches: nobody goes on without the money.

    What a tool may cost is the tool's: its refusal is a failure as any other.
    """
    kinds = (end for end in ends if isinstance(end, BudgetExhaustedError))
    refused = next((end for end in kinds if not isinstance(end, BudgetExceededError)), None)
    if refused is not None:
        raise refused


def _raise_first(ends: Iterable[Any]) -> None:
    """Raise the first failure in the order of the branches; one that only met a bound comes last."""
    failures = [end for end in ends if isinstance(end, BaseException)]
    if failures:
        raise next((end for end in failures if not _met_a_bound(end)), failures[0])


def _met_a_bound(end: BaseException) -> bool:
    """Whether a branch was stopped, and did not fail: by a limit, a cancellation, or a question to somebody else."""
    if isinstance(end, asyncio.CancelledError):
        return True
    agent = getattr(end, "result", None) if isinstance(end, AgentCallError) else None
    return isinstance(agent, AgentResult) and agent.status in ("limit", "cancelled", "escalated")


_RUNNING: Any = object()


class _Group:
    """The branches of one call. Each notes its own end: a callback per task would cost more than the branch."""

    __slots__ = ("_abort", "_begin", "_done", "_open", "_thunks", "branches", "ends", "order", "tasks")

    def __init__(
        self, thunks: list[Thunk], begin: Callable[[Any], Awaitable[Any]], abort_siblings: bool
    ) -> None:
        self._thunks = thunks
        self._begin = begin
        self._abort = abort_siblings
        self._open = len(thunks)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tasks: list[asyncio.Task[Any]] = []
        self.branches: list[Branch] = []
        self.ends: list[Any] = [_RUNNING] * len(thunks)
        self.order: list[int] = []

    async def run_one(self, number: int, here: Place) -> None:
        """Run a branch and note its value, or the exception it ended with."""
        CURRENT_PLACE.set(here)
        try:
            made = await self._begin(self._thunks[number])
            self._end(number, Returned(made) if isinstance(made, BaseException) else made)
        except (KeyboardInterrupt, SystemExit) as left:
            self._end(number, left)
            raise
        except BaseException as raised:
            error = unwrapped(raised)
            if not isinstance(error, asyncio.CancelledError):
                self._failed(error, number)
            self._end(number, error)

    async def wait(self) -> None:
        """Wait until every branch has ended; a cancelled wait cancels them all first."""
        if not self.tasks:
            return
        try:
            await self._done
        except asyncio.CancelledError:
            for number in range(len(self.tasks)):
                self._cancel(number)
            await asyncio.shield(asyncio.wait(self.tasks))
            raise

    def _end(self, number: int, end: Any) -> None:
        self.ends[number] = end
        self.order.append(number)
        self._open -= 1
        if not self._open and not self._done.done():
            self._done.set_result(None)
        # last: whoever waits for the group is woken before anybody asks whether the run stands still
        self.branches[number].end()

    def _failed(self, error: BaseException, number: int) -> None:
        if isinstance(error, RunSuspended):
            return  # every branch stands at a wait, and unwinds by itself: what it had begun stays open
        # a refusal of the budget costs nothing, and a bound is no failure: what siblings are paying for may finish
        spares = isinstance(error, BudgetExhaustedError) or _met_a_bound(error)
        if (self._abort and not spares) or not isinstance(error, Exception):
            for other in range(len(self.tasks)):
                if other != number:
                    self._cancel(other)

    def _cancel(self, number: int) -> None:
        task = self.tasks[number]
        if not task.done():
            task.cancel()
            task.add_done_callback(lambda _: self._note_unstarted(number))

    def _note_unstarted(self, number: int) -> None:
        """Note the end of a branch that was cancelled before its first step, and so could not itself."""
        if self.ends[number] is _RUNNING:
            thunk = self._thunks[number]
            if inspect.iscoroutine(thunk):
                thunk.close()
            self._end(number, asyncio.CancelledError())


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
    return Settled(status="ok", value=result.value if type(result) is Returned else result)


def entry_ref(result: Any) -> int | None:
    """Return the seq of the entry that holds a failure."""
    agent = getattr(result, "result", None)
    return agent.entry_ref if isinstance(agent, AgentResult) else None


def listed(run: Run, items: Iterable[Any]) -> list[Any]:
    """Return what a workflow gives one by one; a generator is code of its own."""
    return list(items) if run.watch is None or type(items) is list else run.watch.call(list, items)


def begun(run: Run, function: Callable[..., Awaitable[Any]], *args: Any) -> Awaitable[Any]:
    """Call a function of the workflow and return what to await; the determinism guard sees both, where it is on."""
    return _made(function, *args) if run.watch is None else run.watch.inside(_called(function, *args))


async def _called(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return await _made(function, *args)


def _made(function: Callable[..., Awaitable[Any]], *args: Any) -> Awaitable[Any]:
    made = function(*args)
    if not hasattr(made, "__await__") and not inspect.isawaitable(made):
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise NotAwaitableError(
            f"{name} returned {type(made).__name__}, and what it returns is awaited: make it an async function, "
            "or return what ctx.step(...) does"
        )
    return made


def _begin(run: Run, thunk: Thunk) -> Awaitable[Any]:
    return begun(run, thunk) if callable(thunk) else run.inside(thunk)


def _close(thunks: list[Thunk]) -> None:
    """Close the coroutines of branches that never began, which nobody will await any more."""
    for thunk in thunks:
        if not callable(thunk) and isinstance(thunk, Coroutine):
            thunk.close()


def _thunks(run: Run, tasks: Iterable[Thunk]) -> list[Thunk]:
    if not isinstance(tasks, Iterable):
        raise ConfigError(
            f"ctx.parallel tasks: expected a list of functions or coroutines, got {type(tasks).__name__}",
            data={"field": "tasks"},
        )
    thunks = listed(run, tasks)
    for number, thunk in enumerate(thunks):
        if not callable(thunk) and not inspect.isawaitable(thunk):
            for other in thunks:
                if asyncio.iscoroutine(other):
                    other.close()
            raise ConfigError(
                f"ctx.parallel tasks[{number}]: expected a function without arguments or a coroutine, "
                f"got {type(thunk).__name__}",
                data={"field": f"tasks[{number}]"},
            )
    return thunks
