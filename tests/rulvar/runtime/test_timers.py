"""Timeouts of one length share one timer of the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from typing import Any

import pytest

from rulvar.runtime.timers import Timers


async def test_timeouts_come_due_in_the_order_of_their_times() -> None:
    timers, rung = Timers(), []
    timers.later(0.03, lambda: rung.append("late"))
    timers.later(0.01, lambda: rung.append("early"))
    timers.later(0.03, lambda: rung.append("last"))
    await asyncio.sleep(0.06)
    assert rung == ["early", "late", "last"]


async def test_one_that_was_forgotten_never_comes_due() -> None:
    timers, rung = Timers(), []
    first = timers.later(0.01, lambda: rung.append("first"))
    timers.later(0.01, lambda: rung.append("second"))
    first()
    first()
    await asyncio.sleep(0.03)
    assert rung == ["second"]


async def test_one_that_is_forgotten_by_another_that_comes_due_with_it_does_not_come_due() -> None:
    timers, rung = Timers(), []
    timers.later(0.01, lambda: forget())
    forget = timers.later(0.01, lambda: rung.append("second"))
    await asyncio.sleep(0.03)
    assert rung == []


async def test_a_queue_that_has_run_empty_serves_the_next_timeout() -> None:
    timers, rung = Timers(), []
    for number in range(3):
        timers.later(0.01, lambda number=number: rung.append(number))
        await asyncio.sleep(0.03)
    assert rung == [0, 1, 2]


async def test_a_callback_may_set_the_next_one() -> None:
    timers, done = Timers(), asyncio.Event()
    timers.later(0.01, lambda: timers.later(0.01, done.set))
    await asyncio.wait_for(done.wait(), 1)


async def test_a_callback_that_raises_takes_no_other_with_it() -> None:
    timers, done, told = Timers(), asyncio.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context["exception"]))

    def fail() -> None:
        raise ValueError("mine")

    timers.later(0.01, fail)
    timers.later(0.01, done.set)
    await asyncio.wait_for(done.wait(), 1)
    assert [str(error) for error in told] == ["mine"]


async def test_a_thousand_timeouts_cost_the_loop_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers, armed = asyncio.get_running_loop(), Timers(), []
    call_at = loop.call_at

    def counted(when: float, *args: Any, **options: Any) -> Any:
        armed.append(when)
        return call_at(when, *args, **options)

    monkeypatch.setattr(loop, "call_at", counted)
    for _ in range(1_000):
        timers.later(60, lambda: None)()
    assert len(armed) == 1


def test_each_event_loop_has_its_own_and_takes_them_with_it() -> None:
    timers, rung = Timers(), []

    async def leave_one() -> weakref.ref[Any]:
        timers.later(60, lambda: rung.append("of a loop that is over"))
        return weakref.ref(asyncio.get_running_loop())

    async def use_another() -> None:
        timers.later(0.01, lambda: rung.append("of the second"))
        await asyncio.sleep(0.03)

    first = asyncio.run(leave_one())
    asyncio.run(use_another())
    gc.collect()
    assert rung == ["of the second"]
    assert first() is None


async def test_a_timeout_holds_nothing_of_the_context_that_it_was_set_in() -> None:
    class Thing:
        pass

    holder: contextvars.ContextVar[Any] = contextvars.ContextVar("holder")
    timers = Timers()

    def set_and_forget() -> weakref.ref[Any]:
        thing = Thing()
        holder.set(thing)
        timers.later(60, lambda: thing)()
        return weakref.ref(thing)

    kept = contextvars.copy_context().run(set_and_forget)
    gc.collect()
    assert kept() is None
