"""Notices impure reads with a profile function that is on only while a workflow's own code runs.

For Python 3.11. The profile function of a thread sees every call that is made in it, so it is
switched off around whatever the engine does: the methods of ``ctx``, and what is awaited from them.
The code between two switches is written out flat, because every call in it is itself profiled.
A task that the workflow makes is its code, too: while it runs, the loop makes tasks that run in view.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from sys import getprofile, setprofile
from types import CoroutineType, FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

from rulvar.engine.bracket import Bracket
from rulvar.engine.ctx import Ctx
from rulvar.engine.impurity import Notices, Sources, environment_reader
from rulvar.engine.own_tasks import OwnTasks
from rulvar.engine.reach import Reach

if TYPE_CHECKING:
    from rulvar.contracts.ports.observer import CallSite
    from rulvar.engine.run import Run

__all__ = ["ProfileSensor"]


class ProfileSensor:
    """Sees the calls of one engine's workflows."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def arm(self, reach: Reach) -> bool:
        """Get ready to watch code; False where nothing can be seen, because a profiler is at work."""
        return getprofile() is None

    def view(self, notices: Notices) -> _View:
        """Return the switch of one run."""
        return _View(self._sources, notices)

    def close(self) -> None:
        """There is nothing to undo: outside a body nothing is installed."""


class _View:
    """The profile function of one run, and whether it is on."""

    __slots__ = ("hook", "on", "tasks")

    def __init__(self, sources: Sources, notices: Notices) -> None:
        self.hook = _hook(sources, notices)
        self.on = False
        self.tasks = _SeenTasks(self.inside, self)

    def inside(self, body: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs a body in view."""
        return _Seen(body, self)

    def ctx(self, run: Run) -> Ctx:
        """Return a ctx whose calls run out of view."""
        return _UnseenCtx(run, self)

    def enter(self) -> bool | None:
        """Begin to look, unless whoever is further out has."""
        if self.on:
            return None
        was_told = self.tasks.begin_step()
        self.switch_on()
        return was_told

    def leave(self, before: bool | None) -> None:
        """Look no more."""
        if before is not None:
            self.switch_off()
            self.tasks.end_step(before)

    def switch_on(self) -> None:
        """Install the profile function, unless somebody has installed another one meanwhile."""
        if getprofile() is None:
            self.on = True
            setprofile(self.hook)

    def switch_off(self) -> None:
        """Take the profile function away, unless somebody has replaced it."""
        if getprofile() is self.hook:
            setprofile(None)
        self.on = False


class _SeenTasks(OwnTasks):
    """Makes tasks: out of view itself, as every call that it makes would be profiled."""

    def __init__(self, watch: Callable[[Any], Any], view: _View) -> None:
        super().__init__(watch)
        self._view = view

    def make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        view = self._view
        if not view.on:
            return self.make_plain(loop, coroutine, **options)
        view.switch_off()
        try:
            seen = self.watch(coroutine) if type(coroutine) is CoroutineType else coroutine
            return self.make_plain(loop, seen, **options)
        finally:
            view.switch_on()


class _Seen(Bracket):
    """Runs steps in view."""

    __slots__ = ()

    def send(self, value: Any) -> Any:
        """Run one step; as the bracket does, in as few calls as it takes."""
        view, loop = self._view, asyncio.get_running_loop()
        tasks, hook, before = view.tasks, view.hook, loop.get_task_factory()
        if view.on or before is tasks.factory or getprofile() is not None:
            return super().send(value)
        tasks.host_factory = before
        loop.set_task_factory(tasks.factory)
        view.on = True
        setprofile(hook)
        try:
            return self._steps.send(value)
        finally:
            if getprofile() is hook:
                setprofile(None)
            view.on = False
            if loop.get_task_factory() is tasks.factory:
                loop.set_task_factory(before)


class _Unseen(Coroutine[Any, Any, Any]):
    """Runs steps out of view."""

    __slots__ = ("_send", "_steps", "_view")

    def __init__(self, steps: CoroutineType[Any, Any, Any], view: _View) -> None:
        self._steps = steps
        self._send = steps.send
        self._view = view

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        view = self._view
        if not view.on:
            return self._send(None)
        setprofile(None)
        view.on = False
        try:
            return self._send(None)
        finally:
            if getprofile() is None:
                view.on = True
                setprofile(view.hook)

    def send(self, value: Any) -> Any:
        """Run one step."""
        return self._out_of_view(self._send, value)

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:
        """Run one step that begins with an exception."""
        error = kind if isinstance(kind, BaseException) else kind() if value is None else value
        return self._out_of_view(self._steps.throw, error)

    def close(self) -> None:
        """End the coroutine where it stands."""
        self._out_of_view(self._steps.close)

    def _out_of_view(self, step: Callable[..., Any], *args: Any) -> Any:
        view = self._view
        if not view.on:
            return step(*args)
        view.switch_off()
        try:
            return step(*args)
        finally:
            view.switch_on()


class _UnseenCtx(Ctx):
    """A ctx that works out of view."""

    __slots__ = ("_view",)

    def __init__(self, run: Run, view: _View) -> None:
        super().__init__(run)
        self._view = view

    def _site(self) -> CallSite | None:
        return None if self._finder is None else self._finder.caller(3)


def _unseen(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: _UnseenCtx, *args: Any, **kwargs: Any) -> Any:
        view = self._view
        before = view.on
        if before:
            setprofile(None)
            view.on = False
        try:
            result = method(self, *args, **kwargs)
            return _Unseen(result, view) if type(result) is CoroutineType else result
        finally:
            if before and getprofile() is None:
                view.on = True
                setprofile(view.hook)

    return call


for _name, _method in vars(Ctx).items():
    if isinstance(_method, FunctionType) and not _name.startswith("_"):
        setattr(_UnseenCtx, _name, _unseen(_method))


def _hook(sources: Sources, notices: Notices) -> Callable[[FrameType, str, Any], None]:
    codes, callables = sources.codes, sources.by_callable

    def hook(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            if called in callables or isinstance(
                called.__self__, type
            ):  # one glance: most calls are of no interest
                source = sources.find(called)
                if source is not None and source.is_read_at(frame.f_code, frame.f_lasti):
                    notices.saw(source, frame)
        elif event == "call" and frame.f_code in codes:
            source, caller = sources.entered(frame), frame.f_back
            if source is sources.environ:
                caller = environment_reader(frame)
            if source is not None and caller is not None:
                notices.saw(source, caller)

    return hook
