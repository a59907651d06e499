"""Notices impure reads with ``sys.monitoring``, in the code of the project and nowhere else.

For Python 3.12 and later. Events are asked for per code object. A call site that calls something
harmless is switched off for good, so that watched code runs at full speed after its first time.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from rulvar.engine.bracket import Bracket
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.engine.ctx import Ctx
from rulvar.engine.impurity import Notices, Sources, environment_reader
from rulvar.engine.own_tasks import OwnTasks
from rulvar.engine.reach import Reach

if TYPE_CHECKING:
    from rulvar.engine.run import Run

__all__ = ["MonitoringSensor"]

_TOOL_NAME = "rulvar"
_TOOL_IDS = (4, 3, 2, 5)
"""Free ids first, that of Hypothesis (3) after the other; debuggers (0) and coverage (1) keep theirs."""

_MONITORING: Any = getattr(sys, "monitoring", None)  # absent before 3.12, where this module is not used


class MonitoringSensor:
    """Sees the calls of one engine's workflows; forgets them when it is closed or collected."""

    def __init__(self, sources: Sources) -> None:
        self._armed: dict[CodeType, None] = {}
        self._lost = weakref.finalize(self, _TOOL.lose, self._armed)
        self._lost.atexit = False
        _TOOL.use(sources)

    def arm(self, reach: Reach) -> bool:
        """Get ready to watch code; False where nothing can be seen, because every tool id is taken."""
        fresh = [code for code in reach.codes if code not in self._armed]
        if not _TOOL.arm(fresh):
            return False
        self._armed.update(dict.fromkeys(fresh))
        return True

    def view(self, notices: Notices) -> _View:
        """Return the view of one run."""
        return _View()

    def close(self) -> None:
        """Stop watching."""
        self._lost.detach()
        _TOOL.disarm(self._armed)
        self._armed.clear()


class _View:
    """How one run is watched: its code is marked on the stack, and that is all."""

    __slots__ = ("tasks",)

    def __init__(self) -> None:
        self.tasks = OwnTasks(self.inside)

    def inside(self, body: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs a body in view."""
        return Bracket(body, self)

    def enter(self) -> bool:
        """Mark the stack."""
        return self.tasks.begin_step()

    def leave(self, before: bool) -> None:
        """Take the mark away."""
        self.tasks.end_step(before)

    def ctx(self, run: Run) -> Ctx:
        """Return a ctx: an ordinary one."""
        return Ctx(run)


class _Tool:
    """rulvar's place among the tools of ``sys.monitoring``, which the whole process shares."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._id: int | None = None
        self._users: Counter[CodeType] = Counter()
        self._lost: deque[Iterable[CodeType]] = deque()
        self._sources: Sources | None = None

    def use(self, sources: Sources) -> None:
        """Take a newer table of sources: more modules are loaded by now."""
        self._sources = sources

    def lose(self, codes: Iterable[CodeType]) -> None:
        """Hear that a sensor was collected; nothing is done now, as a lock may be held."""
        self._lost.append(codes)

    def arm(self, codes: Sequence[CodeType]) -> bool:
        """Ask for the events of code objects; False when every tool id is taken."""
        while self._lost:
            self.disarm(self._lost.popleft())
        with self._lock:
            if self._id is None and not self._register():
                return False
            events = _MONITORING.events
            assert self._id is not None
            for code in codes:
                if not self._users[code]:
                    _MONITORING.set_local_events(self._id, code, events.CALL)
                self._users[code] += 1
        return True

    def disarm(self, codes: Iterable[CodeType]) -> None:
        """Give code objects back; with the last one, the tool id."""
        with self._lock:
            for code in codes:
                self._users[code] -= 1
                if not self._users[code]:
                    del self._users[code]
                    assert self._id is not None
                    _MONITORING.set_local_events(self._id, code, 0)
            if not self._users and self._id is not None:
                self._unregister(self._id)

    def _register(self) -> bool:
        monitoring = _MONITORING
        assert self._sources is not None
        for candidate in _TOOL_IDS:
            try:
                monitoring.use_tool_id(candidate, _TOOL_NAME)
            except ValueError:
                continue
            self._id = candidate
            monitoring.register_callback(candidate, monitoring.events.CALL, self._called)
            monitoring.register_callback(candidate, monitoring.events.PY_START, self._environment_read)
            for code in self._sources.environ_codes:
                monitoring.set_local_events(candidate, code, monitoring.events.PY_START)
            return True
        return False

    def _unregister(self, tool: int) -> None:
        monitoring = _MONITORING
        assert self._sources is not None
        for code in self._sources.environ_codes:
            monitoring.set_local_events(tool, code, 0)
        for event in (monitoring.events.CALL, monitoring.events.PY_START):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._id = None

    def _called(self, code: CodeType, offset: int, called: Any, first: Any) -> Any:
        assert self._sources is not None
        source = self._sources.find(called, first)
        if source is None or not source.is_read_at(code, offset):
            return _MONITORING.DISABLE
        notices = _listener()
        if notices is not None:
            notices.saw(source, sys._getframe(1))
        return None

    def _environment_read(self, code: CodeType, offset: int) -> None:
        notices = _listener()
        if notices is not None:
            assert self._sources is not None
            reader = environment_reader(sys._getframe(1))
            if reader is not None:
                notices.saw(self._sources.environ, reader)


def _listener() -> Notices | None:
    """Return who wants to know what the current code reads."""
    place = CURRENT_PLACE.get()
    if place is None or place.step is not None:
        return None
    watch: Notices | None = place.run.watch
    return watch


_TOOL = _Tool()
