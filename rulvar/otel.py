"""OpenTelemetry spans of runs, by the semantic conventions for generative AI.

::

    run, child workflow   invoke_workflow NAME   internal
    agent call            invoke_agent TYPE      internal
    model turn            chat MODEL             client
    tool call             execute_tool NAME      internal

A call that a resume serves from the journal makes no span: it was traced when it was made.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rulvar.contracts.events import Event
from rulvar.contracts.messages import ImagePart, Msg, Part, TextPart, ToolCallPart, ToolResultPart
from rulvar.contracts.ports.observer import CallRecord, QuietObserver
from rulvar.contracts.redaction import Redactor
from rulvar.contracts.usage import Usage
from rulvar.engine.engine import Engine
from rulvar.engine.handle import RunHandle
from rulvar.errors import ConfigError

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace
except ImportError:
    raise ConfigError(
        "rulvar.otel needs OpenTelemetry: pip install 'rulvar[otel]'", data={"extra": "otel"}
    ) from None

__all__ = ["instrument"]

_FAULTS = frozenset({"error", "exhausted", "blocked", "outcome_unknown", "limit", "failed", "denied"})
_NOTES = frozenset(
    {"agent:error", "agent:schema-retry", "approval:pending", "determinism:warning", "external:waiting"}
)
_REASONS = {
    "stop": "stop",
    "tool-calls": "tool_calls",
    "max-tokens": "length",
    "context-window-exceeded": "length",
    "refusal": "content_filter",
}


def instrument(
    engine: Engine,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    capture_content: bool = False,
) -> Callable[[], None]:
    """Make spans of every run that the engine starts from now on, and return what stops it.

    Args:
        tracer_provider: the global one unless given.
        capture_content: put the messages of model turns on their spans, credentials masked. They may
            hold what people wrote; without it no span holds any of their words.
    """
    tracer = trace.get_tracer("rulvar", tracer_provider=tracer_provider)
    tracing = _Tracing(tracer, capture_content=capture_content)
    stop_watching = engine.watch(tracing.run_starts)
    engine.observers = (*engine.observers, tracing)

    def stop() -> None:
        stop_watching()
        engine.observers = tuple(item for item in engine.observers if item is not tracing)

    return stop


class _Tracing(QuietObserver):
    """Watches an engine; the spans of each run are kept until it settles."""

    def __init__(self, tracer: trace.Tracer, *, capture_content: bool) -> None:
        self._tracer = tracer
        self._content = _Content() if capture_content else None
        self._runs: dict[str, _RunSpans] = {}
        self.errors: list[Exception] = []

    def run_starts(self, handle: RunHandle[Any]) -> None:
        """Listen to a run; its span's parent is the one that is current where it was started."""
        spans = _RunSpans(self._tracer, handle.run_id, otel_context.get_current())

        def listen(event: Event) -> None:
            if event.type == "run:start":
                self._runs[handle.run_id] = spans
            spans.tell(event)
            if event.type == "run:end" and self._runs.get(handle.run_id) is spans:
                del self._runs[handle.run_id]

        handle.on("*", listen)

    def call_finished(self, record: CallRecord) -> None:
        """Make the span of a model turn, once it is over."""
        spans = self._runs.get(record.run_id)
        if spans is None or record.kind != "agent" or record.served.how == "journal":
            return
        try:
            spans.turn(record, None if self._content is None else self._content.of(record))
        except Exception as error:  # whatever is wrong with a tracer must not reach the run
            self._runs.pop(record.run_id, None)
            self.errors.append(error)


