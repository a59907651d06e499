"""Agents with children whose process dies, at every write: nothing is paid twice, nothing is counted twice or lost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from rulvar import Agent, Engine, InMemoryStore, agent_as_tool, tool
from rulvar.agents import Limits
from rulvar.testing import final, scripted_model, tool_calls


class Diary:
    """A store that keeps what its disk held after each write."""

    immediate = False

    def __init__(self) -> None:
        self.inner = InMemoryStore()
        self.pages: list[InMemoryStore] = []
        self.transcripts = _Transcripts(self)

    async def append(self, run_id: str, entries: Any, **lease: Any) -> None:
        await self.inner.append(run_id, entries, **lease)
        await self.turn_over()

    async def turn_over(self) -> None:
        self.pages.append(await copied(self.inner))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("append_now"):
            raise AttributeError(name)
        return getattr(self.inner, name)


class _Transcripts:
    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    async def put(self, ref: str, data: bytes, **lease: Any) -> None:
        await self.diary.inner.transcripts.put(ref, data, **lease)
        await self.diary.turn_over()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.diary.inner.transcripts, name)


async def copied(store: InMemoryStore) -> InMemoryStore:
    """Return what another process finds, the lease of the first one gone."""
    copy_of = InMemoryStore()
    copy_of.append_now("r", await store.load("r"))
    copy_of.transcripts = copy.deepcopy(store.transcripts)
    meta = await store.load_meta("r")
    assert meta is not None
    await copy_of.save_meta("r", meta)
    return copy_of


def turns(*answers: Any) -> list[Callable[[Any], Any]]:
    """Return a model that answers by how far its conversation is, whatever process asks it."""

    def step(request: Any) -> Any:
        answer = answers[sum(message.role == "assistant" for message in request.messages)]
        return answer(request) if callable(answer) else answer

    return [step] * 40


def look(text: str) -> dict[str, Any]:
    return {"tool_id": "look", "id": f"look-{text}", "input": {"text": text}}


def ask(text: str, call_id: str | None = None) -> dict[str, Any]:
    return {"tool_id": "expert", "id": call_id or f"ask-{text}", "input": {"input": text}}


class House:
    """A boss that asks an expert twice, and looks; both pay for their models and tools."""

    exact: ClassVar[dict[str, int]] = {
        "max_model_calls": 9, "max_tool_calls": 8, "max_descendants": 2, "max_steps": 3, "max_cost_micros": 63,
    }  # fmt: skip

    def __init__(self, **limits: Any) -> None:
        self.looked: list[str] = []

        @tool(id="look", effects="read", cost_micros=1)
        def look_up(text: str) -> str:
            self.looked.append(text)
            return text

        expert_turns = turns(
            tool_calls(look("x"), cost_micros=7),
            tool_calls(look("y"), cost_micros=7),
            final("known", cost_micros=7),
        )
        self.expert = Agent(
            id="expert",
            model=scripted_model(expert_turns, id="expert", max_cost_micros=7),
            tools=[look_up],
        )
        boss_turns = turns(
            tool_calls(ask("1"), look("a"), ask("2"), cost_micros=5),
            tool_calls(look("b"), cost_micros=5),
            final("done", cost_micros=5),
        )
        self.boss = Agent(
            id="boss",
            model=scripted_model(boss_turns, id="boss", max_cost_micros=5),
            tools=[agent_as_tool(self.expert), look_up],
            limits=Limits(**{**self.exact, **limits}),
        )

    @property
    def asked(self) -> int:
        return len(self.boss.model.calls) + len(self.expert.model.calls)


def counted(view: Any) -> tuple[Any, ...]:
    return (view.agent_id, view.status, view.steps, view.model_calls, view.tool_calls)


async def resumed(page: InMemoryStore, house: House) -> tuple[Any, Any]:
    async with Engine(journal=await copied(page)) as engine:
        run = engine.resume("r", house.boss, args="hi")
        return await run.result(), engine.inspect(run)


async def lived(house: House) -> Diary:
    diary = Diary()
    async with Engine(journal=diary) as engine:
        outcome = await engine.run(house.boss, "hi", run_id="r").result()
    assert (outcome.status, outcome.value) == ("ok", "done")
    return diary


async def test_an_agent_with_children_ends_alike_wherever_its_process_dies() -> None:
    diary = await lived(House())
    assert len(diary.pages) > 25
    asked = []
    for number, page in enumerate(diary.pages):
        house = House()
        outcome, view = await resumed(page, house)
        assert (outcome.status, outcome.value) == ("ok", "done"), number
        assert view.budget.spent_micros == 63, number
        (boss,) = view.agents
        assert counted(boss) == ("boss", "ok", 3, 9, 8), number
        assert [counted(child) for child in boss.children] == [("expert", "ok", 3, 3, 2)] * 2, number
        asked.append(house.asked)
    assert asked[0] == 9
    assert asked[-1] == 0
    assert asked == sorted(asked, reverse=True)  # a later page leaves less to pay


@pytest.mark.parametrize("limit", ["max_model_calls", "max_descendants", "max_cost_micros"])
async def test_a_limit_holds_over_all_processes_of_an_agent(limit: str) -> None:
    diary = await lived(House())
    pages = [page for page in diary.pages if await uses(page, limit) < House.exact[limit]]
    assert len(pages) > 10
    for number, page in enumerate(pages):
        outcome, _ = await resumed(page, House(**{limit: House.exact[limit] - 1}))
        code = "budget_exceeded" if limit == "max_cost_micros" else "limit_exceeded"
        assert outcome.error is not None, number
        assert outcome.error.code == code, number


async def uses(page: InMemoryStore, limit: str) -> int:
    """Return how much of a limit a journal has used."""
    entries = await page.load("r")
    if limit == "max_descendants":
        return sum(entry.kind == "child" and entry.ref is None for entry in entries)
    exchanges = sum("provider-call" in str(entry.value) for entry in entries)
    return exchanges if limit == "max_model_calls" else 54 + exchanges  # each exchange costs something


async def test_the_same_question_in_a_later_turn_is_asked_again_after_a_resume() -> None:
    def house(answers: list[str]) -> Agent[Any]:
        expert = Agent(
            id="expert", model=scripted_model([lambda request: final(answers.pop(0))] * 9, id="expert")
        )
        boss = turns(
            tool_calls(ask("ready?", "one")),
            tool_calls(ask("ready?", "two")),
            lambda request: final(request.messages[-1].result),
        )
        return Agent(id="boss", model=scripted_model(boss, id="boss"), tools=[agent_as_tool(expert)])

    diary = Diary()
    async with Engine(journal=diary) as engine:
        outcome = await engine.run(house(["no", "yes"]), "hi", run_id="r").result()
    assert outcome.value == "yes"
    for page in diary.pages:
        left = ["no", "yes"]
        begun = [entry for entry in await page.load("r") if entry.kind == "child" and entry.ref is None]
        done = [entry for entry in await page.load("r") if entry.kind == "agent" and entry.status == "ok"]
        del left[: len(done)]
        async with Engine(journal=await copied(page)) as engine:
            outcome = await engine.resume("r", house(left), args="hi").result()
        assert (outcome.status, outcome.value) == ("ok", "yes"), (len(begun), len(done))


async def test_a_human_is_asked_again_for_the_same_call_in_a_later_turn() -> None:
    paid: list[str] = []

    def desk() -> Agent[Any]:
        @tool(id="pay", needs_approval=True)
        def pay(who: str) -> str:
            paid.append(who)
            return who

        def call(number: int) -> Any:
            return tool_calls({"tool_id": "pay", "id": f"c{number}", "input": {"who": "ann"}})

        return Agent(id="desk", model=scripted_model(turns(call(1), call(2), final("Done."))), tools=[pay])

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        outcome = await engine.run(desk(), "hi", run_id="r").result()
    for number in (1, 2):
        assert (outcome.status, len(outcome.pending), len(paid)) == ("suspended", 1, number - 1)
        async with Engine(journal=store) as engine:
            await engine.resolve_external("r", outcome.pending[0].key, {"decision": "allow"})
            outcome = await engine.resume("r", desk(), args="hi").result()
    assert (outcome.status, outcome.value, paid) == ("ok", "Done.", ["ann", "ann"])


async def test_a_raised_budget_goes_on_inside_the_child_and_makes_no_write_again() -> None:
    paid: list[str] = []

    def house() -> tuple[Agent[Any], Agent[Any]]:
        @tool(id="pay", effects="write", cost_micros=2)
        def pay(who: str) -> str:
            paid.append(who)
            return who

        def call(who: str) -> dict[str, Any]:
            return {"tool_id": "pay", "id": f"pay-{who}", "input": {"who": who}}

        steps = turns(
            tool_calls(call("bob"), cost_micros=7),
            tool_calls(call("cid"), cost_micros=7),
            final("known", cost_micros=7),
        )
        expert = Agent(id="expert", model=scripted_model(steps, id="expert", max_cost_micros=7), tools=[pay])
        steps = turns(tool_calls(call("ann"), ask("1"), cost_micros=5), final("done", cost_micros=5))
        boss = Agent(
            id="boss",
            model=scripted_model(steps, id="boss", max_cost_micros=5),
            tools=[agent_as_tool(expert), pay],
        )
        return boss, expert

    store, everything = InMemoryStore(), 5 + 2 + 7 + 2 + 7 + 2 + 7 + 5
    boss, expert = house()
    asked, ceilings = 0, [6, 8, 15, 17, 25, 30, 35, everything]
    async with Engine(journal=store) as engine:
        outcome = await engine.run(boss, "hi", run_id="r", budget_usd=ceilings[0] / 1e6).result()
    asked += len(boss.model.calls) + len(expert.model.calls)
    for ceiling in ceilings[1:]:
        assert (outcome.status, outcome.error.code) == ("exhausted", "budget_exceeded"), ceiling
        boss, expert = house()
        async with Engine(journal=store) as engine:
            run = engine.resume("r", boss, args="hi", budget_usd=ceiling / 1e6)
            outcome, view = await run.result(), engine.inspect(run)
        asked += len(boss.model.calls) + len(expert.model.calls)
    assert (outcome.status, outcome.value) == ("ok", "done")
    assert paid == ["ann", "bob", "cid"]
    assert (asked, view.budget.spent_micros) == (5, everything)
    assert [counted(child) for child in view.agents[0].children] == [("expert", "ok", 3, 3, 2)]
