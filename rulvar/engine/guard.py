"""The determinism guard: notices what a workflow body reads that a replay will not read again.

While a body runs, bare reads of the clock, of chance, of fresh ids and of the environment are noticed
once per site. Steps, tools and library code are free. Nothing is patched: the interpreter's own
instruments do the looking (:mod:`profile_sensor` on Python 3.11, :mod:`monitoring_sensor` later), and
only when the code that the body can reach names such a source at all.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from rulvar.engine.bracket import View, call_in_view
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.engine.callers import author_of, callers_of
from rulvar.engine.ctx import Ctx
from rulvar.engine.guard_policy import GuardPolicy
from rulvar.engine.impurity import Notices, Source, Sources, known_sources
from rulvar.engine.paths import absolute, shown_path
from rulvar.engine.reach import ProjectFiles, Reach, reach_of
from rulvar.errors import DeterminismError

if TYPE_CHECKING:
    from rulvar.engine.run import Run

__all__ = ["Guard", "Watch"]

_MOST_BODIES = 1024


class RunView(View, Protocol):
    """How one run is watched."""

    def inside(self, body: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs a body in view."""

    def ctx(self, run: Run) -> Ctx:
        """Return the ctx of a run that is watched."""


class Sensor(Protocol):
    """The instrument that sees reads."""

    def arm(self, reach: Reach) -> bool:
        """Get ready to watch code; False where nothing can be seen."""

    def view(self, notices: Notices) -> RunView:
        """Return the view of one run, which tells what it sees."""

    def close(self) -> None:
        """Stop watching."""


class Guard:
    """The guard of one engine.

    Args:
        option: the engine's option ``determinism``; None warns.
    """

    def __init__(self, option: GuardPolicy | str | Mapping[str, Any] | None = None) -> None:
        self.policy = GuardPolicy.of(option)
        self.project = ProjectFiles()
        self._sensor: Sensor | None = None
        self._sources: Sources | None = None
        self._reaches: dict[Any, tuple[int, Reach]] = {}

    def watch(self, run: Run, body: Callable[..., Any]) -> None:
        """Look at a body that is about to run in a run; ``run.watch`` is set when it is watched."""
        if self.policy.mode == "off":
            return
        try:
            reach = self._reach(body)
        except Exception as error:  # an object that cannot be looked at must not stop a run
            _say(run, f"the determinism guard cannot look at this workflow: {type(error).__name__}: {error}")
            return
        if not reach.reads:
            return
        sensor = self._sensor = self._sensor or _sensor(self._known_sources())
        if sensor.arm(reach):
            run.watch = run.watch or Watch(self, sensor, run)
        elif run.watch is None:
            _say(run, "the determinism guard sees nothing: another profiler or tool is at work")

    def close(self) -> None:
        """Remove every instrument."""
        if self._sensor is not None:
            self._sensor.close()
            self._sensor = None

    def _reach(self, body: Callable[..., Any]) -> Reach:
        loaded = len(sys.modules)
        known = self._reaches.get(body)
        if known is not None and known[0] == loaded:
            return known[1]
        if len(self._reaches) >= _MOST_BODIES:
            self._reaches.clear()
        reach = reach_of(body, self.project, self._known_sources())
        self._reaches[body] = (loaded, reach)
        return reach

    def _known_sources(self) -> Sources:
        if self._sources is None:
            self._sources = known_sources()
        return self._sources


class Watch:
    """What the guard knows of one run."""

    __slots__ = ("_guard", "_run", "_seen", "_view")

    def __init__(self, guard: Guard, sensor: Sensor, run: Run) -> None:
        self._guard = guard
        self._view = sensor.view(self)
        self._run = run
        self._seen: set[tuple[str, int, str]] = set()

    def inside(self, body: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs workflow code in view."""
        return self._view.inside(body)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the workflow in view."""
        return call_in_view(self._view, function, *args)

    def ctx(self) -> Ctx:
        """Return the run's ctx."""
        return self._view.ctx(self._run)

    def saw(self, source: Source, frame: FrameType) -> None:
        """Take note of a read, once per site, when it is the workflow's own."""
        author = author_of(frame)
        if author is None or not self._guard.project.holds(author.f_code.co_filename):
            return
        site = (author.f_code.co_filename, author.f_lineno, source.code)
        if site in self._seen:
            return
        callers, is_workflow = callers_of(author)
        if not is_workflow:
            return
        self._seen.add(site)
        frames = [frame for frame in callers if self._guard.project.holds(frame.f_code.co_filename)]
        if not self._guard.policy.allows(frames, source):
            self._report(source, absolute(site[0]), site[1])

    def _report(self, source: Source, file: str, line: int) -> None:
        run, shown = self._run, shown_path(file)
        facts = {"file": shown, "line": line, "code": source.code, "message": source.message}
        place = CURRENT_PLACE.get()
        place = place if place is not None and place.run is run else run.root
        run.bus.emit("determinism:warning", place.span, place.around, facts)
        for observer in run.engine.observers:
            with contextlib.suppress(Exception):  # it would surface in the workflow, at the read
                observer.determinism_warning(file, line, source.code, source.message)
        if self._guard.policy.mode == "error":
            message = f"{shown}:{line}: {source.code}: {source.message}"
            run.stop(DeterminismError(message, data={"file": shown, "line": line, "code": source.code}))


def _say(run: Run, message: str) -> None:
    run.bus.emit("log", run.root.span, None, {"level": "warn", "msg": message})


def _sensor(sources: Sources) -> Sensor:
    if sys.version_info >= (3, 12):
        from rulvar.engine.monitoring_sensor import MonitoringSensor

        return MonitoringSensor(sources)
    from rulvar.engine.profile_sensor import ProfileSensor

    return ProfileSensor(sources)
