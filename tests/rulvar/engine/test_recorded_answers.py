"""Answers that somebody wrote into a journal: what a resume makes of those that fit and those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, Engine, workflow
from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.errors import ConfigError, JournalOrderViolation
from rulvar.stores import InMemoryStore
from rulvar.testing import create_test_engine, replay_run


def pointing(seq: int, kind: str, **fields: Any) -> JournalEntry:
    wire = {"hashVersion": 2, "seq": seq, "scope": "", "key": "", "ordinal": 0, "kind": kind, "status": "ok"}
    return decode_entry(
        encode_json({**wire, "spanId": "s0", "startedAt": "2026-01-01T00:00:00.000Z", **fields})
    )


def answer(seq: int, ref: int, value: Any) -> JournalEntry:
    return pointing(seq, "resolution", ref=ref, resolution={"target": ref, "by": "operator", "value": value})


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    return await ctx.await_external("gate", schema={"type": "object", "required": ["ok"]})


async def waiting(store: InMemoryStore) -> tuple[int, int]:
    """Run to the wait; return its seq, and the next one."""
    async with Engine(journal=store) as engine:
        assert (await engine.run(flow, run_id="r").result()).status == "suspended"
    entries = await store.load("r")
    return next(entry.seq for entry in entries if entry.kind == "external"), entries[-1].seq + 1


async def test_an_answer_that_fits_not_leaves_the_run_waiting_and_is_told() -> None:
    store = InMemoryStore()
    wait, seq = await waiting(store)
    store.append_now("r", [answer(seq, wait, {"wrong": True})])
    async with Engine(journal=store) as engine:
        handle = engine.resume("r", flow)
        outcome = await handle.result()
        assert (outcome.status, [item.entry_ref for item in outcome.pending]) == ("suspended", [wait])
        preview = await handle.preview()
        assert (preview.hits, preview.invalid_resolutions, preview.orphaned) == (1, (seq,), ())
        assert len(await store.load("r")) == seq + 1  # nothing is new: it is settled as it was
        await handle.resolve_external("gate", {"ok": 1})
        handle = engine.resume("r", flow)
        assert (await handle.result()).value == {"ok": 1}
        assert (await handle.preview()).invalid_resolutions == (seq,)
    replayed = await replay_run(flow, journal=(store, "r"))
    assert (replayed.outcome.value, replayed.preview.misses) == ({"ok": 1}, 0)


async def test_the_first_answer_counts_and_an_abandon_comes_too_late() -> None:
    store = InMemoryStore()
    wait, seq = await waiting(store)
    store.append_now("r", [answer(seq, wait, {"ok": 1}), answer(seq + 1, wait, {"ok": 2})])
    store.append_now("r", [pointing(seq + 2, "abandon", ref=wait, abandon={"target": wait})])
    async with Engine(journal=store) as engine:
        handle = engine.resume("r", flow)
        assert (await handle.result()).value == {"ok": 1}
        preview = await handle.preview()
        assert (preview.hits, preview.skipped, preview.invalid_resolutions) == (1, 0, ())


@pytest.mark.parametrize("kind", ["resolution", "abandon"])
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "it has no ref"),
        ({"ref": 50}, "its ref is 50"),
        ({"ref": 77}, "its ref is 77"),
        ({"ref": 99}, "99"),
    ],
)
async def test_an_entry_that_points_at_nothing_before_it_is_refused(
    kind: str, fields: dict[str, int], problem: str
) -> None:
    store = InMemoryStore()
    await waiting(store)
    store.append_now("r", [pointing(77, kind, **fields)])
    async with Engine(journal=store) as engine:
        with pytest.raises(
            JournalOrderViolation, match=rf"\(seq 77\) is of kind '{kind}' .*{problem}"
        ) as refused:
            await engine.resume("r", flow).result()
    assert refused.value.data == {"runId": "r", "entrySeq": 77, "field": "ref"}


async def test_what_dangles_below_a_child_that_ended_is_orphaned_all_the_same() -> None:
    @workflow(name="kid")
    async def kid(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("one", lambda: 1)

    @workflow(name="parent")
    async def parent(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(kid, {})

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        assert (await engine.run(parent, run_id="r").result()).value == 1
        entries = await store.load("r")
        end = next(entry for entry in entries if entry.kind == "step" and entry.ref is not None)
        kept = InMemoryStore()
        kept.append_now("r", [entry for entry in entries if entry is not end])
        replayed = await replay_run(parent, journal=(kept, "r"))
        assert (replayed.outcome.value, replayed.preview.hits) == (1, 1)
        assert replayed.preview.orphaned == (end.ref,)


async def test_a_call_that_always_asks_leaves_what_dangled_of_it_orphaned() -> None:
    @workflow(name="asking")
    async def asking(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", replay="never")

    engine = create_test_engine(agents={"*": "x"})
    async with engine:
        await engine.run(asking, run_id="r").result()
        (begun, *_) = await engine.store.load("r")
        engine.store.append_now("cut", [begun])
        handle = engine.resume("cut", asking)
        assert (await handle.result()).value == "x"
        preview = await handle.preview()
        assert (preview.misses, preview.orphaned) == (1, (begun.seq,))


async def test_what_an_abandoned_call_left_open_counts_as_skipped() -> None:
    @workflow(name="asking")
    async def asking(ctx: Ctx, args: Any) -> Any:
        return (await ctx.agent("p", result="full")).status

    engine = create_test_engine(agents={"*": "x"})
    async with engine:
        await engine.run(asking, run_id="r").result()
        entries = await engine.store.load("r")
        begun, seq = entries[0].seq, entries[-1].seq + 1
        inside = pointing(seq, "step", scope=f"agent:{begun}", key="k", status="running")
        over = pointing(seq + 1, "abandon", ref=begun, abandon={"target": begun})
        engine.store.append_now("r", [inside, over])
        handle = engine.resume("r", asking)
        assert (await handle.result()).value == "skipped"
        preview = await handle.preview()
        assert (preview.hits, preview.skipped, preview.orphaned) == (0, 2, ())


async def test_a_scope_waits_for_a_key_once() -> None:
    @workflow(name="asking")
    async def asking(ctx: Ctx, args: Any) -> Any:
        async def branch() -> Any:
            return await ctx.await_external("gate")

        both = await ctx.parallel([branch, branch])
        first = await ctx.await_external("gate")
        try:
            await ctx.await_external("gate")
        except ConfigError as refused:
            return [*both, first, refused.message]

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        handle = engine.run(asking, run_id="r")
        for value in (1, 2, 3):
            outcome = await handle.result()
            assert outcome.status == "suspended"
            await handle.resolve_external("gate", value)
            handle = engine.resume("r", asking)
        value = (await handle.result()).value
        assert [*sorted(value[:2]), value[2]] == [1, 2, 3]
        assert "the workflow body has waited for this key before" in value[3]
        assert (await engine.resume("r", asking).result()).value == value


async def test_the_schema_of_a_wait_is_recorded_in_its_canonical_form() -> None:
    schema = {
        "title": "Answer",
        "$defs": {"N": {"type": "integer", "description": "a number"}},
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/N"}},
    }

    @workflow(name="asking")
    async def asking(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("gate", schema=schema)

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        handle = engine.run(asking, run_id="r")
        outcome = await handle.result()
        plain = {"type": "object", "properties": {"n": {"type": "integer"}}}
        assert (await store.load("r"))[0].value == {"key": "gate", "schema": plain}
        assert outcome.pending[0].schema == plain
        await handle.resolve_external("gate", {"n": 1})
        assert (await engine.resume("r", asking).result()).value == {"n": 1}
