"""Three ways to test one workflow: a fake model, a recorded session, a journal as regression test."""

from pathlib import Path

from rulvar import Engine
from rulvar.testing import create_test_engine, fake_tool_calls, replay, replay_run
from triage import triage

HERE = Path(__file__).parent
REPORT = {"report": "The parser crashes when the header is empty."}
PROFILES = {"classifier": {}, "writer": {}, "librarian": {}, "reviewer": {}}


def librarian(call):
    """Ask for the tool first, answer once its result is there."""
    if any(message.role == "tool" for message in call.req.messages):
        return "This is #101."
    return fake_tool_calls(name="search_issues", args={"words": "header empty"})


async def test_triage_on_a_fake_model():
    engine = create_test_engine(
        agents={
            "classifier": {"severity": "high", "component": "parser"},
            "summary": "An empty header crashes the parser.",
            "librarian": librarian,
            "reply": "Thanks! We know this one as #101, and ana is on it.",
            "reviewer": {"approved": True, "note": "kind and correct"},
        },
        profiles=PROFILES,
    )
    outcome = await engine.run(triage, REPORT).result()
    assert outcome.status == "ok"
    assert outcome.value["owner"] == "ana"
    assert outcome.value["approved"] is True
    assert len(engine.fake.calls) == 6  # five model calls, one of them in two turns


async def test_triage_on_the_recorded_session():
    engine = Engine(
        adapters=replay(cassette=HERE / "cassettes" / "triage.jsonl", on_miss="throw"),
        routing={"loop": "fake:small"},
        profiles=PROFILES,
    )
    async with engine:
        outcome = await engine.run(triage, REPORT).result()
    assert outcome.status == "ok", outcome.error and outcome.error.message
    assert outcome.value["verdict"] == {"severity": "high", "component": "parser"}
    assert "#101" in outcome.value["reply"]


async def test_a_journal_is_a_regression_test():
    engine = create_test_engine(
        agents={
            "classifier": {"severity": "low", "component": "docs"},
            "reviewer": {"approved": False, "note": "too short"},
            "*": "ok",
        },
        profiles=PROFILES,
    )
    recorded = engine.run(triage, REPORT)
    await recorded.result()
    journal = await engine.store.load(recorded.run_id)

    replayed = await replay_run(triage, REPORT, journal=journal, profiles=PROFILES)
    assert replayed.preview.misses == 0
    assert replayed.outcome.value == (await recorded.result()).value
