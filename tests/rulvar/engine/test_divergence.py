"""An edited workflow pays for exactly what it changed, and strict replay says what that is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rulvar import Ctx, Workflow, define_workflow
from rulvar.errors import JournalMissError
from rulvar.testing import create_test_engine, replay_run


def asks(*prompts: str) -> Workflow[Any]:
    async def body(ctx: Ctx, args: Any) -> list[str]:
        return [await ctx.agent(prompt) for prompt in prompts]

    return define_workflow("asks", body)


async def recorded(*prompts: str) -> tuple[Any, str]:
    engine = create_test_engine(agents={"*": lambda call: f"answer to {call.prompt}"})
    run = engine.run(asks(*prompts))
    assert (await run.result()).status == "ok"
    engine.fake.calls.clear()
    return engine, run.run_id


@pytest.mark.parametrize(
    ("edited", "paid"),
    [
        pytest.param(["a", "b", "c"], [], id="unchanged"),
        pytest.param(["a", "new", "b", "c"], ["new"], id="inserted"),
        pytest.param(["a", "c"], [], id="deleted"),
        pytest.param(["a", "B!", "c"], ["B!"], id="reworded"),
        pytest.param(["c", "b", "a"], [], id="reordered"),
        pytest.param(["a", "a", "b", "c"], ["a"], id="repeated"),
    ],
)
async def test_an_edit_costs_exactly_the_calls_that_it_changed(edited: list[str], paid: list[str]) -> None:
    engine, run_id = await recorded("a", "b", "c")
    resumed = engine.resume(run_id, asks(*edited))
    outcome = await resumed.result()
    assert outcome.value == [f"answer to {prompt}" for prompt in edited]
    assert [call.prompt for call in engine.fake.calls] == paid
    preview = await resumed.preview()
    assert (preview.hits, preview.misses) == (len(edited) - len(paid), len(paid))


async def miss_of(journal: Any, workflow: Workflow[Any], **options: Any) -> JournalMissError:
    with pytest.raises(JournalMissError) as caught:
        await replay_run(workflow, journal=journal, **options)
    return caught.value


async def test_strict_replay_names_the_call_site_the_scope_and_what_differs() -> None:
    engine, run_id = await recorded("a", "b")
    miss = await miss_of(await engine.store.load(run_id), asks("a", "b", "inserted"))
    assert miss.data["site"]["file"] == __file__
    assert miss.data["site"]["function"].endswith("body")
    assert (miss.data["scope"], miss.data["kind"], miss.data["miss"]) == ("", "agent", "live")
    assert "inserted" in str(miss)


async def test_strict_replay_names_a_changed_prompt() -> None:
    engine, run_id = await recorded("a", "b")
    miss = await miss_of(await engine.store.load(run_id), asks("a", "b, please"))
    assert miss.data["reason"] == "changed"
    assert miss.data["differences"][0]["path"] == "prompt"
    assert miss.data["expected"]["seq"] == 3


async def test_strict_replay_names_a_changed_effort_and_the_recorded_one() -> None:
    async def with_effort(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("a", effort="high")

    async def without(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("a", effort="low")

    engine = create_test_engine(agents={"*": "x"})
    run = engine.run(define_workflow("w", with_effort))
    await run.result()
    miss = await miss_of(await engine.store.load(run.run_id), define_workflow("w", without))
    assert miss.data["differences"] == [{"path": "effort", "recorded": "high", "actual": "low"}]


async def test_strict_replay_says_that_every_record_of_a_call_is_used_up() -> None:
    engine, run_id = await recorded("a")
    miss = await miss_of(await engine.store.load(run_id), asks("a", "a"))
    assert miss.data["reason"] == "exhausted"
    assert "once" in str(miss)


async def test_strict_replay_says_that_a_call_moved_to_another_scope() -> None:
    async def moved(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel([lambda: ctx.agent("a")])

    engine, run_id = await recorded("a")
    miss = await miss_of(await engine.store.load(run_id), define_workflow("asks", moved))
    assert miss.data["reason"] == "elsewhere"
    assert miss.data["scope"] == "par:0:0"


@pytest.mark.parametrize("form", ["except Exception", "settle", "pipeline", "on_error"])
async def test_a_workflow_cannot_swallow_a_miss(form: str) -> None:
    async def swallowing(ctx: Ctx, args: Any) -> Any:
        if form == "settle":
            return await ctx.parallel([lambda: ctx.agent("new")], settle=True)
        if form == "pipeline":
            return await ctx.pipeline(["x"], lambda item: ctx.agent(f"new {item}"))
        if form == "on_error":
            return await ctx.agent("new", on_error="null")
        try:
            return await ctx.agent("new")
        except Exception:
            return "swallowed"

    engine, run_id = await recorded("a")
    await miss_of(await engine.store.load(run_id), define_workflow("asks", swallowing))


async def test_a_body_that_catches_everything_still_ends_in_the_miss() -> None:
    async def stubborn(ctx: Ctx, args: Any) -> Any:
        try:
            return await ctx.agent("new")
        except BaseException:
            return "swallowed"

    engine, run_id = await recorded("a")
    await miss_of(await engine.store.load(run_id), define_workflow("asks", stubborn))


async def test_a_dry_run_writes_nothing_and_ends_in_the_miss() -> None:
    engine, run_id = await recorded("a")
    before = [entry.line for entry in await engine.store.load(run_id)]
    meta = await engine.store.load_meta(run_id)
    outcome = await engine.resume(run_id, asks("a", "b"), dry_run=True).result()
    assert outcome.error is not None
    assert outcome.error.code == "journal_miss"
    assert [entry.line for entry in await engine.store.load(run_id)] == before
    assert await engine.store.load_meta(run_id) == meta
    assert engine.fake.calls == []


async def test_replaying_twice_appends_nothing() -> None:
    engine, run_id = await recorded("a", "b")
    before = [entry.line for entry in await engine.store.load(run_id)]
    for _ in range(2):
        assert (await engine.resume(run_id, asks("a", "b")).result()).status == "ok"
    assert [entry.line for entry in await engine.store.load(run_id)] == before


async def test_a_failure_that_a_later_segment_repaired_is_not_paid_again() -> None:
    answers = iter([RuntimeError("down"), "fine"])

    def answer(call: Any) -> Any:
        reply = next(answers)
        if isinstance(reply, Exception):
            raise reply
        return reply

    engine = create_test_engine(agents={"*": answer})
    run = engine.run(asks("a"))
    assert (await run.result()).status == "error"
    assert (await engine.resume(run.run_id, asks("a")).result()).value == ["fine"]
    engine.fake.calls.clear()
    third = engine.resume(run.run_id, asks("a"))
    assert (await third.result()).value == ["fine"]
    assert engine.fake.calls == []
    assert (await third.preview()).hits == 1


SECRET = "sk-ant-FAKEfakeFAKE0123456789abcdef"


def _calls(make: Any) -> Workflow[Any]:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await make(ctx)

    return define_workflow("w", body)


@pytest.mark.parametrize(
    ("recorded", "edited"),
    [
        pytest.param(lambda c: c.agent("old"), lambda c: c.agent(f"new {SECRET}"), id="prompt"),
        pytest.param(lambda c: c.agent("old"), lambda c: c.agent("x " * 20 + SECRET), id="cut"),
        pytest.param(lambda c: c.agent("a"), lambda c: c.agent("b", label=SECRET), id="label"),
        pytest.param(lambda c: c.agent("a", label=SECRET), lambda c: c.agent("b"), id="recorded-label"),
        pytest.param(lambda c: c.agent("a"), lambda c: c.step(f"get {SECRET}", lambda: 1), id="step"),
        pytest.param(
            lambda c: c.step("s", lambda: 1),
            lambda c: c.step("s", lambda: 1, deps=[{"api_key": "hunter2hunter2"}, SECRET]),
            id="deps",
        ),
        pytest.param(lambda c: c.random(key="a"), lambda c: c.random(key=SECRET), id="random"),
        pytest.param(lambda c: c.random(key=SECRET), lambda c: c.random(key="b"), id="recorded-random"),
        pytest.param(lambda c: c.step("s", lambda: 1), lambda c: c.await_external(SECRET), id="wait"),
    ],
)
async def test_a_miss_quotes_no_credential(recorded: Any, edited: Any) -> None:
    engine = create_test_engine(agents={"*": "x"})
    run = engine.run(_calls(recorded))
    await run.result()
    miss = await miss_of(await engine.store.load(run.run_id), _calls(edited))
    told = json.dumps(miss.to_wire()) + str(miss)
    assert SECRET[:16] not in told
    assert "hunter2" not in told


async def test_a_miss_quotes_what_is_no_credential() -> None:
    engine, run_id = await recorded("old")
    miss = await miss_of(await engine.store.load(run_id), asks("new"))
    assert "'new'" in str(miss)