class _RunSpans:
    """The open spans of one run, by the ids that its events have."""

    def __init__(self, tracer: trace.Tracer, run_id: str, context: otel_context.Context) -> None:
        self._tracer = tracer
        self._run_id = run_id
        self._context = context
        self._open: dict[Any, trace.Span] = {}
        self._inside: dict[str, trace.Span] = {}  # by span id: where what happens in it belongs

    def tell(self, event: Event) -> None:
        """Start, end or annotate a span."""
        if event.replayed:
            return
        kind, _, moment = event.type.rpartition(":")
        if moment == "start" and kind in _STARTS:
            name, attributes = _STARTS[kind](event)
            self._start(_key(event, kind), event, name, attributes)
        elif moment == "end" and kind in _STARTS:
            self._end(_key(event, kind), event)
        elif event.type in _NOTES:
            self._note(event)
        elif event.parent_span_id is not None and event.span_id not in self._inside:
            parent = self._inside.get(event.parent_span_id)  # a phase, a transition: no span of its own
            if parent is not None:
                self._inside[event.span_id] = parent

    def _start(self, key: Any, event: Event, name: str, attributes: Mapping[str, Any]) -> None:
        shared = self._inside.get(event.span_id) if event.type == "tool:start" else None  # an agent's tool
        parent = shared or self._inside.get(event.parent_span_id or "")
        context = self._context if parent is None else trace.set_span_in_context(parent, self._context)
        span = self._tracer.start_span(
            name, context, attributes={**attributes, "rulvar.run.id": self._run_id}
        )
        self._open[key] = span
        if shared is None:
            self._inside[event.span_id] = span

    def _end(self, key: Any, event: Event) -> None:
        span = self._open.pop(key, None)
        if span is None:
            return
        if event.type == "run:end":
            self._cut_off(str(event["status"]))
        status = str(event.get("status") or event.get("outcome") or "ok")
        error = event.get("error") or (event.get("envelope") or {}).get("error") or {}
        span.set_attribute("rulvar.status", status)
        if "totalUsd" in event or "costUsd" in event:
            span.set_attribute("rulvar.cost.usd", float(event.get("totalUsd", event.get("costUsd"))))
        if event.type == "agent:end" and event.get("usage"):
            span.set_attributes(_usage(Usage.from_wire(event["usage"])))
        if status in _FAULTS:
            code = str(error.get("code") or event.get("errorCode") or status)
            span.set_attribute("error.type", code)
            span.set_status(trace.StatusCode.ERROR, code)
        span.end()
        if self._inside.get(event.span_id) is span and event.type != "run:end":
            del self._inside[event.span_id]

    def _cut_off(self, status: str) -> None:
        """End the spans of what did not end by itself: the run was suspended or cancelled."""
        for span in reversed(self._open.values()):
            span.set_attribute("rulvar.status", status)
            span.end()
        self._open.clear()

    def _note(self, event: Event) -> None:
        span = self._inside.get(event.span_id) or self._inside.get(event.parent_span_id or "")
        if span is None:
            return
        facts: dict[str, Any] = {}
        for name in ("code", "willRetry", "attempt", "key", "toolName"):
            if isinstance(event.get(name), str | bool | int):
                facts[f"rulvar.{name}"] = event[name]
        if isinstance(event.get("error"), Mapping):
            facts["error.type"] = str(event["error"].get("code"))
        span.add_event(f"rulvar.{event.type.replace(':', '.')}", facts)

    def turn(self, record: CallRecord, content: Mapping[str, Any] | None) -> None:
        """Make the span of a model turn that is over."""
        parent = self._inside.get(record.span_id or "")
        context = self._context if parent is None else trace.set_span_in_context(parent, self._context)
        now = time.time_ns()
        span = self._tracer.start_span(
            f"chat {record.model}",
            context,
            kind=trace.SpanKind.CLIENT,
            attributes={**_turn(record, self._run_id), **(content or {})},
            start_time=now - (record.duration_ms or 0) * 1_000_000,
        )
        if record.error_code is not None:
            span.set_attribute("error.type", record.error_code)
            span.set_status(trace.StatusCode.ERROR, record.error_code)
        span.end(now)


def _key(event: Event, kind: str) -> Any:
    return (event.span_id, event["toolCallId"]) if kind == "tool" else event.span_id


