"""A scripted model for agents: it plays back the answers of a test, in order, with what they cost.

A step is a final answer, ``{"type": "final", "output": ..., "usage": {"cost_micros": 0}}``, tool calls,
``{"type": "tool_calls", "calls": [{"id", "tool_id", "input"}], "usage": {...}}``, anything else that a
:class:`~rulvar.testing.FakeAdapter` may answer with, or a function, plain or async, of a
:class:`ScriptedRequest` that returns one of these. ``final`` and ``tool_calls`` write the first two.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.adapters.acceptance import check_media
from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.messages import (
    ChatRequest,
    ImagePart,
    Msg,
    TextPart,
    ToolCallPart,
    ToolContract,
    ToolResultPart,
)
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.stream import (
    ChatEvent,
    Finish,
    FinishInfo,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import ConfigError, ModelFailedError
from rulvar.testing.fake import FakeAdapter, FakeStream, answer_events
from rulvar.testing.responders import FakeCall
from rulvar.testing.script_steps import check_step, check_steps, is_envelope

__all__ = ["ScriptedMessage", "ScriptedModel", "ScriptedRequest", "final", "scripted_model", "tool_calls"]

ALL_MEDIA = ("",)
"""Stands for every media type."""
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class ScriptedMessage:
    """One message that a scripted step sees.

    Attributes:
        role: user, assistant or tool.
        content: its text; for a tool the result as text where it is one.
        calls: the tool calls that the assistant asked for: ``(id, name, input)``.
        call_id, name, result, is_error: of a tool's result.
        media: ``(media type, data)`` of what is to be seen.
    """

    role: str
    content: str = ""
    calls: tuple[tuple[str, str, Any], ...] = ()
    call_id: str | None = None
    name: str | None = None
    result: Any = None
    is_error: bool = False
    media: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """What a model was sent, as a test reads it.

    Attributes:
        instructions: the system messages' text.
        messages: the conversation; each tool result is a message of its own.
        tools: what the model may call.
        max_output_tokens, output_schema: of the request.
        signal: set when the call is aborted.
        prompt, agent_type, label, req: as in :class:`~rulvar.testing.FakeCall`.
    """

    instructions: str
    messages: tuple[ScriptedMessage, ...]
    tools: tuple[ToolContract, ...]
    max_output_tokens: int | None
    output_schema: Any
    signal: asyncio.Event | None
    prompt: str
    agent_type: str | None
    label: str | None
    req: ChatRequest

    @classmethod
    def of(cls, call: FakeCall, signal: asyncio.Event | None) -> ScriptedRequest:
        """Read a request."""
        req = call.req
        return cls(
            instructions="\n\n".join(_text(item) for item in req.messages if item.role == "system"),
            messages=tuple(message for item in req.messages for message in _messages(item)),
            tools=req.tools or (),
            max_output_tokens=req.max_output_tokens,
            output_schema=req.schema,
            signal=signal,
            prompt=call.prompt,
            agent_type=call.agent_type,
            label=call.label,
            req=req,
        )


def _media_types(media: Any) -> tuple[str, ...]:
    if media is False or media is None:
        return ()
    if isinstance(media, str):
        return (media,)
    types = tuple(media) if isinstance(media, Iterable) else (None,)
    if not all(isinstance(kind, str) for kind in types):
        raise ConfigError(
            f"scripted_model media: expected media types, or False for none, got {media!r}",
            data={"field": "media"},
        )
    return types


def final(output: Any, *, cost_micros: int = 0) -> dict[str, Any]:
    """Return the step of a final answer."""
    return {"type": "final", "output": output, "usage": {"cost_micros": cost_micros}}


def tool_calls(*calls: Mapping[str, Any], cost_micros: int = 0) -> dict[str, Any]:
    """Return the step of tool calls; each is ``{"tool_id", "input", "id"?}``."""
    return {"type": "tool_calls", "calls": list(calls), "usage": {"cost_micros": cost_micros}}


class ScriptedModel(FakeAdapter):
    """An adapter that plays a script; see :func:`scripted_model`."""

    default_model = "scripted-model"

    def __init__(
        self,
        steps: Iterable[Any],
        *,
        id: str = "scripted",
        max_cost_micros: int = 0,
        stream_chunk: int = 16,
        media: Iterable[str] | Literal[False] | None = ALL_MEDIA,
        caps_overrides: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value, least in (
            ("max_cost_micros", max_cost_micros, 0),
            ("stream_chunk", stream_chunk, 1),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(
                    f"scripted_model {name}: expected an integer from {least} up, got {value!r}",
                    data={"field": name, "code": "invalid_config"},
                )
        # a step says what it costs: one token of output stands for one micro-USD
        priced = {"pricing": {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1}, **(caps_overrides or {})}
        super().__init__(caps_overrides=priced, id=id)
        self._steps = [step if callable(step) else copy.deepcopy(step) for step in check_steps(steps)]
        for number, step in enumerate(self._steps):
            check_step(step, f"scripted_model steps[{number}]")
        self._at = 0
        self._tool_names: dict[str, str] = {}
        self.max_cost_micros = max_cost_micros
        self.stream_chunk = stream_chunk
        self.media = _media_types(media)

    def learn_tools(self, names: Mapping[str, str]) -> None:
        """See under which names an agent's tools are called, by id: ids that look alike get a number."""
        self._tool_names.update(names)

    def tool_name(self, tool_id: str) -> str:
        """Return the name that a tool is called by."""
        return self._tool_names.get(tool_id) or _NOT_IN_A_NAME.sub("_", tool_id)

    @property
    def remaining(self) -> int:
        """How many steps were not used yet."""
        return len(self._steps) - self._at

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange; it takes the next step."""
        return _ScriptedStream(self, request, signal)

    def check_agent(
        self, tools: Sequence[ToolContract], output: Any, model: str | None = None, media: Sequence[str] = ()
    ) -> None:
        """Check an agent's media; a scripted model takes every schema.

        Raises:
            ConfigError: it cannot see one of them.
        """
        check_media(media, self.media)

    def take(self) -> Any:
        """Return the next step.

        Raises:
            ModelFailedError: the script is used up.
        """
        if self._at == len(self._steps):
            raise ModelFailedError(
                f"the script of model {self.id!r} is used up after {self._at} steps",
                data={"kind": "terminal"},
            )
        self._at += 1
        return self._steps[self._at - 1]


def scripted_model(
    steps: Iterable[Any],
    *,
    id: str = "scripted",
    max_cost_micros: int = 0,
    stream_chunk: int = 16,
    media: Iterable[str] | Literal[False] | None = ALL_MEDIA,
    caps_overrides: Mapping[str, Any] | None = None,
) -> ScriptedModel:
    """Return a model that plays a script, for ``Agent(model=...)`` or an engine's adapters.

    A model is used up as it runs: make a new one for each test. One call too many fails the model; an
    answer is never made up.

    Args:
        steps: see the module.
        id: the adapter's id, so that the grant is ``model:<id>``.
        max_cost_micros: what one call may cost at most, in micro-USD.
        stream_chunk: characters of one piece of a streamed answer.
        media: media types that the model can see; every one unless given, none for ``False`` or None.
        caps_overrides: capability fields over the fake ones.

    Raises:
        ConfigError: an option is wrong, or a step can never be an answer; names it.
    """
    return ScriptedModel(
        steps,
        id=id,
        max_cost_micros=max_cost_micros,
        stream_chunk=stream_chunk,
        media=media,
        caps_overrides=caps_overrides,
    )


class _ScriptedStream(FakeStream):
    """The events of one step."""

    __slots__ = ("_model", "_script_request", "_script_signal")

    served = Served(how="fake")

    def __init__(self, model: ScriptedModel, request: ChatRequest, signal: asyncio.Event | None) -> None:
        super().__init__(model, request, signal)
        self._model = model
        self._script_request = request
        self._script_signal = signal

    async def _answer(self) -> list[ChatEvent]:
        model, request = self._model, self._script_request
        call = FakeCall.of(request)
        model.calls.append(call)
        step = model.take()
        if callable(step):
            try:
                step = step(ScriptedRequest.of(call, self._script_signal))
                if inspect.isawaitable(step):
                    step = await step
                step = copy.deepcopy(step)
            except Exception as error:
                raise ModelFailedError(
                    f"a step of model {model.id!r} raised {type(error).__name__}", data={"kind": "terminal"}
                ) from error
            try:
                check_step(step, f"what a step of model {model.id!r} returned")
            except ConfigError as error:
                raise ModelFailedError(error.message, data={"kind": "terminal"}) from error
        if not is_envelope(step):
            return _plain_turn(model, call, step)
        usage = _usage(step)
        if step["type"] == "tool_calls":
            return _tool_turn(model, step["calls"], usage)
        return _final_turn(model, call, step["output"], usage)


def _plain_turn(model: ScriptedModel, call: FakeCall, step: Any) -> list[ChatEvent]:
    """Return what the fake model would answer; only the steps that say so cost something."""
    if isinstance(step, BaseException):
        raise ModelFailedError(
            f"a step of model {model.id!r} is {type(step).__name__}", data={"kind": "terminal"}
        ) from step
    return [
        Finish(finish=event.finish, usage=ZERO_USAGE) if isinstance(event, Finish) else event
        for event in answer_events(model, call, step)
    ]


def _final_turn(model: ScriptedModel, call: FakeCall, output: Any, usage: Usage) -> list[ChatEvent]:
    as_it_is = isinstance(output, str) and call.req.schema is None and call.forced_tool is None
    text = output if as_it_is else journal_form(output, "the scripted answer").decode("utf-8")
    size = model.stream_chunk
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    if call.forced_tool is not None:
        start, end, finish = _tool_turn(model, [{"tool_id": call.forced_tool, "input": output}], usage)
        assert isinstance(start, ToolCallStart)
        return [start, *(ToolCallDelta(id=start.id, args_text_delta=piece) for piece in pieces), end, finish]
    deltas: list[ChatEvent] = [TextDelta(text=piece) for piece in pieces]
    return [*deltas, Finish(finish=FinishInfo(reason="stop"), usage=usage)]


def _tool_turn(model: ScriptedModel, calls: Sequence[Mapping[str, Any]], usage: Usage) -> list[ChatEvent]:
    events: list[ChatEvent] = []
    for call in calls:
        name = model.tool_name(call.get("tool_id") or call.get("toolId") or call.get("name") or "")
        call_id = call.get("id") or model.tool_call_id()
        args = copy.deepcopy(call.get("input", call.get("args", {})))
        events += [ToolCallStart(id=call_id, name=name), ToolCallEnd(id=call_id, args=args)]
    return [*events, Finish(finish=FinishInfo(reason="tool-calls"), usage=usage)]


def _usage(step: Mapping[str, Any]) -> Usage:
    usage = step.get("usage") or {}
    cost = usage.get("cost_micros", usage.get("costMicros", 0))
    return Usage(input_tokens=0, output_tokens=cost, cache_read_tokens=0, cache_write_tokens=0)


def _text(message: Msg) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def _messages(message: Msg) -> Iterator[ScriptedMessage]:
    if message.role == "system":
        return
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    for part in results:
        yield ScriptedMessage(
            role="tool",
            content=part.result if isinstance(part.result, str) else "",
            call_id=part.id,
            name=part.name,
            result=part.result,
            is_error=bool(part.is_error),
        )
    if results:
        return
    yield ScriptedMessage(
        role=message.role,
        content=_text(message),
        calls=tuple(
            (part.id, part.name, part.args) for part in message.parts if isinstance(part, ToolCallPart)
        ),
        media=tuple(
            (part.media_type, _without_type(part.data))
            for part in message.parts
            if isinstance(part, ImagePart)
        ),
    )


def _without_type(data: Any) -> Any:
    """Return the base64 text of a ``data:`` address, and anything else as it is."""
    return data.partition(";base64,")[2] if isinstance(data, str) and data.startswith("data:") else data
