"""OpenTelemetry spans of runs."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rulvar import Agent, Ctx, Engine, InMemoryStore, tool, workflow
from rulvar.agents import agent_as_tool
from rulvar.contracts.capabilities import ModelPricing
from rulvar.otel import instrument
from rulvar.testing import (
    create_test_engine,
    fake_tool_calls,
    fake_wire_error,
    final,
    scripted_model,
    tool_calls,
)


class Spans:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def watch(self, engine: Engine, **options: Any) -> Any:
        return instrument(engine, tracer_provider=self.provider, **options)

    @property
    def all(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())

    def one(self, name: str) -> Any:
        [span] = [span for span in self.all if span.name == name]
        return span

    def tree(self) -> dict[str, str | None]:
        names = {span.context.span_id: span.name for span in self.all}
        return {
            span.name: None if span.parent is None else names.get(span.parent.span_id, "outside")
            for span in self.all
        }


@pytest.fixture
def spans() -> Spans:
    return Spans()


@tool(id="look")
def look(order: str) -> str:
    return f"PRIVATE {order}"


@workflow(name="child")
async def child(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent("child prompt", agent_type="helper")


@workflow(name="parent")
async def parent(ctx: Ctx, args: Any) -> Any:
    async with ctx.phase("plan"):
        await ctx.agent("look it up", agent_type="looker", tools=[look])
    await ctx.call_tool(look, {"order": "B2"})
    return await ctx.workflow(child)


def engine(**options: Any) -> Any:
    agents = {
        "looker": [fake_tool_calls({"name": "look", "args": {"order": "A1"}}), "found PRIVATE"],
        "helper": "helped",
    }
    return create_test_engine(agents=agents, **options)


async def test_a_run_is_a_tree_of_spans(spans: Spans) -> None:
    bench = engine()
    spans.watch(bench)
    outcome = await bench.run(parent, run_id="r").result()
    assert outcome.status == "ok"
    assert [span.name for span in spans.all] == [
        "chat fake-model",
        "execute_tool look",
        "chat fake-model",
        "invoke_agent looker",
        "execute_tool look",
        "chat fake-model",
        "invoke_agent helper",
        "invoke_workflow child",
        "invoke_workflow parent",
    ]
    by_id = {span.context.span_id: span for span in spans.all}
    above = [by_id[span.parent.span_id].name if span.parent else None for span in spans.all]
    assert above == [
        "invoke_agent looker",
        "invoke_agent looker",
        "invoke_agent looker",
        "invoke_workflow parent",
        "invoke_workflow parent",
        "invoke_agent helper",
        "invoke_workflow child",
        "invoke_workflow parent",
        None,
    ]
    assert len({span.context.trace_id for span in spans.all}) == 1
    assert all(span.attributes["rulvar.run.id"] == "r" for span in spans.all)


async def test_spans_have_the_attributes_of_the_conventions(spans: Spans) -> None:
    bench = engine(pricing={"fake:fake-model": ModelPricing(input_usd_per_m_tok=1, output_usd_per_m_tok=1)})
    spans.watch(bench)
    await bench.run(parent).result()
    first = spans.all[0]
    assert first.kind is SpanKind.CLIENT
    told = dict(first.attributes)
    assert told.pop("gen_ai.usage.input_tokens") > 0
    assert told.pop("gen_ai.usage.output_tokens") > 0
    assert told.pop("rulvar.cost.usd") > 0
    told.pop("rulvar.run.id")
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fake",
        "gen_ai.request.model": "fake-model",
        "gen_ai.output.type": "text",
        "gen_ai.agent.name": "looker",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "rulvar.served": "fake",
    }
    agent = spans.one("invoke_agent looker").attributes
    assert agent["gen_ai.operation.name"] == "invoke_agent"
    assert agent["gen_ai.usage.input_tokens"] == sum(
        span.attributes["gen_ai.usage.input_tokens"] for span in (spans.all[0], spans.all[2])
    )
    called = spans.all[1].attributes
    assert (called["gen_ai.operation.name"], called["gen_ai.tool.name"]) == ("execute_tool", "look")
    assert called["gen_ai.tool.call.id"]
    run = spans.one("invoke_workflow parent").attributes
    assert (run["gen_ai.workflow.name"], run["rulvar.status"]) == ("parent", "ok")


async def test_no_span_holds_what_was_said_unless_it_is_asked_for(spans: Spans) -> None:
    bench = engine()
    spans.watch(bench)
    await bench.run(parent).result()
    everything = "".join(span.to_json() for span in spans.all)
    assert "PRIVATE" not in everything
    assert "look it up" not in everything


async def test_content_is_captured_on_request_with_credentials_masked(spans: Spans) -> None:
    bench = create_test_engine(agents={"*": "the key is ghp_FAKEFAKEFAKEFAKE"})
    spans.watch(bench, capture_content=True)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("use password=FAKEPASSWORD please")

    await bench.run(w).result()
    [turn] = [span for span in spans.all if span.name == "chat fake-model"]
    [asked] = json.loads(turn.attributes["gen_ai.input.messages"])
    assert asked["role"] == "user"
    assert asked["parts"] == [{"type": "text", "content": "use password=[REDACTED] please"}]
    [told] = json.loads(turn.attributes["gen_ai.output.messages"])
    assert told["parts"] == [{"type": "text", "content": "the key is [REDACTED]"}]
    assert told["finish_reason"] == "stop"


async def test_tool_calls_and_results_are_content_too(spans: Spans) -> None:
    bench = engine()
    spans.watch(bench, capture_content=True)
    await bench.run(parent).result()
    second = json.loads(spans.all[2].attributes["gen_ai.input.messages"])
    assert [message["role"] for message in second] == ["user", "assistant", "tool"]
    assert second[1]["parts"][0]["type"] == "tool_call"
    assert second[1]["parts"][0]["arguments"] == {"order": "A1"}
    assert second[2]["parts"][0]["type"] == "tool_call_response"
    assert second[2]["parts"][0]["response"] == "PRIVATE A1"


async def test_a_run_belongs_to_the_span_in_which_it_was_started(spans: Spans) -> None:
    bench = engine()
    spans.watch(bench)
    with spans.provider.get_tracer("app").start_as_current_span("request"):
        handle = bench.run(parent)
    await handle.result()
    assert spans.tree()["invoke_workflow parent"] == "request"


async def test_what_fails_is_an_error_with_its_code(spans: Spans) -> None:
    bench = create_test_engine(
        agents={"*": fake_wire_error(code="invalid_request", message="PRIVATE detail")}
    )
    spans.watch(bench)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("x")

    outcome = await bench.run(w).result()
    assert outcome.status == "error"
    for name in ("chat fake-model", "invoke_agent", "invoke_workflow w"):
        span = spans.one(name)
        assert span.status.status_code is StatusCode.ERROR, name
        assert span.attributes["error.type"]
    assert spans.one("chat fake-model").attributes["error.type"] == "invalid_request"
    assert [event.name for event in spans.one("invoke_agent").events] == ["rulvar.agent.error"]
    assert "PRIVATE" not in "".join(span.to_json() for span in spans.all)


async def test_what_a_resume_serves_from_the_journal_makes_no_span_again(spans: Spans) -> None:
    store = InMemoryStore()
    await engine(journal=store).run(parent, run_id="r").result()
    bench = engine(journal=store)
    spans.watch(bench)
    outcome = await bench.resume("r", parent).result()
    assert outcome.status == "ok"
    assert [span.name for span in spans.all] == ["invoke_workflow parent"]
    assert spans.all[0].attributes["rulvar.run.resumed"] is True


async def test_the_spans_of_a_suspended_run_end_with_it(spans: Spans) -> None:
    @workflow(name="waits")
    async def waits(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("answer")

    @workflow(name="outer")
    async def outer(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(waits)

    bench = engine()
    spans.watch(bench)
    outcome = await bench.run(outer).result()
    assert outcome.status == "suspended"
    assert spans.tree() == {"invoke_workflow waits": "invoke_workflow outer", "invoke_workflow outer": None}
    assert spans.one("invoke_workflow waits").attributes["rulvar.status"] == "suspended"
    assert spans.one("invoke_workflow outer").status.status_code is StatusCode.UNSET


async def test_an_agent_value_is_traced_with_the_calls_of_its_children(spans: Spans) -> None:
    inner = Agent(id="inner", model=scripted_model([final("deep")], id="inner"))
    steps = [tool_calls({"tool_id": "inner", "input": {"input": "hi"}}), final("Done.")]
    outer = Agent(id="outer", model=scripted_model(steps), tools=[agent_as_tool(inner)])
    async with Engine() as bench:
        spans.watch(bench)
        outcome = await bench.run(outer, "hi").result()
    assert (outcome.status, outcome.value) == ("ok", "Done.")
    names = [span.name for span in spans.all]
    assert names.count("chat scripted-model") == 3
    tree = spans.tree()
    assert tree["invoke_workflow agent:inner"] == "invoke_agent outer"
    assert tree["execute_tool inner"] == "invoke_agent outer"
    assert tree["invoke_agent outer"] == "invoke_workflow agent:outer"


async def test_spans_of_runs_side_by_side_do_not_mix(spans: Spans) -> None:
    bench = create_test_engine(agents={"*": "ok"})
    spans.watch(bench)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel(
            [lambda: ctx.agent("a", agent_type="a"), lambda: ctx.agent("b", agent_type="b")]
        )

    bench._profiles.update(create_test_engine(agents={"a": "", "b": ""})._profiles)
    handles = [bench.run(w, run_id=f"r{number}") for number in range(5)]
    for handle in handles:
        await handle.result()
    by_id = {span.context.span_id: span for span in spans.all}
    for span in spans.all:
        if span.parent is not None:
            above = by_id[span.parent.span_id]
            assert above.attributes["rulvar.run.id"] == span.attributes["rulvar.run.id"]
            if span.name == "chat fake-model":
                assert above.attributes["gen_ai.agent.name"] == span.attributes["gen_ai.agent.name"]


async def test_stopping_leaves_nothing_behind(spans: Spans) -> None:
    bench = engine()
    before = bench.observers
    stop = spans.watch(bench)
    stop()
    stop()
    await bench.run(parent).result()
    assert (spans.all, bench.observers) == ([], before)


async def test_an_exporter_that_breaks_does_not_stop_a_run() -> None:
    class Broken:
        def get_tracer(self, *args: Any, **options: Any) -> Any:
            return self

        def start_span(self, *args: Any, **options: Any) -> Any:
            raise RuntimeError("broken")

    bench = engine()
    instrument(bench, tracer_provider=Broken())  # type: ignore[arg-type]
    outcome = await bench.run(parent).result()
    assert outcome.status == "ok"


def test_without_opentelemetry_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from rulvar.errors import ConfigError

    monkeypatch.delitem(sys.modules, "rulvar.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"rulvar\[otel\]"):
        import rulvar.otel  # noqa: F401
