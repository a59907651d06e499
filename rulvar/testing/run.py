"""A run of a workflow in a test: what it came to, and everything it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rulvar.contracts.outcome import Outcome
from rulvar.contracts.stream import WireError
from rulvar.machines.app import Apps
from rulvar.machines.park_view import ParkView, park_view
from rulvar.machines.recording import ToolFixture
from rulvar.machines.trace import TraceEvent
from rulvar.machines.view import RunView
from rulvar.testing.leftover_answers import warn_of

if TYPE_CHECKING:
    from rulvar.testing.machine import TestBench

__all__ = ["TestRun"]


@dataclass(slots=True, kw_only=True)
class TestRun:
    """A run that has ended or waits; nothing of it is running any more.

    Attributes:
        outcome: how it ended, as the engine tells; ``status`` below says where it is in its life.
        view: the run tree, folded from the journal.
        error: why it failed, or why an answer was refused; None otherwise.
        exception: what a body or a tool raised; never journaled.
        recordings: what was recorded, when the run was told to.
    """

    __test__ = False

    outcome: Outcome
    view: RunView
    bench: TestBench
    error: WireError | None = None
    exception: BaseException | None = None
    recordings: ToolFixture | None = None
    _prompt: list[ParkView | None] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.view.run_id

    @property
    def status(self) -> str:
        """``completed``, ``waiting``, ``failed`` or ``cancelled``."""
        return self.view.status

    @property
    def place(self) -> str | None:
        """Where a state machine stands."""
        return self.view.place

    @property
    def path(self) -> list[str]:
        """Names of the transitions that ran, one per attempt."""
        return self.view.path

    @property
    def state(self) -> dict[str, Any]:
        """The state of a state machine."""
        return self.view.state

    @property
    def result(self) -> Any:
        """The result; of a state machine it may be there before the end."""
        return self.view.result

    @property
    def documents(self) -> list[Any]:
        """The documents that are there, in order."""
        return list(self.view.documents)

    @property
    def children(self) -> list[RunView]:
        """The children, each with children of its own."""
        return self.view.children

    @property
    def trace(self) -> list[TraceEvent]:
        """What the run did; children have traces of their own."""
        return self.view.trace

    @property
    def tool_calls(self) -> list[TraceEvent]:
        """The tool calls that are over, completed or failed."""
        return self.view.tool_calls

    @property
    def available_transitions(self) -> list[str]:
        """Names of the transitions that may be answered."""
        return self.view.available_transitions

    def document(self, name_or_key: str) -> Any:
        """Return the content of the latest document of that name or key, or None."""
        return self.view.document(name_or_key)

    def park_view(self) -> ParkView | None:
        """Return what a person would see; None when nobody can answer anything."""
        if not self._prompt:
            self._prompt.append(park_view(self.view, Apps((*self.bench.apps, *self.bench.builtin_apps()))))
        return self._prompt[0]

    async def answer(self, transition: str, data: Any = None) -> TestRun:
        """Answer a transition that is offered, let the run go on, and return it as it then is.

        Raises:
            ResolutionError: nothing offers that transition, or the answer is refused.
        """
        await self.bench.answer(transition, data)
        return await self.bench.go_on(None)

    async def resume(self, answers: Mapping[str, Any] | None = None) -> TestRun:
        """Resume the run, with scripted answers, and return it as it then is."""
        run = await self.bench.go_on(answers)
        warn_of(self.bench.leftovers, stacklevel=2)
        return run
