"""What a scripted model may answer with, and which answer a call gets.

A responder is a text, any other JSON value (a structured answer), a marker made by
:func:`fake_tool_calls` or :func:`fake_wire_error`, an exception (a terminal error), a function of the
call (plain or async; one that needs no call may take nothing) that returns one of these, or a list of
these that are used in order.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.messages import ChatRequest, TextPart, ToolChoice
from rulvar.contracts.request_hash import TELEMETRY_NAMESPACE
from rulvar.contracts.stream import WireError
from rulvar.errors import ConfigError, FakeResponderError, NonSerializableValueError

__all__ = [
    "FakeCall",
    "FakeToolCalls",
    "Responders",
    "Script",
    "check_responder",
    "check_said",
    "check_sent",
    "fake_tool_calls",
    "fake_wire_error",
]

FALLBACK = "*"


@dataclass(frozen=True, slots=True)
class FakeCall:
    """One request that a scripted model serves.

    Attributes:
        prompt: the text of the last user message.
        agent_type: the agent type of the call, None when it has none.
        label: the label of the call, None when it has none.
        req: the whole request.
    """

    prompt: str
    agent_type: str | None
    label: str | None
    req: ChatRequest

    @classmethod
    def of(cls, request: ChatRequest) -> FakeCall:
        """Read a request; agent type and label arrive in ``providerOptions.rulvar``."""
        telemetry = (request.provider_options or {}).get(TELEMETRY_NAMESPACE)
        facts = telemetry if isinstance(telemetry, Mapping) else {}
        return cls(request.prompt, facts.get("agentType") or None, facts.get("label") or None, request)

    @property
    def earlier_prompts(self) -> list[str]:
        """The texts of the user messages before the last one, newest first."""
        texts = [
            "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
            for message in self.req.messages
            if message.role == "user"
        ]
        return texts[-2::-1]

    @property
    def forced_tool(self) -> str | None:
        """The tool that the request pins, if it pins one."""
        choice = self.req.tool_choice
        return choice.name if isinstance(choice, ToolChoice) else None


@dataclass(frozen=True, slots=True)
class FakeToolCalls:
    """Answers a turn with tool calls; made by :func:`fake_tool_calls`."""

    calls: tuple[tuple[str, Any, str | None], ...]


def fake_tool_calls(
    *calls: Mapping[str, Any] | Iterable[Mapping[str, Any]], name: str | None = None, args: Any = None
) -> FakeToolCalls:
    """Let the scripted model answer a turn with tool calls.

    One call is ``fake_tool_calls(name="search", args={"q": "owls"})``; several are objects with
    ``name``, ``args`` and, when the test cares, ``id``. Ids are minted otherwise.

    Raises:
        ConfigError: no call, a call without a name, or arguments that are no JSON.
    """
    wanted: list[Any] = []
    for call in calls:
        if isinstance(call, Mapping):
            wanted.append(call)
        elif isinstance(call, (list, tuple)):
            wanted.extend(call)
        else:
            raise ConfigError(f"fake_tool_calls: expected an object with a name, got {type(call).__name__}")
    if name is not None:
        wanted.append({"name": name, "args": {} if args is None else args})
    if not wanted:
        raise ConfigError("fake_tool_calls: name the tool to call: fake_tool_calls(name=..., args=...)")
    return FakeToolCalls(tuple(_tool_call(call) for call in wanted))


def fake_wire_error(
    error: WireError | Mapping[str, Any] | None = None,
    *,
    code: str = "agent",
    message: str = "",
    retryable: bool = False,
    data: Mapping[str, Any] | None = None,
) -> WireError:
    """Let the scripted model end the stream with a typed failure.

    Args:
        error: the whole failure, instead of the fields.
        code: what failed, for instance ``"rate-limit"``.
        message: for people.
        retryable: whether the engine may make the call again.
        data: ``kind`` (transport, rate-limit, schema-mismatch, tool, budget, terminal) and, for
            instance, ``retryAfterMs`` (milliseconds).

    Raises:
        ConfigError: the failure has no code, or a field is of the wrong type.
    """
    if error is not None and not isinstance(error, (WireError, Mapping)):
        raise ConfigError(f"fake_wire_error: expected a failure or its fields, got {type(error).__name__}")
    if error is None:
        told = {"code": code, "message": message, "retryable": retryable, "data": data}
        error = {name: value for name, value in told.items() if value is not None}
    wire = error.to_wire() if isinstance(error, WireError) else {"message": "", "retryable": False, **error}
    try:
        failure = WireError.from_wire(wire)
    except ConfigError as wrong:
        raise ConfigError(f"fake_wire_error: {wrong.message}") from None
    if not failure.code:
        raise ConfigError("fake_wire_error: code must be a nonempty text")
    check_said(failure.data, "fake_wire_error: data", "data")
    return error if isinstance(error, WireError) else failure


class Script:
    """Answers that are used in order.

    Args:
        replies: the answers; at least one.
        last_repeats: whether the last answer serves every further call; otherwise the script is used
            up after it.
    """

    def __init__(self, replies: Iterable[Any], *, last_repeats: bool, name: str = "the script") -> None:
        self._replies = list(replies)
        self._last_repeats = last_repeats
        self._name = name
        self._position = 0
        if not self._replies:
            raise ConfigError(f"{name}: there are no replies in it")
        for index, reply in enumerate(self._replies):
            self._replies[index] = as_responder(reply, f"{name}[{index}]", in_script=True)

    def __len__(self) -> int:
        return len(self._replies)

    @property
    def remaining(self) -> int:
        """How many answers were not used yet."""
        return max(0, len(self._replies) - self._position)

    def take(self) -> Any:
        """Return the next answer.

        Raises:
            FakeResponderError: the script is used up.
        """
        position = self._position
        if position >= len(self._replies):
            if not self._last_repeats:
                count = len(self._replies)
                raise FakeResponderError(
                    f"{self._name} has {count} repl{'y' if count == 1 else 'ies'} and call {position + 1} came: "
                    "add a reply, or find the call that is too many"
                )
            position = len(self._replies) - 1
        self._position += 1
        return self._replies[position]


class Responders:
    """The answers of a scripted model by pattern.

    A pattern is an agent type, a label, or a regular expression that is searched in the prompt, in
    the order of declaration; ``"*"`` serves what nothing else does. Without it a turn that the engine asks
    for (an answer that did not fit its schema) is served by what served the conversation before.
    """

    def __init__(self, agents: Mapping[Any, Any]) -> None:
        if not isinstance(agents, Mapping):
            raise ConfigError(f"agents: expected pattern: responder pairs, got {type(agents).__name__}")
        self._rules: list[tuple[str | None, re.Pattern[str] | None, Any]] = []
        self._fallback: Any = None
        self._has_fallback = False
        for pattern, responder in agents.items():
            name = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
            if not isinstance(name, str):
                raise ConfigError(f"agents: a pattern is a text, got {type(pattern).__name__}")
            ready = as_responder(responder, f'agents["{name}"]')
            if name == FALLBACK:
                self._fallback, self._has_fallback = ready, True
            else:
                self._rules.append((None if pattern is not name else name, _compiled(pattern), ready))

    def find(self, call: FakeCall) -> Any:
        """Return the responder of a call.

        Raises:
            FakeResponderError: nothing matches, and there is no fallback.
        """
        for name, pattern, responder in self._rules:
            if name is not None and name in (call.agent_type, call.label):
                return responder
            if pattern is not None and pattern.search(call.prompt):
                return responder
        if self._has_fallback:
            return self._fallback
        for prompt in call.earlier_prompts:
            for _, pattern, responder in self._rules:
                if pattern is not None and pattern.search(prompt):
                    return responder
        known = ", ".join(f'"{name or (pattern and pattern.pattern)}"' for name, pattern, _ in self._rules)
        raise FakeResponderError(
            f"no responder for the call with prompt {_shown(call.prompt)}, agent type {_shown(call.agent_type)}, "
            f'label {_shown(call.label)}; patterns: {known or "none"}. Add one, or the fallback "*"'
        )


def as_responder(responder: Any, what: str, *, in_script: bool = False) -> Any:
    """Return a responder as it is kept: a list becomes a script whose last answer repeats.

    Raises:
        ConfigError: it can never be an answer.
    """
    if isinstance(responder, list) and not in_script:
        return Script(responder, last_repeats=True, name=what)
    check_responder(responder, what)
    if inspect.isfunction(responder) or inspect.ismethod(responder):
        return _taking_the_call(responder, what)
    return responder


def _taking_the_call(function: Any, what: str) -> Any:
    """Return a function that takes the call; one that has no use for it may do without."""
    signature = inspect.signature(function)
    for args in ((None,), ()):
        try:
            signature.bind(*args)
        except TypeError:
            continue
        return function if args else lambda call: function()
    raise ConfigError(f"{what}: a function takes the call, or nothing; this one takes {signature}")


def check_responder(responder: Any, what: str) -> None:
    """Refuse what can never be an answer.

    Raises:
        ConfigError: nothing, a class, or a value that JSON cannot hold; names the place in it.
    """
    if responder is None:
        raise ConfigError(f"{what}: None is no answer; use a text, a JSON value, a function or a marker")
    if isinstance(responder, type) and not issubclass(responder, BaseException):
        raise ConfigError(f"{what}: {responder.__name__} is a class, not an answer")
    if isinstance(responder, _MARKERS) or callable(responder):
        return
    check_said(responder, what, "agents")


_MARKERS = (str, WireError, FakeToolCalls, BaseException, Script)


def _tool_call(call: Any) -> tuple[str, Any, str | None]:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str) or not call["name"]:
        raise ConfigError("fake_tool_calls: a call needs a name")
    unknown = set(call) - {"name", "args", "id"}
    if unknown:
        raise ConfigError(f"fake_tool_calls: unknown field {sorted(unknown)[0]!r}; use name, args, id")
    call_id = call.get("id")
    if call_id is not None and (not isinstance(call_id, str) or not call_id):
        raise ConfigError("fake_tool_calls: id must be a nonempty text")
    args = call.get("args", {})
    check_sent(args, f"fake_tool_calls: args of {call['name']!r}", "args")
    return call["name"], args, call_id


def check_sent(value: Any, what: str, field: str) -> None:
    """Refuse arguments that no model could send; they may be nested as deeply as they like.

    Raises:
        ConfigError: JSON cannot hold them; names the place in them.
    """
    pending = [("$", value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, Mapping):
            strange = next((name for name in item if not isinstance(name, str)), None)
            if strange is not None:
                raise _no_json(what, field, path, f"has a key of type {type(strange).__name__}")
            pending.extend(
                (f"{path}.{name}", inner) for name, inner in item.items() if type(inner) not in _PLAIN
            )
        elif isinstance(item, list | tuple):
            pending.extend(
                (f"{path}[{index}]", inner) for index, inner in enumerate(item) if type(inner) not in _PLAIN
            )
        elif isinstance(item, float) and not math.isfinite(item):
            raise _no_json(what, field, path, f"is {item}")
        elif not isinstance(item, (str, int, float, type(None))):
            raise _no_json(what, field, path, f"is of type {type(item).__name__}")


_PLAIN = frozenset({str, int, bool, type(None)})


def _no_json(what: str, field: str, path: str, problem: str) -> ConfigError:
    return ConfigError(
        f"{what} is no JSON, which is all that a model can send: {path} {problem}",
        data={"field": field, "path": path},
    )


def check_said(value: Any, what: str, field: str) -> None:
    """Refuse an answer that has no JSON form.

    Raises:
        ConfigError: names the place in it.
    """
    try:
        journal_form(value, "$")
    except NonSerializableValueError as error:
        path = str(error.data["path"])
        raise _no_json(what, field, path, error.message.removeprefix(path).strip()) from None


def _compiled(pattern: Any) -> re.Pattern[str] | None:
    """Compile a pattern; one that is no regular expression matches by name only."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _shown(text: str | None) -> str:
    if text is None:
        return "none"
    return f'"{text}"' if len(text) <= 60 else f'"{text[:60]}..."'
