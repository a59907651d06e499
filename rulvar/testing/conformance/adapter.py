"""What every adapter owes the engine, as a suite.

Cases make a handful of calls of one small request each, so that the suite can also be pointed at a
real provider; against a recording (``replay``) it costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from rulvar.contracts.messages import ChatRequest, Msg
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.stream import (
    TERMINAL_EVENTS,
    ChatEvent,
    Finish,
    StreamError,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rulvar.contracts.usage import usage_violations
from rulvar.testing.cassette_shape import WrongField, check_caps, check_event
from rulvar.testing.recorder import record
from rulvar.testing.replayer import replay

__all__ = ["AdapterConformance", "adapter_conformance"]

_PROMPTLY = 5.0
"""Seconds within which an aborted stream must have ended."""

Case = Callable[[Adapter, ChatRequest], Awaitable[None]]


async def the_id_is_a_name_without_a_colon(adapter: Adapter, request: ChatRequest) -> None:
    """A model reference is split at its first colon."""
    assert isinstance(adapter.id, str), adapter.id
    assert adapter.id, "the id is empty"
    assert ":" not in adapter.id, adapter.id


async def declarations_are_texts_or_absent(adapter: Adapter, request: ChatRequest) -> None:
    """``provider`` and ``usage_semantics`` are recorded as they are declared."""
    for name in ("provider", "usage_semantics"):
        declared = getattr(adapter, name, None)
        assert declared is None or isinstance(declared, str), f"{name}: {declared!r}"


async def capabilities_are_complete(adapter: Adapter, request: ChatRequest) -> None:
    """The engine plans a call by what the model can do."""
    try:
        check_caps(adapter.caps(request.model).to_wire())
    except WrongField as wrong:
        raise AssertionError(str(wrong)) from None


async def capabilities_do_not_change(adapter: Adapter, request: ChatRequest) -> None:
    """One truth per model: a cassette that holds two is refused."""
    assert adapter.caps(request.model) == adapter.caps(request.model)


async def a_stream_is_returned_at_once(adapter: Adapter, request: ChatRequest) -> None:
    """``stream`` is a plain method that returns an async iterator."""
    stream = adapter.stream(request)
    assert hasattr(stream, "__aiter__"), f"stream() returned {type(stream).__name__}"
    await _close(stream)


async def a_stream_ends_with_its_only_terminal_event(adapter: Adapter, request: ChatRequest) -> None:
    """Finish or error, exactly one, and nothing after it."""
    events = await _drain(adapter.stream(request))
    terminals = [event for event in events if isinstance(event, TERMINAL_EVENTS)]
    assert len(terminals) == 1, f"{len(terminals)} terminal events"
    assert events[-1] is terminals[0], "something comes after the terminal event"


async def events_are_of_the_vocabulary(adapter: Adapter, request: ChatRequest) -> None:
    """Every event has the fields of its type."""
    for index, event in enumerate(await _drain(adapter.stream(request))):
        try:
            check_event(event.to_wire(), f"events[{index}]")
        except WrongField as wrong:
            raise AssertionError(str(wrong)) from None


async def usage_keeps_its_rules(adapter: Adapter, request: ChatRequest) -> None:
    """Token counts are accounted with."""
    last = (await _drain(adapter.stream(request)))[-1]
    if isinstance(last, Finish):
        assert usage_violations(last.usage) == []


async def tool_calls_are_whole(adapter: Adapter, request: ChatRequest) -> None:
    """Every call starts, ends, and keeps its own id; deltas belong to an open call."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for event in await _drain(adapter.stream(request)):
        if isinstance(event, ToolCallStart):
            assert event.id not in seen, f"the id {event.id} is used twice"
            open_calls.add(event.id)
            seen.add(event.id)
        elif isinstance(event, (ToolCallDelta, ToolCallEnd)):
            assert event.id in open_calls, f"{type(event).__name__} of a call that is not open: {event.id}"
            if isinstance(event, ToolCallEnd):
                open_calls.discard(event.id)
    assert not open_calls, f"calls without an end: {sorted(open_calls)}"


async def an_abort_on_arrival_yields_nothing(adapter: Adapter, request: ChatRequest) -> None:
    """A request whose signal is set already is not served."""
    signal = asyncio.Event()
    signal.set()
    events = await asyncio.wait_for(_drain(adapter.stream(request, signal)), _PROMPTLY)
    assert not any(isinstance(event, TERMINAL_EVENTS) for event in events), (
        "an aborted stream has no terminal"
    )


async def an_abort_ends_the_stream_promptly(adapter: Adapter, request: ChatRequest) -> None:
    """No terminal event follows an abort."""
    signal = asyncio.Event()
    stream = adapter.stream(request, signal)
    first = await anext(aiter(stream), None)
    if first is None or isinstance(first, TERMINAL_EVENTS):
        return
    signal.set()
    rest = await asyncio.wait_for(_drain(stream), _PROMPTLY)
    assert not any(isinstance(event, TERMINAL_EVENTS) for event in rest), "an aborted stream has no terminal"


async def a_stream_may_be_left_early(adapter: Adapter, request: ChatRequest) -> None:
    """A consumer that stops reading leaves nothing broken behind."""
    stream = adapter.stream(request)
    await anext(aiter(stream), None)
    await _close(stream)
    assert await _drain(adapter.stream(request))


async def concurrent_calls_do_not_mix(adapter: Adapter, request: ChatRequest) -> None:
    """Two calls at once each get a whole stream."""
    for events in await asyncio.gather(*(_drain(adapter.stream(request)) for _ in range(2))):
        assert isinstance(events[-1], TERMINAL_EVENTS)


