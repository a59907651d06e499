"""replay_run: every form in which a recorded run can be handed over."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rulvar import (
    Ctx,
    Engine,
    InMemoryStore,
    JsonlFileStore,
    MachineCtx,
    Preview,
    StateMachine,
    define_workflow,
    tool,
    transition,
    workflow,
)
from rulvar.contracts.ports.observer import OrphanRecord, RunRecord
from rulvar.errors import (
    ConfigError,
    JournalCompatibilityError,
    JournalMissError,
    JournalOrderViolation,
    RulvarError,
)
from rulvar.stores.bundle import KEPT_ARGS, Bundle, encode_bundle
from rulvar.testing import FakeAdapter, create_test_engine, minimize_run, replay_run
from rulvar.testing.collector import RunCollector
from rulvar.testing.engine import fake_routing


@workflow(name="release")
async def release(ctx: Ctx, args: Any) -> Any:
    analysis = await ctx.agent("analyze the release diff", agent_type="analyst")
    gate = await ctx.await_external("release-gate")
    return {"analysis": analysis, "approved": gate["approved"]}


@workflow(name="told")
async def told(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent(f"about {args['topic']} in run {ctx.run_id} with {ctx.budget.remaining().usd}")


PROFILES: dict[str, Any] = {"analyst": {}}


async def recorded(tmp_path: Path, topic: str = "cats", budget_usd: float | None = 3) -> JsonlFileStore:
    store = JsonlFileStore(tmp_path / "runs")
    async with Engine(
        adapters=[FakeAdapter({"*": "an answer"})], journal=store, routing=fake_routing()
    ) as engine:
        outcome = await engine.run(told, {"topic": topic}, run_id="r1", budget_usd=budget_usd).result()
        assert outcome.status == "ok", outcome.error
    return store


async def bundle_of(store: JsonlFileStore, **blobs: bytes) -> Bundle:
    return Bundle("r1", await store.load_meta("r1") or {}, await store.load("r1"), blobs)


async def test_the_same_workflow_replays_with_zero_live_calls() -> None:
    engine = create_test_engine(agents={"analyst": "looks safe"})
    run = engine.run(release)
    await run.result()
    journal = await engine.store.load(run.run_id)

    replayed = await replay_run(release, journal=journal, profiles=PROFILES)
    assert (replayed.preview.misses, replayed.outcome.status) == (0, "suspended")

    @workflow(name="release")
    async def edited(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("analyze the release diff", agent_type="analyst")
        await ctx.agent("INSERTED CALL", agent_type="analyst")
        return "x"

    with pytest.raises(JournalMissError, match="INSERTED CALL"):
        await replay_run(edited, journal=journal, profiles=PROFILES)


async def test_the_path_of_a_journal_is_enough(tmp_path: Path) -> None:
    store = await recorded(tmp_path)
    path = tmp_path / "runs" / "r1.jsonl"
    for journal in (path, str(path), (store, "r1")):
        replayed = await replay_run(told, {"topic": "cats"}, journal=journal)
        assert (replayed.outcome.value, replayed.preview.misses) == ("an answer", 0)


async def test_entries_keep_the_id_of_their_run(tmp_path: Path) -> None:
    store = await recorded(tmp_path, budget_usd=None)
    entries = await store.load("r1")
    for journal in (entries, [entry.to_wire() for entry in entries]):
        assert (await replay_run(told, {"topic": "cats"}, journal=journal)).preview.misses == 0


async def test_an_exported_run_is_replayed_from_its_file_or_object(tmp_path: Path) -> None:
    bundle = await bundle_of(await recorded(tmp_path))
    data = encode_bundle(bundle, "1.0")
    path = tmp_path / "r1.run.json"
    path.write_bytes(data)
    for journal in (path, str(path), bundle, json.loads(data)):
        assert (await replay_run(told, {"topic": "cats"}, journal=journal)).preview.misses == 0


async def test_arguments_that_are_kept_with_the_run_need_not_be_given(tmp_path: Path) -> None:
    store = await recorded(tmp_path)
    with_args = await bundle_of(store, **{KEPT_ARGS: b'{"topic":"cats"}'})
    assert (await replay_run(told, journal=with_args)).preview.misses == 0
    await store.transcripts.put(f"r1/{KEPT_ARGS}", b'{"topic":"cats"}')
    assert (await replay_run(told, journal=(store, "r1"))).preview.misses == 0


async def test_other_arguments_are_refused_before_anything_runs(tmp_path: Path) -> None:
    store = await recorded(tmp_path)
    with pytest.raises(ConfigError, match="args are not those"):
        await replay_run(told, {"topic": "dogs"}, journal=(store, "r1"))
    with pytest.raises(ConfigError, match="kept arguments cannot be read"):
        await replay_run(told, journal=await bundle_of(store, **{KEPT_ARGS: b"{"}))


async def test_a_torn_last_line_is_no_part_of_a_journal_file(tmp_path: Path) -> None:
    await recorded(tmp_path)
    path = tmp_path / "runs" / "r1.jsonl"
    before = path.read_bytes()
    path.write_bytes(before + b'{"seq": 99, "kind": "ag')
    assert (await replay_run(told, {"topic": "cats"}, journal=path)).preview.misses == 0
    assert path.read_bytes().startswith(before)


async def test_damage_is_refused_with_file_and_line(tmp_path: Path) -> None:
    await recorded(tmp_path)
    path = tmp_path / "runs" / "r1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{broken}\n", *lines[1:]]))
    with pytest.raises(JournalOrderViolation, match=r"r1\.jsonl, line 2"):
        await replay_run(told, {"topic": "cats"}, journal=path)


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        (b"5", JournalCompatibilityError, r"kind is missing"),
        (b"null", JournalCompatibilityError, r"kind is missing"),
        (b'{"seq":1}', JournalCompatibilityError, r"kind is missing"),
        (b'{"hashVersion":9,"seq":1,"kind":"step"}', JournalCompatibilityError, r"hashVersion 9"),
        (
            b'{"hashVersion":2,"seq":0,"kind":"note"}',
            JournalOrderViolation,
            r"seq 0, which does not come after 0",
        ),
        (b'{"hashVersion":2,"seq":1,"kind":"abandon"}', JournalOrderViolation, r"points at no entry"),
    ],
)
async def test_an_entry_that_cannot_be_replayed_is_refused_with_file_and_line_or_run_and_entry(
    tmp_path: Path, line: bytes, error: type[Exception], said: str
) -> None:
    await recorded(tmp_path)
    path = tmp_path / "runs" / "r1.jsonl"
    first, _, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"\n", line + b"\n", *rest]))
    with pytest.raises(error, match=rf"r1\.jsonl, line 3\b.*{said}"):
        await replay_run(told, {"topic": "cats"}, journal=path)
    with pytest.raises(error, match=rf"run 'r1': entry 2 of the journal\b.*{said}"):
        await replay_run(told, {"topic": "cats"}, journal=(JsonlFileStore(tmp_path / "runs"), "r1"))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "not an exported run"),
        (b"\xff\xfe\x00", "not an exported run"),
        (b"[]", "not an exported run"),
        (b"{}", "kind"),
        (b'{"kind":"rulvar-run","v":2}', "version 1"),
        (b'{"kind":"rulvar-run","v":1,"runId":"../x"}', "runId"),
        (b'{"kind":"rulvar-run","v":1,"runId":"r","meta":[],"entries":[]}', "meta"),
        (b'{"kind":"rulvar-run","v":1,"runId":"r","meta":{},"entries":[1]}', r"entries\[0\]"),
    ],
)
async def test_a_file_that_is_no_run_is_refused_by_field(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "r.run.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=named):
        await replay_run(told, journal=path)


@pytest.mark.parametrize(
    ("journal", "named"),
    [
        ("nowhere.jsonl", "No such file"),
        ("a\0b.jsonl", "null byte"),
        ("", "directory"),
        (b"bytes", "bytes"),
        (None, "NoneType"),
        (7, "int"),
        ({"kind": "rulvar-vcr"}, "expected entries"),
        ([7], r"journal\[0\]"),
    ],
)
async def test_what_is_no_journal_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: Any, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=named):
        await replay_run(told, journal=journal)


@workflow(name="idle")
async def idle(ctx: Ctx, args: Any) -> Any:
    return args


async def test_a_run_that_made_no_call_is_replayed_in_every_form(tmp_path: Path) -> None:
    for store in (InMemoryStore(), JsonlFileStore(tmp_path / "runs")):
        async with Engine(journal=store) as engine:
            assert (await engine.run(idle, {"a": 1}, run_id="r1").result()).value == {"a": 1}
        assert await store.load("r1") == []
        bundle = Bundle("r1", await store.load_meta("r1") or {}, [])
        path = tmp_path / "r1.run.json"
        path.write_bytes(encode_bundle(bundle, "0"))
        for journal in ([], (store, "r1"), bundle, path):
            replayed = await replay_run(idle, {"a": 1}, journal=journal)
            assert (replayed.outcome.value, replayed.preview) == ({"a": 1}, Preview())
            with pytest.raises(JournalMissError):
                await replay_run(asking(), {"a": 1}, journal=journal)
        with pytest.raises(ConfigError, match="args are not those"):
            await replay_run(idle, {"a": 2}, journal=(store, "r1"))
        small = await minimize_run(idle, {"a": 1}, journal=(store, "r1"))
        assert (small.status, len(small.run.entries)) == ("ok", 0)


async def test_an_unknown_run_and_an_unknown_mode_are_refused(tmp_path: Path) -> None:
    store = await recorded(tmp_path)
    with pytest.raises(ConfigError, match="no run 'r2'"):
        await replay_run(told, journal=(store, "r2"))
    with pytest.raises(ConfigError, match="mode"):
        await replay_run(told, journal=(store, "r1"), mode="lenient")


async def test_a_miss_among_branches_leaves_no_coroutine_behind(recwarn: pytest.WarningsRecorder) -> None:
    @workflow(name="fan")
    async def fan(ctx: Ctx, args: Any) -> Any:
        first = await ctx.agent("first") if args else None
        return await ctx.parallel([ctx.agent(f"a {first}"), ctx.agent("b"), ctx.step("c", lambda: 1)])

    engine = create_test_engine(agents={"*": "ok"})
    run = engine.run(fan)
    await run.result()
    for args in (None, 1):
        journal = (await engine.store.load(run.run_id))[: 2 if args is None else None]
        with pytest.raises(JournalMissError):
            await replay_run(fan, args, journal=journal)
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


JUNK: list[Any] = [None, 1, -1, "x", "", [], {}, [[]], {"a": None}, True, 1e308, "\ud800", 2**70]


def mutated(value: Any, chance: random.Random) -> Any:
    """A JSON value with one thing in it changed or left out."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        changed = {name: item for name, item in value.items() if name != key or chance.random() < 0.7}
        return {**changed, key: mutated(value[key], chance)} if key in changed else changed
    if isinstance(value, list) and value and chance.random() < 0.5:
        place = chance.randrange(len(value))
        return [*value[:place], mutated(value[place], chance), *value[place + 1 :]]
    return chance.choice(JUNK)


