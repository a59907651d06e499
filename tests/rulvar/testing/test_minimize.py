"""Minimized journals: small, masked, and still coming to the same end."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, Engine, InMemoryStore, workflow
from rulvar.errors import ConfigError, JournalMissError
from rulvar.stores.bundle import KEPT_ARGS, decode_bundle, encode_bundle
from rulvar.testing import FakeAdapter, fake_tool_calls, fake_wire_error, minimize_run, replay_run
from rulvar.testing.engine import fake_routing
from rulvar.testing.minimize.minimization import MinimizedRun

KEY = "ghp_FAKEFAKEFAKEFAKE1234"


@workflow(name="part")
async def part(ctx: Ctx, args: Any) -> Any:
    first = await ctx.agent(f"part {args['n']}")
    return await ctx.agent(f"again {first}")


@workflow(name="field")
async def field(ctx: Ctx, args: Any) -> Any:
    """A run with everything in it; it fails when the verdict is severe."""
    listed = await ctx.step("list", lambda: {"files": ["a", "b"], "token": KEY})
    verdict = await ctx.agent(
        f"judge {args['customer']} {listed['token']}", agent_type="judge", schema={"type": "object"}
    )
    parts = await ctx.parallel([ctx.workflow(part, {"n": n}) for n in range(2)])
    gate = await ctx.await_external("gate", prompt=f"Ship it for {args['customer']}?")
    note = await ctx.agent(f"note {verdict['text']} {parts} {gate['by']}")
    if verdict["severity"] == "high":
        raise ValueError(f"cannot ship: {note}")
    return {"note": note, "verdict": verdict}


AGENTS: dict[str, Any] = {
    "judge": {"severity": "high", "text": f"bad, says key {KEY}"},
    "*": lambda call: f"re: {call.prompt}",
}
PROFILES: dict[str, Any] = {"judge": {}}
ARGS = {"customer": "acme-internal"}


async def recorded(flow: Any = field, agents: Any = None, args: Any = ARGS) -> InMemoryStore:
    store = InMemoryStore()
    async with Engine(
        adapters=[FakeAdapter(agents or AGENTS)], journal=store, routing=fake_routing(), profiles=PROFILES
    ) as engine:
        run = engine.run(flow, args, run_id="r1")
        outcome = await run.result()
        if any(wait.key == "gate" for wait in outcome.pending):
            await run.resolve_external("gate", {"by": "zoe@acme-internal.example"})
            await engine.resume("r1", flow, args=args).result()
    return store


def lines_of(result: MinimizedRun) -> bytes:
    return encode_bundle(result.run, "1.0")


async def test_what_no_replay_reads_is_dropped_and_the_end_is_the_same() -> None:
    store = await recorded()
    before = await store.load("r1")
    result = await minimize_run(field, ARGS, journal=(store, "r1"), profiles=PROFILES)
    assert (result.status, result.entries_before) == ("error", len(before))
    kinds = [entry.kind for entry in result.run.entries]
    assert kinds.count("decision") == 1  # the settlement
    assert not any(entry.scope.startswith("wf:") for entry in result.run.entries)  # children are served whole
    assert len(result.run.entries) < len(before) / 2
    assert not any(b"providerCalls" in entry.line for entry in result.run.entries)
    replayed = await replay_run(field, journal=result.run, profiles=PROFILES)
    assert replayed.preview.misses == 0
    assert replayed.outcome.error is not None
    assert replayed.outcome.error.message.startswith("cannot ship")


async def test_secrets_are_masked_and_the_calls_behind_them_found_again() -> None:
    store = await recorded()
    result = await minimize_run(field, ARGS, journal=(store, "r1"), profiles=PROFILES)
    assert KEY.encode() not in lines_of(result)
    assert {(note.path, note.rule) for note in result.masked} >= {("value.token", "github-token")}
    assert result.rekeyed == 2  # the judge's prompt holds the token, and the note's prompt the judge's text
    assert decode_bundle(lines_of(result), "x").run_id == "r1"


async def test_the_projects_own_hook_masks_arguments_and_answers() -> None:
    store = await recorded()
    result = await minimize_run(
        field,
        ARGS,
        journal=(store, "r1"),
        profiles=PROFILES,
        redact=lambda text: text.replace("acme-internal", "[customer]"),
    )
    assert b"acme" not in lines_of(result)
    assert result.run.transcripts[KEPT_ARGS] == b'{"customer":"[customer]"}'
    replayed = await replay_run(field, journal=result.run, profiles=PROFILES)
    assert replayed.outcome.error is not None
    with pytest.raises(ConfigError, match="args are not those"):
        await replay_run(field, ARGS, journal=result.run, profiles=PROFILES)


async def test_texts_on_which_nothing_depends_are_blanked_when_asked() -> None:
    store = await recorded()
    result = await minimize_run(field, ARGS, journal=(store, "r1"), profiles=PROFILES, blank=True)
    text = lines_of(result)
    assert b"zoe@" not in text
    assert b'"severity":"high"' in text  # the course of the run depends on it
    assert b"bad, says" in text  # and on no smaller part than the answer it stands in
    assert b'"files":["a","b"]' not in text
    assert len(result.blanked) >= 4
    replayed = await replay_run(field, journal=result.run, profiles=PROFILES)
    assert replayed.outcome.status == "error"


async def test_a_run_that_ended_well_keeps_a_true_hash_of_its_output() -> None:
    store = await recorded(agents={**AGENTS, "judge": {"severity": "low", "text": f"fine {KEY}"}})
    result = await minimize_run(field, ARGS, journal=(store, "r1"), profiles=PROFILES)
    replayed = await replay_run(field, journal=result.run, profiles=PROFILES)
    assert replayed.outcome.status == result.status == "ok"
    from rulvar.kernel.keys import hash_output

    settle = result.run.entries[-1].value
    assert settle["outputHash"] == hash_output(replayed.outcome.value)
    assert KEY not in str(replayed.outcome.value)


async def test_a_divergence_is_a_field_bug_too() -> None:
    store = await recorded()

    @workflow(name="field")
    async def edited(ctx: Ctx, args: Any) -> Any:
        await ctx.step("list", dict)
        return await ctx.agent("another prompt", agent_type="judge")

    with pytest.raises(JournalMissError) as original:
        await replay_run(edited, ARGS, journal=(store, "r1"), profiles=PROFILES)
    result = await minimize_run(edited, ARGS, journal=(store, "r1"), profiles=PROFILES)
    assert result.status == "missed"
    with pytest.raises(JournalMissError) as small:
        await replay_run(edited, ARGS, journal=result.run, profiles=PROFILES)
    told, shown = str(small.value).split("\n"), str(original.value).split("\n")
    assert told[0] == shown[0]
    assert "[REDACTED]" in shown[2]
    assert not any("acme-internal" in line for line in told)  # a small run has no words that it does not need


async def test_an_open_wait_stays_open() -> None:
    @workflow(name="waiting")
    async def waiting(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("hello")
        return await ctx.await_external("never", prompt=f"use {KEY}")

    store = await recorded(waiting, args=None)
    result = await minimize_run(waiting, journal=(store, "r1"))
    assert result.status == "suspended"
    assert KEY.encode() not in lines_of(result)
    assert (await replay_run(waiting, journal=result.run)).outcome.pending[0].key == "never"


async def test_failures_that_a_workflow_lives_with_are_kept() -> None:
    @workflow(name="living")
    async def living(ctx: Ctx, args: Any) -> Any:
        lost = await ctx.agent("fail", agent_type="judge", on_error="null", memoize_outcome=True)
        return await ctx.agent(f"go on with {lost}")

    failing = fake_wire_error(code="agent", message=f"refused with {KEY}", data={"kind": "terminal"})
    store = await recorded(living, agents={"judge": failing, "*": "ok"}, args=None)
    result = await minimize_run(living, journal=(store, "r1"), profiles=PROFILES)
    assert result.status == "ok"
    assert KEY.encode() not in lines_of(result)
    replayed = await replay_run(living, journal=result.run, profiles=PROFILES)
    assert replayed.outcome.dropped[0].error.message == "refused with [REDACTED]"


async def test_spending_that_decides_the_end_is_kept() -> None:
    @workflow(name="counting")
    async def counting(ctx: Ctx, args: Any) -> Any:
        await ctx.workflow(part, {"n": 1})
        if ctx.budget.spent().usage.output_tokens > 3:
            raise ValueError("too much")

    store = await recorded(counting, args=None)
    result = await minimize_run(counting, journal=(store, "r1"))
    assert result.error == "too much"
    replayed = await replay_run(counting, journal=result.run)
    assert replayed.outcome.error is not None
    assert replayed.outcome.error.message == "too much"


async def test_a_mask_that_changes_the_course_is_refused_by_place() -> None:
    @workflow(name="spy")
    async def spy(ctx: Ctx, args: Any) -> Any:
        listed = await ctx.step("list", lambda: {"token": KEY})
        if listed["token"] == KEY:
            return await ctx.agent("one")
        return await ctx.parallel([ctx.agent("two")])

    store = await recorded(spy, args=None)
    with pytest.raises(ConfigError, match=r"another course .* entry 1 value\.token \(github-token\)"):
        await minimize_run(spy, journal=(store, "r1"))


async def test_identical_calls_keep_their_order() -> None:
    @workflow(name="twins")
    async def twins(ctx: Ctx, args: Any) -> Any:
        secret = await ctx.step("secret", lambda: KEY)
        return [await ctx.agent(f"use {secret}") for _ in range(3)]

    answers = iter(["one", "two", "three"])
    store = await recorded(twins, agents={"*": lambda call: next(answers)}, args=None)
    result = await minimize_run(twins, journal=(store, "r1"))
    assert result.rekeyed == 3
    assert (await replay_run(twins, journal=result.run)).outcome.value == ["one", "two", "three"]
    agents = [entry for entry in result.run.entries if entry.kind == "agent" and entry.ref is None]
    assert [entry.ordinal for entry in agents] == [0, 1, 2]


async def test_tools_and_approvals_of_finished_agents_are_dropped() -> None:
    from rulvar import tool

    @tool
    def look(q: str) -> str:
        """Look."""
        return f"{q} {KEY}"

    @workflow(name="tooled")
    async def tooled(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("use the tool", agent_type="judge", tools=[look])

    def model(call: Any) -> Any:
        if any(message.role == "tool" for message in call.req.messages):
            return "done"
        return fake_tool_calls(name="look", args={"q": "x"})

    store = await recorded(tooled, agents={"judge": model}, args=None)
    result = await minimize_run(tooled, journal=(store, "r1"), profiles=PROFILES)
    assert [entry.kind for entry in result.run.entries] == ["agent", "agent", "decision"]
    assert KEY.encode() not in lines_of(result)


async def test_an_engine_that_cannot_make_the_recorded_calls_is_refused() -> None:
    store = await recorded()
    with pytest.raises(ConfigError, match="ends before calls that it recorded: no profile for"):
        await minimize_run(field, ARGS, journal=(store, "r1"))
