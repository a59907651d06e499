"""Random workflows of the scenario language, the model and the human that answer them, and a store that stops."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from fixed_clock import Fixed
from hypothesis import strategies as st
from scenario_language import ScenarioWorkflow, scenario_tools

from rulvar import Ctx, Engine, ModelPricing, Workflow
from rulvar.contracts.entries import JournalEntry
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.errors import LeaseHeldError, ResolutionError, StoreError
from rulvar.stores import InMemoryStore
from rulvar.testing import FakeAdapter, fake_tool_calls, fake_wire_error
from rulvar.testing.engine import fake_routing

RUN = "r"
NAMES = st.sampled_from(["a", "b", "c"])
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
TOOLS: dict[str, Any] = {
    "search": {"behavior": {"value": {"hits": 2}}},
    "broken": {"behavior": {"throws": "out of order"}},
    "danger": {"behavior": {"value": "deleted"}, "needsApproval": True, "risk": "destructive"},
    "forbidden": {"behavior": {"value": "never"}, "needsApproval": True, "risk": "destructive"},
}
"""A human allows ``danger`` and denies ``forbidden``."""

PLANS: dict[str, list[list[str]]] = {
    "look": [["search"], ["search", "search"]],
    "mixed": [["search", "broken"]],
    "delete": [["danger"], ["search"]],
    "both": [["danger", "forbidden", "search"]],
    "twice": [["danger"], ["danger"]],
}
"""By the first word of a prompt: the tools that the model calls, turn by turn."""

PRICED = {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1000}
RESERVE_USD = 0.15
"""More than any call of this language costs at ``PRICED``."""


def scenario() -> dict[str, Any]:
    """Return the facts that every random workflow has in common."""
    described = {
        name: {"description": name, "parameters": {"type": "object", "properties": {}}, **facts}
        for name, facts in TOOLS.items()
    }
    return {"agents": {}, "tools": described}


# -- the workflows -----------------------------------------------------------------------------------


def agent(kind: str, name: str, **opts: Any) -> dict[str, Any]:
    return {"agent": f"{kind} {name}", "opts": opts, "as": name}


def caught(body: list[Any], name: str) -> dict[str, Any]:
    return {"try": body, "catch": [{"step": "mended", "value": "{{error.name}}", "as": name}]}


def agents_that_answer() -> st.SearchStrategy[Any]:
    return st.one_of(
        NAMES.map(lambda p: agent("ask", p)),
        st.builds(lambda p, q: {"agent": "about {{" + q + "}}", "as": p}, NAMES, NAMES),
        st.builds(
            lambda kind, p, isolation: agent(kind, p, tools=list(TOOLS), isolation=isolation),
            st.sampled_from(sorted(PLANS)),
            NAMES,
            st.sampled_from(["none", "readonly"]),
        ),
        st.builds(
            lambda kind, p, label: agent(kind, p, schema=SCHEMA, label=label, effort="low"),
            st.sampled_from(["typed", "mistyped"]),
            NAMES,
            NAMES,
        ),
        st.builds(lambda p, k: agent("ask", p, key=k), NAMES, NAMES),
        NAMES.map(lambda p: agent("spare", p, fallback={"model": "fake:backup", "on": ["error"]})),
        NAMES.map(lambda p: {"brief": {"content": "of {{" + p + "}}"}, "as": p}),
    )


def agents_that_fail(memoized: st.SearchStrategy[bool]) -> st.SearchStrategy[Any]:
    failing = st.builds(
        lambda kind, p, memo: agent(
            kind,
            p,
            tools=["search"],
            limits={"maxTurns": 2},
            retry={"attempts": 2, "backoff": {"initialMs": 1}},
            memoizeOutcome=memo,
        ),
        st.sampled_from(["fail", "down", "loop"]),
        NAMES,
        memoized,
    )
    return failing.flatmap(
        lambda op: st.sampled_from(
            [
                caught([op], op["as"]),
                {**op, "opts": {**op["opts"], "onError": "null"}},
                {
                    **op,
                    "opts": {**op["opts"], "result": "full"},
                    "full_fields": ["status", "output", "error"],
                },
            ]
        )
    )


def simple_ops() -> st.SearchStrategy[Any]:
    return st.one_of(
        agents_that_answer(),
        agents_that_fail(st.booleans()),
        st.builds(lambda p, v: {"step": f"step {p}", "value": v, "as": p}, NAMES, st.integers(0, 3)),
        st.builds(
            lambda p, q, k: {
                "step": p,
                "deps": ["{{" + q + "}}"],
                "value": "{{" + q + "}}",
                "as": p,
                **({"key": k} if k else {}),
            },
            NAMES,
            NAMES,
            st.sampled_from([None, None, "k"]),
        ),
        st.builds(
            lambda p, bad: caught([{"step": f"bad {p}", **bad}], p),
            NAMES,
            st.sampled_from([{"throws": "broken"}, {"value_nan": True}]),
        ),
        NAMES.map(lambda p: caught([{"throw": "plain"}], p)),
        st.builds(
            lambda p, k, schema: {
                "awaitExternal": f"gate {k}",
                "opts": {"prompt": f"{k}?", **({"schema": {"type": "object"}} if schema else {})},
                "as": p,
            },
            NAMES,
            NAMES,
            st.booleans(),
        ),
        st.just({"random": "k", "as": "r"}),
        st.just({"random": "", "as": "r"}),
        st.just({"uuid": True, "as": "u"}),
        st.just({"now": True, "as": "n"}),
        st.just({"log": "info", "msg": "at {{a}}"}),
        st.sampled_from([{"budget": "spent"}, {"budget": "remaining"}]),
        st.just({"sleep": 0}),
    )


def one_failure(branches: list[list[Any]]) -> list[list[Any]]:
    """Return branches of which one at most can fail: which of two fails first is a matter of time."""
    throwing = [number for number, body in enumerate(branches) if {"throw": "branch"} in body]
    return [
        [op for op in body if op != {"throw": "branch"} or number == throwing[0]]
        for number, body in enumerate(branches)
    ]


def has_abort(value: Any) -> bool:
    """Whether a branch may end others: how far those had come is a matter of time, and may be another in a replay."""
    if isinstance(value, list):
        return any(map(has_abort, value))
    if not isinstance(value, dict):
        return False
    aborts = value.get("abortSiblings") and any({"throw": "branch"} in body for body in value["parallel"])
    return bool(aborts) or any(map(has_abort, value.values()))


def ops(depth: int) -> st.SearchStrategy[Any]:
    """Return the operations of the language, with blocks of that depth."""
    simple = simple_ops()
    if depth == 0:
        return simple
    blocks = st.lists(ops(depth - 1), min_size=0, max_size=3)
    returning = blocks.map(lambda body: [*body, {"return": ["{{a}}", "{{b}}"]}])
    ending = st.builds(
        lambda body, throws: [*body[:-1], {"throw": "branch"}] if throws else body,
        returning,
        st.sampled_from([False, False, False, True]),
    )
    return st.one_of(
        simple,
        st.builds(
            lambda branches: {"parallel": branches, "settle": True, "as": "a"}, st.lists(ending, max_size=3)
        ),
        st.builds(
            lambda branches, abort: caught(
                [{"parallel": one_failure(branches), "abortSiblings": abort, "as": "a"}], "b"
            ),
            st.lists(ending, max_size=3),
            st.booleans(),
        ),
        st.builds(
            lambda stages, mode: {"pipeline": [1, 2], "stages": stages, "onItemError": mode, "as": "b"},
            st.lists(ending, min_size=1, max_size=2),
            st.sampled_from(["drop", "collect"]),
        ),
        st.builds(
            lambda name, body, key: caught(
                [{"workflow": {"name": name, "body": body}, "args": {"n": 1}, "key": key, "as": "c"}], "c"
            ),
            NAMES,
            ending,
            st.sampled_from([None, None, "k"]),
        ),
        st.builds(lambda body: {"phase": "p", "body": body}, blocks),
        st.builds(lambda n, body: {"repeat": n, "body": body}, st.integers(0, 2), blocks),
        st.builds(
            lambda p, q, then, other: {"if": ["{{" + p + "}}", "{{" + q + "}}"], "then": then, "else": other},
            NAMES,
            NAMES,
            blocks,
            blocks,
        ),
    )


BODIES = st.lists(ops(2), min_size=1, max_size=5).map(
    lambda body: [*body, {"return": ["{{a}}", "{{b}}", "{{c}}", "{{r}}", "{{u}}", "{{n}}"]}]
)


# -- the model and the human -------------------------------------------------------------------------


def answer(call: Any) -> Any:
    """Answer by the request alone, so that a call that is made again is answered the same."""
    messages = call.req.messages
    asked = next(m for m in messages if m.role == "user").to_wire()
    prompt = "".join(part.get("text", "") for part in asked["parts"])
    word = prompt.partition(" ")[0]
    turn = sum(message.role == "tool" for message in messages)
    plan = PLANS.get(word, [])
    if word == "fail" or (word == "spare" and call.req.model != "backup"):
        raise RuntimeError("failed")
    if word == "down":
        return fake_wire_error(message="down", retryable=True, data={"kind": "transport"})
    if word == "loop":
        return fake_tool_calls(name="search", args={})
    if word == "mistyped" and sum(message.role == "user" for message in messages) == 1:
        return {"n": "no number"}
    if word in ("typed", "mistyped"):
        return {"n": 1}
    if turn < len(plan):
        return fake_tool_calls(*({"name": name, "args": {}} for name in plan[turn]))
    seen = [part for message in messages if message.role == "tool" for part in message.to_wire()["parts"]]
    told = [part.get("result", part.get("text")) for part in seen]
    return f"{zlib.crc32(repr((prompt, told)).encode()):08x}"


def decision(prompt: str | None) -> dict[str, Any]:
    return {"decision": "deny", "reason": "no"} if "forbidden" in (prompt or "") else {"decision": "allow"}


def reply_to(key: str, prompt: str | None) -> Any:
    """Return what the human says to a wait."""
    return decision(prompt) if key.startswith("approval:") else {"said": key}


def answer_while_it_runs(handle: Any) -> set[asyncio.Task[Any]]:
    """Let the human answer at once; an answer that comes too late is given again."""
    tasks: set[asyncio.Task[Any]] = set()

    async def resolve(key: str, value: Any) -> None:
        with suppress(ResolutionError, LeaseHeldError, StoreError, NoDiskError):
            await handle.resolve_external(key, value)

    def start(key: str, value: Any) -> None:
        tasks.add(asyncio.ensure_future(resolve(key, value)))

    handle.on("approval:pending", lambda e: start(f"approval:{e['entryRef']}", decision(str(e))))
    handle.on("external:waiting", lambda e: start(e["key"], reply_to(e["key"], None)))
    return tasks


# -- the runs ----------------------------------------------------------------------------------------


class NoDiskError(OSError):
    """The machine has lost its disk."""


class Stopping(InMemoryStore):
    """Takes n appends and then nothing more, as a machine that has lost its disk."""

    def __init__(self, appends: int | None = None) -> None:
        super().__init__()
        self.left = appends
        self.appends = 0
        self.seen: list[tuple[str, bytes]] = []
        keep = self.transcripts.put

        async def put(ref: str, data: bytes, **lease: Any) -> None:
            self._check()
            await keep(ref, data, **lease)
            self.seen.append((ref, data))

        self.transcripts.put = put  # type: ignore[method-assign]

    def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        self._check()
        self.appends += 1
        super().append_now(run_id, entries)

    async def save_meta(self, run_id: str, meta: Any, **lease: Any) -> None:
        self._check()
        await super().save_meta(run_id, meta, **lease)

    def _check(self) -> None:
        if self.left is not None and self.appends >= self.left:
            raise NoDiskError("no disk")

    async def survived(self, ceiling: float | None = None) -> Stopping:
        """Return a store with what had been written; a run without a meta row gets one with that ceiling."""
        store = Stopping()
        if entries := await self.load(RUN):
            InMemoryStore.append_now(store, RUN, entries)
        meta = await self.load_meta(RUN)
        first = {"runId": RUN, "status": "running", "segments": 1, "workflowName": "w"}
        await store.save_meta(RUN, meta or (first if ceiling is None else {**first, "budgetUsd": ceiling}))
        for ref, data in self.seen:
            await store.transcripts.put(ref, data)
        return store


class KeyedScenario(ScenarioWorkflow):
    """Gives every wait of a scope a key of its own, as the engine asks of whoever writes a workflow."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._asked: WeakKeyDictionary[Any, Counter[tuple[str, str]]] = WeakKeyDictionary()

    async def op_awaitExternal(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        place = CURRENT_PLACE.get()
        assert place is not None
        asked = self._asked.setdefault(place.run, Counter())
        at = (place.scope, op["awaitExternal"])
        asked[at] += 1
        key = at[1] if asked[at] == 1 else f"{at[1]} {asked[at]}"
        return await super().op_awaitExternal(ctx, {**op, "awaitExternal": key}, env)


class Runner:
    """Runs one random workflow over and over; a human answers each suspension.

    Attributes:
        ceiling: of every run, in USD; calls cost nothing without one.
        live: whether the human answers while the run goes on, and not only once it is suspended.
        calls: how often the model was asked, by the last prompt of the call.
        updates: what each segment said of its budget, in order.
    """

    def __init__(self, body: Any, *, ceiling: float | None = None, live: bool = False) -> None:
        facts = scenario()
        self.workflow: Workflow[Any] = KeyedScenario(facts, scenario_tools(facts)).build(
            {"name": "w", "body": body}
        )
        self.ceiling = ceiling
        self.live = live
        self.calls: Counter[str] = Counter()
        self.updates: list[list[Mapping[str, Any]]] = []

    def engine(self, store: InMemoryStore) -> tuple[Engine, FakeAdapter]:
        caps = None if self.ceiling is None else {"pricing": ModelPricing.from_wire(PRICED)}
        fake = FakeAdapter(agents={"*": answer}, caps_overrides=caps)
        fixed = Fixed()
        engine = Engine(
            adapters=[fake],
            journal=store,
            routing=fake_routing(),
            clock=fixed,
            entropy=fixed,
            budget_defaults={"max_depth": 4, "flat_reserve_usd": RESERVE_USD},
        )
        return engine, fake

    async def segment(self, store: InMemoryStore, *, resume: bool) -> tuple[Any, Any]:
        """Run one segment; return its outcome and, of a resumed one, its preview."""
        engine, fake = self.engine(store)
        try:
            if resume:
                handle: Any = engine.resume(RUN, self.workflow)
            else:
                handle = engine.run(self.workflow, run_id=RUN, budget_usd=self.ceiling)
            tasks = answer_while_it_runs(handle) if self.live else set()
            outcome = await asyncio.wait_for(handle.result(), 20)
            await asyncio.gather(*tasks)
            preview = await handle.preview() if resume else None
            self.updates.append([e.to_wire() async for e in handle.events if e.type == "budget:update"])
        finally:
            await engine.close()
        self.calls.update(call.prompt for call in fake.calls)
        return outcome, preview

    async def to_the_end(self, store: InMemoryStore, *, resume: bool = False) -> Any:
        """Run, answer what is asked, and resume until nothing is asked any more."""
        for _ in range(100):
            outcome, _ = await self.segment(store, resume=resume)
            if outcome.status != "suspended":
                return outcome
            assert outcome.pending
            await self.answer(store, outcome.pending)
            resume = True
        raise AssertionError("the run asks for ever")

    async def answer(self, store: InMemoryStore, pending: Sequence[Any]) -> None:
        """Answer the waits of a suspended run."""
        engine, _ = self.engine(store)
        async with engine:
            for wait in pending:
                try:
                    await engine.resolve_external(
                        RUN, wait.key, reply_to(wait.key, wait.prompt), wf=self.workflow
                    )
                except ResolutionError:  # an answer came while the run was being suspended
                    assert self.live