async def test_a_journal_that_was_tampered_with_ends_in_an_outcome_or_a_typed_error() -> None:
    @workflow(name="all")
    async def everything(ctx: Ctx, args: Any) -> Any:
        step = await ctx.step("s", lambda: {"a": "x"})
        values = [ctx.random(), ctx.time(), ctx.uuid()]
        both = await ctx.parallel([ctx.agent("one"), ctx.workflow(told, {"topic": "x"})])
        return [step, len(values), both, await ctx.await_external("g", prompt="p")]

    engine = create_test_engine(agents={"*": "ok"})
    run = engine.run(everything, run_id="r1")
    await run.result()
    await run.resolve_external("g", {"x": "y"})
    await engine.resume("r1", everything).result()
    journal = [entry.to_wire() for entry in await engine.store.load("r1")]
    chance = random.Random(5)
    for number in range(150):
        entries = [dict(entry) for entry in journal]
        place = chance.randrange(len(entries))
        changed = mutated(entries[place], chance)
        entries[place] = changed if isinstance(changed, dict) else entries[place]
        if number % 5 == 0:
            chance.shuffle(entries)
        with contextlib.suppress(RulvarError):
            await asyncio.wait_for(replay_run(everything, journal=entries), 10)
        if number % 5 == 1:
            with contextlib.suppress(RulvarError):
                await asyncio.wait_for(minimize_run(everything, journal=entries, blank=number % 2 == 0), 20)