def _workflow(event: Event) -> tuple[str, dict[str, Any]]:
    name = str(event["workflow"])
    facts: dict[str, Any] = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name}
    if event.get("resumed"):
        facts["rulvar.run.resumed"] = True
    return f"invoke_workflow {name}", facts


def _agent(event: Event) -> tuple[str, dict[str, Any]]:
    facts = {"gen_ai.operation.name": "invoke_agent", **_model(str(event["model"]))}
    name = event.get("agentType")
    if name:
        facts["gen_ai.agent.name"] = str(name)
    return f"invoke_agent {name}" if name else "invoke_agent", facts


def _tool(event: Event) -> tuple[str, dict[str, Any]]:
    name = str(event["toolName"])
    facts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": str(event["toolCallId"]),
        "gen_ai.tool.type": "function",
    }
    return f"execute_tool {name}", facts


_STARTS: Mapping[str, Callable[[Event], tuple[str, dict[str, Any]]]] = {
    "run": _workflow,
    "child": _workflow,
    "agent": _agent,
    "tool": _tool,
}


def _model(reference: str) -> dict[str, Any]:
    adapter, _, model = reference.partition(":")
    return {"gen_ai.provider.name": adapter, "gen_ai.request.model": model or adapter}


def _turn(record: CallRecord, run_id: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": record.provider or record.adapter or "unknown",
        "gen_ai.request.model": record.model or "unknown",
        "rulvar.run.id": run_id,
        "rulvar.served": record.served.how,
    }
    request = record.request
    if request is not None:
        if request.max_output_tokens is not None:
            facts["gen_ai.request.max_tokens"] = request.max_output_tokens
        facts["gen_ai.output.type"] = "text" if request.schema is None else "json"
    if record.agent_type:
        facts["gen_ai.agent.name"] = record.agent_type
    if record.finish_reason is not None:
        facts["gen_ai.response.finish_reasons"] = [_REASONS.get(record.finish_reason, record.finish_reason)]
    if record.usage is not None:
        facts.update(_usage(record.usage))
    if record.cost_usd is not None:
        facts["rulvar.cost.usd"] = record.cost_usd
    return facts


def _usage(usage: Usage) -> dict[str, Any]:
    """Input tokens count what came from a cache, here as in the conventions."""
    facts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    if usage.reasoning_tokens is not None:
        facts["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
    return facts


class _Content:
    """The words of a model turn, as JSON texts of the conventions' form, credentials masked."""

    def __init__(self) -> None:
        self._redactor = Redactor()

    def of(self, record: CallRecord) -> dict[str, Any]:
        """Return the attributes of a turn's content."""
        messages = () if record.request is None else record.request.messages
        system = [part for message in messages if message.role == "system" for part in message.parts]
        facts = {
            "gen_ai.input.messages": self._text(
                [_message(message) for message in messages if message.role != "system"]
            )
        }
        if system:
            facts["gen_ai.system_instructions"] = self._text(_parts(system))
        if record.answer:
            reason = _REASONS.get(record.finish_reason or "", "error")
            answer = {"role": "assistant", "parts": _parts(record.answer), "finish_reason": reason}
            facts["gen_ai.output.messages"] = self._text([answer])
        return facts

    def _text(self, value: Any) -> str:
        return json.dumps(self._redactor.redact(value).value, ensure_ascii=False)


def _message(message: Msg) -> dict[str, Any]:
    return {"role": message.role, "parts": _parts(message.parts)}


def _parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [told for part in parts if (told := _part(part)) is not None]


def _part(part: Part) -> dict[str, Any] | None:
    if isinstance(part, TextPart):
        return {"type": "text", "content": part.text}
    if isinstance(part, ToolCallPart):
        return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.args}
    if isinstance(part, ToolResultPart):
        return {"type": "tool_call_response", "id": part.id, "response": part.result}
    if isinstance(part, ImagePart):
        return {"type": "blob", "mime_type": part.media_type, "modality": "image"}
    return None
