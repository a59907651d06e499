"""A stored run in which something is wrong: it resumes, or is refused by a typed error; never a crash or a hang.

A run of every kind of call is recorded once and stopped behind some entry. Then a few values of its journal,
its meta row or its checkpoints are replaced by others, moved or taken away, and it is resumed and looked at.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulvar import Ctx, Engine, MachineCtx, Retry, StateMachine, define_workflow, document, tool, transition
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.errors import RulvarError
from rulvar.machines.report import read_run
from rulvar.stores import InMemoryStore
from rulvar.testing import FakeAdapter, fake_tool_calls
from rulvar.testing.engine import fake_routing

EXAMPLES = int(os.environ.get("RULVAR_FUZZ_EXAMPLES", "80"))  # more of them for a longer look
CRASHES = {"AssertionError", "AttributeError", "IndexError", "KeyError", "OverflowError", "TypeError"}
IS_LONG = "RULVAR_FUZZ_EXAMPLES" in os.environ  # else the same ones in every run
STATUSES = {"ok", "error", "cancelled", "exhausted", "suspended", "blocked", "outcome_unknown"}


@tool
def look(q: str) -> dict[str, Any]:
    """Look a thing up."""
    return {"found": q}


async def inner(ctx: Ctx, args: Any) -> Any:
    return [await ctx.step("inner", lambda: args), ctx.random()]


async def body(ctx: Ctx, args: Any) -> Any:
    first = await ctx.step("first", lambda: {"n": 1})
    said = await ctx.agent("ask", tools=[look])
    typed = await ctx.agent("typed", schema={"type": "object", "required": ["a"]})
    both = await ctx.parallel([lambda n=n: ctx.step(n, lambda: n) for n in "ab"], settle=True)
    piped = await ctx.pipeline([1, 2], lambda item: ctx.step("stage", lambda: item, deps=[item]))
    child = await ctx.workflow(define_workflow("child", inner), {"x": 1})
    when = [ctx.now().isoformat(), ctx.random("k"), str(ctx.uuid())]
    answer = await ctx.await_external("go", schema={"type": "integer"})
    return [first, said, typed, both, piped, child, when, answer, await ctx.step("end", lambda: 1)]


PLAIN = define_workflow("plain", body)


@document
@dataclass
class Note:
    text: str


class Machine(StateMachine):
    """A machine with a document, a tool, a retry and a wait."""

    @transition("asked")
    async def begin(self, ctx: MachineCtx) -> None:
        ctx.state["n"] = 1
        ctx.save(Note("kept"))
        await ctx.call_tool(look, {"q": "x"})
        ctx.result["r"] = await ctx.step("s", lambda: 2)

    @transition("looked", "asked", retry=Retry(2, delay=0))
    async def fail_once(self, ctx: MachineCtx) -> None:
        ctx.state["tried"] = True
        if await ctx.step("tried", lambda: ctx.retry_count) == 0:
            raise RuntimeError("once")

    @transition("end", "looked")
    async def finish(self, ctx: MachineCtx) -> None:
        ctx.result["done"] = await ctx.await_external("go")


WORKFLOWS: dict[str, Any] = {"plain": PLAIN, "machine": Machine}


def answer(call: Any) -> Any:
    if call.prompt == "typed":
        return {"a": 1}
    if call.req.messages[-1].role == "tool":
        return "done"
    return fake_tool_calls(name="look", args={"q": "x"})


def engine_over(store: InMemoryStore) -> Engine:
    return Engine(
        adapters=[FakeAdapter(agents={"*": answer})],
        journal=store,
        routing=fake_routing(),
        workflows=[PLAIN, Machine],
    )


class AsItLies(InMemoryStore):
    """Has a journal in any order, as a file may have it."""

    def __init__(self, entries: list[JournalEntry]) -> None:
        super().__init__()
        self._found = entries

    async def load(self, run_id: str) -> list[JournalEntry]:
        return [*self._found, *await super().load(run_id)]


class Stored:
    """What a store holds of one run, as plain values."""

    def __init__(self, entries: list[dict[str, Any]], meta: dict[str, Any], blobs: dict[str, bytes]) -> None:
        self.entries, self.meta, self.blobs = entries, meta, blobs

    async def restored(self) -> InMemoryStore:
        lines = [decode_entry(json.dumps(wire).encode()) for wire in self.entries]
        store = AsItLies(lines)
        await store.save_meta("r", self.meta)
        for ref, data in self.blobs.items():
            await store.transcripts.put(ref, data)
        return store


async def record(workflow: Any) -> Stored:
    store = InMemoryStore()
    checkpoints: dict[str, bytes] = {}
    keep = store.transcripts.put

    async def put(ref: str, data: bytes, **options: Any) -> None:
        checkpoints[ref] = data
        await keep(ref, data, **options)

    store.transcripts.put = put  # type: ignore[method-assign]
    async with engine_over(store) as engine:
        outcome = await engine.run(workflow, run_id="r").result()
        assert outcome.status == "suspended", outcome.error
        await engine.resolve_external("r", "go", 7)
        outcome = await engine.resume("r").result()
        assert outcome.status == "ok", outcome.error
    wires = [entry.to_wire() for entry in await store.load("r")]
    return Stored(wires, dict(await store.load_meta("r") or {}), checkpoints)


RECORDED = {name: asyncio.run(record(workflow)) for name, workflow in WORKFLOWS.items()}
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(
            None,
            True,
            -1,
            0,
            1,
            3,
            2**70,
            1.5,
            "",
            "x",
            "go",
            "ok",
            "running",
            "suspended",
            "external",
            "decision",
        ),
        *("step", "par:0:0", "wf:child:0", "agent:2", "a/b", "par:", [], [1], [[]], {}, {"a": {}}, {"v": 1}),
    ]
)


def damage(draw: Any, value: Any) -> None:
    """Change one place of a JSON value."""
    while isinstance(value, (dict, list)) and value:
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else list(range(len(value)))))
        inside = value[key]
        if not isinstance(inside, (dict, list)) or not inside or draw(st.integers(0, 3)) == 0:
            if draw(st.integers(0, 2)) == 0:
                del value[key]
            else:
                value[key] = copy.deepcopy(draw(JUNK))
            return
        value = inside


@st.composite
def damaged(draw: Any) -> tuple[str, Stored]:
    name = draw(st.sampled_from(sorted(RECORDED)))
    whole = RECORDED[name]
    stored = Stored(copy.deepcopy(whole.entries), copy.deepcopy(whole.meta), dict(whole.blobs))
    del stored.entries[draw(st.integers(1, len(stored.entries))) :]
    if draw(st.booleans()):
        stored.meta["status"] = "running"
    for _ in range(draw(st.integers(1, 3))):
        what = draw(st.sampled_from(["entry", "entry", "entry", "entry", "meta", "blob", "drop", "swap"]))
        at = draw(st.integers(0, len(stored.entries) - 1)) if stored.entries else 0
        if what == "meta":
            damage(draw, stored.meta)
        elif what == "blob" and stored.blobs:
            ref = draw(st.sampled_from(sorted(stored.blobs)))
            try:
                inside = json.loads(stored.blobs[ref])
                damage(draw, inside)
                stored.blobs[ref] = json.dumps(inside).encode()
            except ValueError:
                stored.blobs[ref] = draw(st.binary(max_size=9))
        elif what == "drop" and stored.entries:
            del stored.entries[at]
        elif what == "swap" and stored.entries:
            other = draw(st.integers(0, len(stored.entries) - 1))
            for field in ("value", "key", "kind", "status", "ref"):
                one, two = stored.entries[at], stored.entries[other]
                one[field], two[field] = two.get(field), one.get(field)
        elif stored.entries:
            damage(draw, stored.entries[at])
    return name, stored


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=not IS_LONG, suppress_health_check=list(HealthCheck)
)
@given(case=damaged())
def test_a_damaged_run_resumes_or_is_refused_by_name(case: tuple[str, Stored]) -> None:
    name, stored = case

    async def check() -> None:
        store = await stored.restored()
        for dry_run in (True, False):
            async with engine_over(store) as engine:
                try:
                    handle = engine.resume("r", WORKFLOWS[name], dry_run=dry_run)
                    outcome = await asyncio.wait_for(handle.result(), 20)
                except RulvarError as refused:
                    assert refused.message
                    continue
                assert outcome.status in STATUSES
                assert outcome.raised is None or outcome.raised.type not in CRASHES, outcome
                json.dumps(outcome.error and outcome.error.to_wire())
        try:
            await read_run(store, "r")
        except RulvarError as refused:
            assert refused.message

    asyncio.run(check())