async def test_a_replay_over_other_adapters_routes_nothing_to_the_fake_one() -> None:
    @workflow(name="w")
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("x")

    their = FakeAdapter(agents={"*": "said"}, id="their")
    routing = {"loop": "their:model"}
    async with Engine(adapters=[their], routing=routing) as engine:
        await engine.run(body, run_id="r").result()
        entries = await engine.store.load("r")
    replayed = await replay_run(body, journal=entries, adapters=[their], routing=routing)
    assert (replayed.outcome.value, len(their.calls)) == ("said", 1)


async def test_a_miss_shows_the_recorded_prompt_beside_the_present_one() -> None:
    engine = create_test_engine(agents={"analyst": "looks safe"})
    run = engine.run(release)
    await run.result()

    @workflow(name="release")
    async def edited(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("analyse the release diff", agent_type="analyst")

    with pytest.raises(JournalMissError) as missed:
        await replay_run(edited, journal=(engine.store, run.run_id), profiles=PROFILES)
    lines = [line.strip() for line in str(missed.value).splitlines()[-2:]]
    assert lines == ["recorded analyze the release diff", "now      analyse the release diff"]
    with pytest.raises(JournalMissError, match="transcript that has its words is not at hand"):
        await replay_run(edited, journal=await engine.store.load(run.run_id), profiles=PROFILES)


async def test_a_miss_is_told_where_the_transcript_cannot_be_read(tmp_path: Path) -> None:
    store = await recorded(tmp_path)
    kept = [path for path in (tmp_path / "runs" / "transcripts").rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        path.unlink()
        path.mkdir()

    @workflow(name="told")
    async def edited(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("something else")

    with pytest.raises(JournalMissError, match="transcript that has its words is not at hand"):
        await replay_run(edited, args={"topic": "cats"}, journal=(store, "r1"))


async def test_a_wait_under_another_key_shows_both_keys() -> None:
    engine = create_test_engine(agents={"analyst": "looks safe"})
    run = engine.run(release)
    await run.result()

    @workflow(name="release")
    async def edited(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("analyze the release diff", agent_type="analyst")
        return await ctx.await_external("gate")

    with pytest.raises(JournalMissError) as missed:
        await replay_run(edited, journal=(engine.store, run.run_id), profiles=PROFILES)
    assert [line.split() for line in str(missed.value).splitlines()[-2:]] == [
        ["recorded", "release-gate"],
        ["now", "gate"],
    ]


@tool
def find(words: str) -> str:
    """Find something."""
    return "found"


@tool(id="find")
def find_more(words: str, limit: int = 1) -> str:
    """Find something."""
    return "found"


def asking(*tools: Any) -> Any:
    async def ask(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("what is known?", tools=tools)

    return define_workflow("ask", ask)


@pytest.mark.parametrize("tools", [(find_more,), (find, find_more), ()])
async def test_a_changed_tool_is_not_told_as_another_prompt(tools: Any) -> None:
    tools = tuple(
        replace(item, name=f"find_{n}", id=f"find_{n}") if n else item for n, item in enumerate(tools)
    )
    engine = create_test_engine(agents={"*": "x"})
    run = engine.run(asking(find))
    await run.result()
    with pytest.raises(JournalMissError) as missed:
        await replay_run(asking(*tools), journal=(engine.store, run.run_id))
    [told] = missed.value.data["differences"]
    assert told["path"] == "tools or schema"
    assert "the prompt, the agent type and the model are the recorded ones" in str(missed.value)
    with pytest.raises(JournalMissError, match="its prompt, tools or schema") as missed:
        await replay_run(asking(*tools), journal=await engine.store.load(run.run_id))
    assert "any of which may be what differs" in str(missed.value)


async def test_a_missed_tool_call_or_transition_is_shown_beside_the_recorded_one() -> None:
    def calling(words: str) -> Any:
        async def call(ctx: Ctx, args: Any) -> Any:
            return await ctx.call_tool(find, {"words": words})

        return define_workflow("call", call)

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        await engine.run(calling("owls"), run_id="bare").result()
        await engine.run(calling("owls"), run_id="traced", trace=True).result()
        await engine.run(Bake, run_id="machine").result()
    with pytest.raises(JournalMissError) as missed:
        await replay_run(calling("cats"), journal=(store, "traced"))
    [told] = missed.value.data["differences"]
    assert told == {"path": "tool", "recorded": 'find({"words":"owls"})', "actual": 'find({"words":"cats"})'}
    with pytest.raises(JournalMissError, match="a hash of its arguments: a run with --trace keeps them"):
        await replay_run(calling("cats"), journal=(store, "bare"))
    with pytest.raises(JournalMissError) as missed:
        await replay_run(BakeLonger, journal=(store, "machine"))
    [told] = missed.value.data["differences"]
    assert (told["recorded"], told["actual"]) == ("heat: mixed -> end", "rest: mixed -> rested")


class Bake(StateMachine):
    @transition(to="mixed")
    def mix(self, ctx: MachineCtx) -> None: ...

    @transition(from_="mixed", to="end")
    def heat(self, ctx: MachineCtx) -> None: ...


class BakeLonger(StateMachine, name="bake"):
    @transition(to="mixed")
    def mix(self, ctx: MachineCtx) -> None: ...

    @transition(from_="mixed", to="rested")
    def rest(self, ctx: MachineCtx) -> None: ...

    @transition(from_="rested", to="end")
    def heat(self, ctx: MachineCtx) -> None: ...


async def test_entries_that_no_store_could_have_handed_out_are_refused_by_index() -> None:
    engine = create_test_engine(agents={"*": "x"})
    run = engine.run(asking())
    await run.result()
    entries = [entry.to_wire() for entry in await engine.store.load(run.run_id)]
    with pytest.raises(ConfigError, match=r"journal\[1\].seq: expected an integer"):
        await replay_run(asking(), journal=[entries[0], {"kind": "agent"}])
    with pytest.raises(JournalOrderViolation, match=r"journal\[1\].seq: 0 does not come after 1"):
        await replay_run(asking(), journal=[entries[1], entries[0]])


async def test_an_approval_of_a_served_call_is_no_deleted_call(tmp_path: Path) -> None:
    collector = RunCollector(str(tmp_path))
    orphans = [
        OrphanRecord(seq=2, kind="approval", scope="agent:0"),
        OrphanRecord(seq=4, kind="agent", scope="par:0:1"),
        OrphanRecord(seq=6, kind="approval", scope="par:0:1/agent:4"),
        OrphanRecord(seq=9, kind="step", scope="wf:agent:9"),
    ]
    settled = RunRecord(
        run_id="r", workflow="w", status="ok", resumed=True, strict=True, hits=1, misses=0, reruns=0, skipped=0,
        orphaned=tuple(orphans),
    )  # fmt: skip
    collector.run_settled(settled)
    [told] = collector.replays(collector.take())
    assert [item.seq for item in told.orphaned] == [4, 6, 9]
