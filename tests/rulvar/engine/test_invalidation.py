"""``resume(..., invalidate=[seq])``: an outcome is not kept, and what takes its place stays."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.errors import ConfigError
from rulvar.stores.bundle import Bundle
from rulvar.testing import create_test_engine, replay_run
from rulvar.testing.minimize.minimization import minimize_with


class Counting:
    """A model that fails until it is mended, and steps that count their calls."""

    def __init__(self) -> None:
        self.is_mended = False
        self.steps = 0
        self.engine = create_test_engine(agents={"*": self.answer})

    def answer(self, call: Any) -> str:
        if not self.is_mended:
            raise RuntimeError("the model broke")
        return "good"

    def count(self) -> int:
        self.steps += 1
        return self.steps


@pytest.fixture
def counting() -> Counting:
    return Counting()


def flow_of(counting: Counting) -> Any:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        async def branch() -> Any:
            return await ctx.step("count", counting.count)

        counted = await ctx.parallel([branch, branch])
        asked = await ctx.agent("ask", memoize_outcome=True, on_error="null")
        return [*counted, asked, ctx.random()]

    return flow


async def seqs_of(counting: Counting, kind: str, scope: str = "") -> list[int]:
    return [e.seq for e in await counting.engine.store.load("r") if e.kind == kind and e.scope == scope]


async def test_what_took_the_place_of_an_invalidated_outcome_is_served_ever_after(counting: Counting) -> None:
    flow = flow_of(counting)
    async with counting.engine as engine:
        first = await engine.run(flow, run_id="r").result()
        assert first.value[:3] == [1, 2, None]
        counting.is_mended = True
        assert (await engine.resume("r", flow).result()).value == first.value  # the failure is memoized
        begun, ended = (await seqs_of(counting, "step", "par:0:1"))[0], (await seqs_of(counting, "agent"))[1]
        again = engine.resume("r", flow, invalidate=[begun, ended])
        value = (await again.result()).value
        assert value == [1, 3, "good", first.value[3]]
        preview = await again.preview()
        assert (preview.hits, preview.misses, preview.reruns) == (2, 0, 2)
        for _ in range(2):
            served = engine.resume("r", flow)
            assert (await served.result()).value == value
            preview = await served.preview()
            assert (preview.hits, preview.misses, preview.reruns) == (4, 0, 0)
        assert counting.steps == 3


async def test_a_number_that_was_drawn_is_drawn_anew_when_it_is_invalidated(counting: Counting) -> None:
    flow = flow_of(counting)
    async with counting.engine as engine:
        first = (await engine.run(flow, run_id="r").result()).value
        drawn = (await seqs_of(counting, "rand"))[0]
        second = (await engine.resume("r", flow, invalidate=[drawn]).result()).value
        assert second[3] != first[3]
        assert (await engine.resume("r", flow).result()).value == second


async def test_a_replay_and_a_minimized_journal_hold_what_took_the_place(counting: Counting) -> None:
    flow = flow_of(counting)
    async with counting.engine as engine:
        await engine.run(flow, run_id="r").result()
        counting.is_mended = True
        begun = (await seqs_of(counting, "agent"))[0]
        value = (await engine.resume("r", flow, invalidate=[begun]).result()).value
        entries = await engine.store.load("r")
        replayed = await replay_run(flow, journal=entries)
        assert replayed.outcome.value == value
        small = minimize_with(engine, flow, Bundle("r", {}, entries), None)
        assert (await replay_run(flow, journal=small.run.entries)).outcome.value == value


async def test_a_dry_run_with_an_invalidated_entry_stops_there_and_writes_nothing(counting: Counting) -> None:
    flow = flow_of(counting)
    async with counting.engine as engine:
        await engine.run(flow, run_id="r").result()
        before = [entry.line for entry in await engine.store.load("r")]
        begun = (await seqs_of(counting, "agent"))[0]
        outcome = await engine.resume("r", flow, dry_run=True, invalidate=[begun]).result()
        assert outcome.error is not None
        assert outcome.error.code == "journal_miss"
        assert [entry.line for entry in await engine.store.load("r")] == before


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (99, "run 'r' has no entry 99; its last one is"),
        (-1, "has no entry -1"),
        ("4", "expected the seq of an entry, got '4'"),
        (True, "expected the seq of an entry, got True"),
        (1.0, "expected the seq of an entry, got 1.0"),
    ],
)
async def test_what_is_no_seq_of_the_run_is_refused_before_anything_runs(
    counting: Counting, wrong: Any, problem: str
) -> None:
    flow = flow_of(counting)
    async with counting.engine as engine:
        await engine.run(flow, run_id="r").result()
        before = [entry.line for entry in await engine.store.load("r")]
        with pytest.raises(ConfigError, match=problem):
            await engine.resume("r", flow, invalidate=[wrong]).result()
        assert [entry.line for entry in await engine.store.load("r")] == before


async def test_an_entry_that_is_never_run_again_is_refused(counting: Counting) -> None:
    flow = flow_of(counting)
    async with counting.engine as engine:
        await engine.run(flow, run_id="r").result()
        settle = (await seqs_of(counting, "decision"))[-1]
        with pytest.raises(ConfigError, match=f"entry {settle} of run 'r' is of kind 'decision'"):
            await engine.resume("r", flow, invalidate=[settle]).result()


async def test_one_number_is_no_list_of_seqs(counting: Counting) -> None:
    async with counting.engine as engine:
        with pytest.raises(ConfigError, match=r"invalidate=\[\.\.\.\]"):
            engine.resume("r", flow_of(counting), invalidate=3)  # type: ignore[arg-type]


async def test_an_entry_inside_a_child_is_run_again_and_the_rest_of_the_child_is_served() -> None:
    calls: list[str] = []
    engine = create_test_engine(
        agents={"*": lambda call: calls.append(call.prompt) or f"{call.prompt} {len(calls)}"},
        budget_defaults={"max_depth": 2},
    )

    @workflow(name="inner")
    async def inner(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent("a"), await ctx.agent("b")]

    @workflow(name="middle")
    async def middle(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(inner, 1)

    @workflow(name="outer")
    async def outer(ctx: Ctx, args: Any) -> Any:
        return [await ctx.workflow(middle, 1), await ctx.agent("c")]

    async with engine:
        assert (await engine.run(outer, run_id="r").result()).value == [["a 1", "b 2"], "c 3"]
        entries = await engine.store.load("r")
        begun = next(e.seq for e in entries if e.kind == "agent" and e.scope == "wf:middle:0/wf:inner:0")
        again = await engine.resume("r", outer, invalidate=[begun]).result()
        assert again.value == [["a 4", "b 2"], "c 3"]
        assert (await engine.resume("r", outer).result()).value == again.value
        once_more = await engine.resume("r", outer, invalidate=[begun]).result()
        assert once_more.value == [["a 5", "b 2"], "c 3"]  # any attempt of a call names the call
        assert calls == ["a", "b", "c", "a", "a"]


async def test_a_call_of_a_later_segment_is_no_repetition_of_one_that_is_only_now_invalidated() -> None:
    calls: list[str] = []
    engine = create_test_engine(agents={"*": lambda call: calls.append("p") or str(len(calls))})

    @workflow(name="twice")
    async def twice(ctx: Ctx, args: Any) -> Any:
        first = await ctx.agent("p")
        await ctx.await_external("go")
        return [first, await ctx.agent("p")]

    async with engine:
        run = engine.run(twice, run_id="r")
        await run.result()
        await run.resolve_external("go", 1)
        assert (await engine.resume("r", twice).result()).value == ["1", "2"]
        begun = next(e.seq for e in await engine.store.load("r") if e.kind == "agent")
        assert (await engine.resume("r", twice, invalidate=[begun]).result()).value == ["3", "2"]
        assert (await engine.resume("r", twice).result()).value == ["3", "2"]