async def an_exchange_survives_recording_and_replay(adapter: Adapter, request: ChatRequest) -> None:
    """What a cassette serves is what was seen, masked text apart."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tape.jsonl")
        with record(adapters=[adapter], cassette=path) as recorded:
            seen = await _drain(recorded[0].stream(request))
            masked = recorded.masked
            assert not recorded.left_out, recorded.left_out[0].reason
        [replayed] = replay(cassette=path)
        served = await _drain(replayed.stream(request))
    assert len(served) == len(seen)
    assert masked or [event.to_wire() for event in served] == [event.to_wire() for event in seen]


CASES: tuple[Case, ...] = (
    the_id_is_a_name_without_a_colon,
    declarations_are_texts_or_absent,
    capabilities_are_complete,
    capabilities_do_not_change,
    a_stream_is_returned_at_once,
    a_stream_ends_with_its_only_terminal_event,
    events_are_of_the_vocabulary,
    usage_keeps_its_rules,
    tool_calls_are_whole,
    an_abort_on_arrival_yields_nothing,
    an_abort_ends_the_stream_promptly,
    a_stream_may_be_left_early,
    concurrent_calls_do_not_mix,
    an_exchange_survives_recording_and_replay,
)


def adapter_conformance(
    adapter: Adapter | Callable[[], Adapter], request: ChatRequest | None = None
) -> list[Callable[[], None]]:
    """Return the cases as functions without arguments, for ``pytest.mark.parametrize``.

    Args:
        adapter: the adapter, or a function that makes one per case.
        request: a small request; a one-line prompt to the model ``model`` unless given.
    """
    asked = request or ChatRequest(model="model", messages=(Msg.text("user", "Reply with the word ok."),))
    return [_bound(case, adapter, asked) for case in CASES]


class AdapterConformance:
    """The suite: subclass it as ``TestSomething`` and say how to make the adapter.

    ::

        class TestMyAdapter(AdapterConformance):
            def make_adapter(self):
                return MyAdapter()

    Override ``make_request`` for a real model, and ``make_failing_request`` to have failures checked.
    """

    def make_adapter(self) -> Adapter:
        """Return the adapter under test; called once per case."""
        raise NotImplementedError("make_adapter: return the adapter under test")

    def make_request(self) -> ChatRequest:
        """Return a small request that the adapter answers."""
        return ChatRequest(model="model", messages=(Msg.text("user", "Reply with the word ok."),))

    def make_failing_request(self) -> ChatRequest | None:
        """Return a request that the provider refuses, or None when there is none to try."""
        return None

    def secrets(self) -> Iterable[str]:
        """Return texts that must not stand in an error, such as the key in use."""
        return ()

    def check(self, case: Case) -> None:
        """Run one case."""
        asyncio.run(_run(case, self.make_adapter(), self.make_request()))

    def test_the_id_is_a_name_without_a_colon(self) -> None:
        self.check(the_id_is_a_name_without_a_colon)

    def test_declarations_are_texts_or_absent(self) -> None:
        self.check(declarations_are_texts_or_absent)

    def test_capabilities_are_complete(self) -> None:
        self.check(capabilities_are_complete)

    def test_capabilities_do_not_change(self) -> None:
        self.check(capabilities_do_not_change)

    def test_a_stream_is_returned_at_once(self) -> None:
        self.check(a_stream_is_returned_at_once)

    def test_a_stream_ends_with_its_only_terminal_event(self) -> None:
        self.check(a_stream_ends_with_its_only_terminal_event)

    def test_events_are_of_the_vocabulary(self) -> None:
        self.check(events_are_of_the_vocabulary)

    def test_usage_keeps_its_rules(self) -> None:
        self.check(usage_keeps_its_rules)

    def test_tool_calls_are_whole(self) -> None:
        self.check(tool_calls_are_whole)

    def test_an_abort_on_arrival_yields_nothing(self) -> None:
        self.check(an_abort_on_arrival_yields_nothing)

    def test_an_abort_ends_the_stream_promptly(self) -> None:
        self.check(an_abort_ends_the_stream_promptly)

    def test_a_stream_may_be_left_early(self) -> None:
        self.check(a_stream_may_be_left_early)

    def test_concurrent_calls_do_not_mix(self) -> None:
        self.check(concurrent_calls_do_not_mix)

    def test_an_exchange_survives_recording_and_replay(self) -> None:
        self.check(an_exchange_survives_recording_and_replay)

    def test_a_failure_is_a_typed_event_without_secrets(self) -> None:
        request = self.make_failing_request()
        if request is None:
            return
        events = asyncio.run(_run(_drained, self.make_adapter(), request))
        last = events[-1] if events else None
        assert isinstance(last, StreamError), f"a refused request ended in {last!r}"
        for secret in self.secrets():
            assert secret not in repr(last.to_wire()), "the error holds a secret"


async def _drained(adapter: Adapter, request: ChatRequest) -> list[ChatEvent]:
    return await _drain(adapter.stream(request))


async def _drain(stream: Any) -> list[ChatEvent]:
    return [event async for event in stream]


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def _run(case: Callable[..., Awaitable[Any]], adapter: Adapter, request: ChatRequest) -> Any:
    try:
        return await case(adapter, request)
    finally:
        close = getattr(adapter, "aclose", None)
        if close is not None:
            with contextlib.suppress(Exception):
                await close()


def _bound(case: Case, adapter: Adapter | Callable[[], Adapter], request: ChatRequest) -> Callable[[], None]:
    def run() -> None:
        subject = adapter if isinstance(adapter, Adapter) else adapter()
        asyncio.run(_run(case, subject, request))

    run.__name__ = getattr(case, "__name__", "case")
    return run
