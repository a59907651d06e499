"""The children of a machine: started once the transition that asks for them is committed.

Each runs in a branch of its own, below its parent in the same journal. When one ends, its outcome is
offered to the wait transition that its parent named; the parent takes it at its next park. What the
parent took is in the journal, so that a resume takes the same in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.contracts.exception_text import exception_text
from rulvar.engine.branch import CURRENT_PLACE, Branch
from rulvar.engine.primitives.child import run_child
from rulvar.engine.workflow import Workflow, define_workflow
from rulvar.errors import ConfigError, ControlFlow, ReplayStopped
from rulvar.machines.answer import guard_holds, payload_problem
from rulvar.machines.commit import Launch
from rulvar.machines.definition import Transition
from rulvar.machines.names import child_id

if TYPE_CHECKING:
    from rulvar.machines.run import MachineRun

__all__ = ["Children"]


@dataclass(frozen=True, slots=True)
class _Callback:
    """The end of a child, on its way to the parent."""

    launch: Launch
    status: str
    data: Any = None
    message: str | None = None


@dataclass(slots=True)
class _Started:
    """A child that runs, or has run."""

    launch: Launch
    branch: Branch
    task: asyncio.Task[None]


class Children:
    """The children of one machine.

    Attributes:
        consumed: ids of children whose end the parent has taken, as the journal tells.
    """

    def __init__(self, driver: MachineRun) -> None:
        self._driver = driver
        self._committed: deque[Launch] = deque()
        self._started: list[_Started] = []
        self._callbacks: deque[_Callback] = deque()
        self._stopped: ControlFlow | None = None
        self.consumed: set[str] = set()

    def add(self, launches: tuple[Launch, ...]) -> None:
        """Take note of children that a commit starts; they begin at the next live point."""
        self._committed.extend(launches)

    async def start(self) -> None:
        """Start what is committed: what the parent did before has been served from the journal by now.

        Raises:
            ControlFlow: a child was stopped; the parent has to unwind as well.
        """
        serial = self._driver.run.engine.serial_children
        while self._committed:
            started = self._launch(self._committed.popleft())
            if serial:
                await started.branch.still()
        self._raise_stopped()

    async def settle(self) -> None:
        """Wait until every child has ended or waits for an answer.

        Raises:
            ControlFlow: a child was stopped.
        """
        await self.start()
        for started in self._started:
            await started.branch.still()
        self._raise_stopped()

    async def deliver(self) -> None:
        """Offer waiting ends of children to the park that is open; at most one is taken."""
        driver = self._driver
        for callback in list(self._callbacks):
            seq = driver.parks.open_seq
            chosen = next((item for item in driver.parks.ways if item.name == callback.launch.on_done), None)
            if seq is None:
                return
            if chosen is None or not self._may_fire(chosen):
                continue
            driver.parks.open_seq = None
            self._callbacks.remove(callback)
            await driver.run.waits.settle(seq, self._resolution(callback, chosen), by="child")
            return

    async def close(self, *, cancel: bool) -> None:
        """End what still runs: children that wait stay open in the journal, the others are cancelled."""
        run = self._driver.run
        for started in self._started:
            if started.task.done() or run.suspended:
                continue  # a suspended run unwinds every branch itself
            started.branch.is_closed = True
            if cancel or started.branch.is_moving:
                started.task.cancel()
            else:
                run.waits.unwind(below=started.launch.scope)
        if self._started:
            await asyncio.wait([started.task for started in self._started])

    def _launch(self, launch: Launch) -> _Started:
        place = self._driver.here()
        branch = Branch(self._driver.run.liveness, place.branch)
        context = copy_context()
        context.run(
            CURRENT_PLACE.set, place.at(branch=branch, attempt=None, span=self._driver.run.next_span())
        )
        task = asyncio.get_running_loop().create_task(self._run(launch, branch), context=context)
        started = _Started(launch, branch, task)
        self._started.append(started)
        return started

    async def _run(self, launch: Launch, branch: Branch) -> None:
        driver = self._driver
        try:
            callback = await self._outcome(launch)
            if launch.on_done is not None and self._id(launch) not in self.consumed:
                self._callbacks.append(callback)
                await self.deliver()
        except ReplayStopped as stopped:
            self._stopped = stopped
            driver.run.waits.unwind()
        except ControlFlow:
            pass  # the run is suspended, or the parent is over: the child stays open
        finally:
            branch.end()

    async def _outcome(self, launch: Launch) -> _Callback:
        run, child = self._driver.run, self._workflow(launch.workflow)
        try:
            data = await run_child(
                run, child, launch.args, None, None, scope=launch.scope, counts_depth=False
            )
        except (asyncio.CancelledError, ControlFlow):
            raise
        except Exception as error:
            return _Callback(launch, "failed", message=exception_text(error))
        return _Callback(launch, "completed", data=data)

    def _workflow(self, name: str) -> Workflow[Any]:
        """Return a child's workflow; one that nobody knows can still be served from the journal."""
        try:
            return self._driver.known_workflow(name) or self._driver.run.engine.workflow_of(name)
        except ConfigError:
            return define_workflow(name, self._unknown(name))

    def _unknown(self, name: str) -> Any:
        run, definition = self._driver.run, self._driver.definition

        async def body(ctx: Any, args: Any) -> None:
            error = ConfigError(
                f"{definition.name!r} has started a child {name!r} that is not known here: list it in "
                f"Engine(workflows=...), or in {definition.machine.__name__}.children",
                data={"field": "workflows", "workflow": name},
            )
            run.stop(error)
            raise ReplayStopped(error)

        return body

    def _may_fire(self, chosen: Transition) -> bool:
        driver = self._driver
        return guard_holds(driver.definition, driver.machine, chosen, driver.progress.state)

    def _resolution(self, callback: _Callback, chosen: Transition) -> dict[str, Any]:
        status, data, message = callback.status, callback.data, callback.message
        if status == "completed" and (problem := payload_problem(chosen, data)) is not None:
            status, data, message = "failed", None, f"the child's result does not fit: {problem}"
        resolution: dict[str, Any] = {
            "transition": chosen.name,
            "status": status,
            "data": data,
            "child": self._id(callback.launch),
            "checked": True,
        }
        if message is not None:
            resolution["message"] = message
        if callback.launch.meta is not None:
            resolution["meta"] = callback.launch.meta
        return resolution

    def _id(self, launch: Launch) -> str:
        return child_id(self._driver.run_id, self._driver.scope, launch.scope)

    def _raise_stopped(self) -> None:
        if self._stopped is not None:
            raise self._stopped
