"""Rules that only show when a provider plays along: tool calls, failures, answers that never end.

They stand beside ``AdapterConformance``, whose cases need one small request. Here the adapter's
transport plays a scene::

    def make(scene):
        return MyAdapter(transport=playing(scene))

    @pytest.mark.parametrize("case", adapter_scenes(make, model="my-model"), ids=str)
    async def test_my_adapter_plays_its_scenes(case):
        await case.check()

``make`` returns a new adapter whose next exchanges play a scene: ``"text"`` answers with some text,
``"tool-call"`` calls the tool ``probe`` with arguments of its choice, ``"failure"`` fails as the provider
does when it is out of order, and ``"endless"`` begins to answer and never ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.messages import ChatRequest, Msg, ToolCallPart, ToolContract, ToolResultPart
from rulvar.contracts.stream import (
    TERMINAL_EVENTS,
    ChatEvent,
    Finish,
    StreamError,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rulvar.errors import ConfigError

__all__ = ["SCENES", "SceneCase", "adapter_scenes"]

Scene = Literal["text", "tool-call", "failure", "endless"]
SCENES: tuple[Scene, ...] = ("text", "tool-call", "failure", "endless")
PROMPT_S = 2.0
"""How long an aborted exchange may take to end, in seconds."""
_KINDS = frozenset({"transport", "rate-limit", "schema-mismatch", "tool", "budget", "terminal"})
_PROBE = ToolContract(
    name="probe",
    description="Probe a value.",
    parameters={
        "type": "object",
        "properties": {"value": {"type": "string"}},
        "required": ["value"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True, slots=True)
class SceneCase:
    """One rule, against one adapter.

    Attributes:
        name: the rule, as a sentence.
        scene: what the adapter plays.
    """

    name: str
    scene: Scene
    make: Callable[[Scene], Any]
    model: str
    rule: Callable[[Any, str], Awaitable[None]]

    async def check(self) -> None:
        """Check the rule.

        Raises:
            AssertionError: the adapter breaks it; the message says how.
        """
        adapter = self.make(self.scene)
        try:
            await self.rule(adapter, self.model)
        finally:
            close = getattr(adapter, "aclose", None)
            if close is not None:
                await close()

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def adapter_scenes(
    make: Callable[[Scene], Any], *, model: str = "model", scenes: Iterable[Scene] = SCENES
) -> list[SceneCase]:
    """Return the cases for an adapter.

    Args:
        make: returns a new adapter that plays a scene.
        model: the model that is asked.
        scenes: which scenes can be played.

    Raises:
        ConfigError: an unknown scene, or ``make`` is no function.
    """
    if not callable(make):
        raise ConfigError("adapter_scenes: expected a function of the scene that makes an adapter")
    played = tuple(scenes)
    unknown = sorted(set(played) - set(SCENES))
    if unknown:
        raise ConfigError(f"adapter_scenes: scene {unknown[0]!r}; use {', '.join(SCENES)}")
    return [SceneCase(name, scene, make, model, rule) for name, scene, rule in _RULES if scene in played]


def _ask(model: str, text: str = "Say something short.", **fields: Any) -> ChatRequest:
    return ChatRequest(model=model, messages=(Msg.text("user", text),), max_output_tokens=64, **fields)


async def _events(adapter: Any, request: ChatRequest, signal: asyncio.Event | None = None) -> list[ChatEvent]:
    return [event async for event in adapter.stream(request, signal)]


async def _drain(adapter: Any, request: ChatRequest) -> list[ChatEvent]:
    events = await _events(adapter, request)
    assert events, "an exchange without any event"
    return events


# -- rules on the adapter itself -------------------------------------------------------------


# -- rules on answers ------------------------------------------------------------------------


async def _text(adapter: Any, model: str) -> None:
    events = await _drain(adapter, _ask(model))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text, "an answer of text without a text-delta"


async def _untouched(adapter: Any, model: str) -> None:
    request = _ask(
        model, tools=(_PROBE,), provider_options={"elsewhere": {"a": [1]}, "rulvar": {"label": "x"}}
    )
    before = json.dumps(request.to_wire())
    await _drain(adapter, request)
    assert json.dumps(request.to_wire()) == before, "the request was changed"


async def _history(adapter: Any, model: str) -> None:
    call = ToolCallPart(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", name="probe", args={"value": "1"})
    result = ToolResultPart(id=call.id, name="probe", result={"found": True})
    messages = (
        Msg.text("system", "Be brief."),
        Msg.text("user", "Probe 1."),
        Msg(role="assistant", parts=(call,)),
        Msg(role="tool", parts=(result,)),
    )
    events = await _drain(adapter, ChatRequest(model=model, messages=messages, tools=(_PROBE,)))
    assert isinstance(events[-1], Finish), "a conversation with tool calls is refused"


async def _twice(adapter: Any, model: str) -> None:
    for _ in range(2):
        assert isinstance((await _drain(adapter, _ask(model)))[-1], Finish), "the second exchange failed"


# -- rules on aborts -------------------------------------------------------------------------


async def _aborted_midway(adapter: Any, model: str) -> None:
    signal = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, signal.set)
    try:
        async with asyncio.timeout(PROMPT_S):
            events = await _events(adapter, _ask(model), signal)
    except TimeoutError:
        raise AssertionError(f"an abort did not end the exchange within {PROMPT_S} s") from None
    terminals = [event for event in events if isinstance(event, TERMINAL_EVENTS)]
    assert not terminals, "an aborted exchange has a terminal event"
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling(), "an aborted exchange leaves its task cancelled"


async def _cancelled(adapter: Any, model: str) -> None:
    task = asyncio.ensure_future(_events(adapter, _ask(model), asyncio.Event()))
    await asyncio.sleep(0.05)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=PROMPT_S)
    assert done, f"a cancelled exchange did not end within {PROMPT_S} s"
    assert task.cancelled(), "a cancelled exchange swallows its cancellation"


# -- rules on tool calls ---------------------------------------------------------------------


async def _calls_in_order(adapter: Any, model: str) -> None:
    events = await _drain(adapter, _ask(model, "Probe 1.", tools=(_PROBE,)))
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    assert starts, "no tool call"
    assert len({event.id for event in starts}) == len(starts), "two tool calls share an id"
    for start in starts:
        assert start.id, "a tool call without an id"
        assert start.name == "probe", f"the tool call names {start.name!r}"
        kinds = [type(event) for event in events if getattr(event, "id", None) == start.id]
        assert kinds[0] is ToolCallStart, "a tool call does not begin with its start"
        assert kinds[-1] is ToolCallEnd, "a tool call does not end with its end"
        assert set(kinds[1:-1]) <= {ToolCallDelta}, (
            "something else stands between start and end of a tool call"
        )
    finish = events[-1]
    assert isinstance(finish, Finish), "an answer with tool calls did not finish"
    assert finish.finish.reason == "tool-calls", (
        f"an answer with tool calls finished with {finish.finish.reason!r}"
    )


async def _arguments(adapter: Any, model: str) -> None:
    events = await _drain(adapter, _ask(model, "Probe 1.", tools=(_PROBE,)))
    for end in (event for event in events if isinstance(event, ToolCallEnd)):
        assert isinstance(end.args, dict), "the arguments are no object"
        text = "".join(e.args_text_delta for e in events if isinstance(e, ToolCallDelta) and e.id == end.id)
        assert not text or json.loads(text) == end.args, "the pieces of the arguments are not the arguments"


# -- rules on failures -----------------------------------------------------------------------


async def _failure_is_an_event(adapter: Any, model: str) -> None:
    try:
        events = await _drain(adapter, _ask(model))
    except Exception as error:
        raise AssertionError(f"a failure of the provider was raised: {type(error).__name__}") from error
    terminals = [event for event in events if isinstance(event, TERMINAL_EVENTS)]
    assert len(terminals) == 1, f"{len(terminals)} terminal events"
    assert isinstance(events[-1], StreamError), "a failure that is no error event, or not the last"


async def _failure_is_told(adapter: Any, model: str) -> None:
    last = (await _drain(adapter, _ask(model)))[-1]
    assert isinstance(last, StreamError), "no error event"
    error = last.error
    assert error.code, "an error without a code"
    assert error.message, "an error without a text"
    kind = (error.data or {}).get("kind")
    assert kind in _KINDS, f"data.kind is {kind!r}; use one of {', '.join(sorted(_KINDS))}"
    json.dumps(error.to_wire())
    wait = (error.data or {}).get("retryAfterMs")
    assert wait is None or (isinstance(wait, (int, float)) and wait >= 0), "retryAfterMs is no time"


_RULES: tuple[tuple[str, Scene, Callable[[Any, str], Awaitable[None]]], ...] = (
    ("a text comes in text deltas", "text", _text),
    ("the request is left as it is", "text", _untouched),
    ("a conversation with tool calls is taken", "text", _history),
    ("an adapter answers again and again", "text", _twice),
    ("an abort ends an exchange promptly without a terminal event", "endless", _aborted_midway),
    ("a cancelled exchange ends and stays cancelled", "endless", _cancelled),
    ("tool calls start and end in order", "tool-call", _calls_in_order),
    ("the pieces of the arguments are the arguments", "tool-call", _arguments),
    ("a failure of the provider is an event", "failure", _failure_is_an_event),
    ("a failure says what it is", "failure", _failure_is_told),
)
