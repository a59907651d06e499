"""A run is replayed strictly: nothing is written, nothing goes live, the first divergence is explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar.testing.report import read_report

Rulvar = Callable[..., Any]
CONFIG = """
from rulvar import Engine
from rulvar.testing import FakeAdapter, FAKE_MODEL_REF

def engine():
    return Engine(adapters=[FakeAdapter(agents={"*": "an answer"})], routing={"loop": FAKE_MODEL_REF})
"""
ASKS = """
from rulvar import workflow

@workflow
async def asks(ctx, args):
    first = await ctx.agent("first", label="one")
    number = await ctx.step("count", lambda: 1)
    return [first, number, await ctx.agent("second")]
"""


@pytest.fixture
def recorded(rulvar: Rulvar, project: Path) -> Rulvar:
    """A project with a run of two model calls and a step."""
    (project / "rulvar_config.py").write_text(CONFIG)
    (project / "asks.py").write_text(ASKS)
    done = rulvar("run", "asks.py:asks", "--arg", "a=1", "--run-id", "r1")
    assert done.code == 0, done.err
    return rulvar


def edit(project: Path, old: str, new: str) -> None:
    path = project / "asks.py"
    path.write_text(path.read_text().replace(old, new))


def contents(project: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (project / ".rulvar").rglob("*") if path.is_file()}


def test_an_unchanged_workflow_replays_to_the_same_output(recorded: Rulvar, project: Path) -> None:
    before = contents(project)
    done = recorded("replay", "r1", "asks.py:asks", "--compare-output-hash", "--assert-no-live", "--json")
    assert done.code == 0, done.err
    document = done.json
    assert document["preview"]["hits"] == 3
    assert document["preview"]["misses"] == 0
    assert (document["status"], document["recordedStatus"]) == ("ok", "ok")
    assert document["output"]["same"] is True
    assert document["divergence"] is None
    assert contents(project) == before


def test_a_divergence_is_explained_with_its_place(recorded: Rulvar, project: Path) -> None:
    edit(project, '"second"', '"another question"')
    done = recorded("replay", "r1", "asks.py:asks")
    assert done.code == 1
    assert done.out.startswith("diverged  asks  r1")
    assert "asks.py:8" in done.out
    assert "prompt" in done.out
    assert "another question" in done.out
    divergence = recorded("replay", "r1", "asks.py:asks", "--json").json["divergence"]
    assert divergence["site"]["line"] == 8
    assert divergence["reason"] == "changed"


def test_another_output_is_a_failure_only_where_it_is_compared(recorded: Rulvar, project: Path) -> None:
    edit(project, "return [", "return ['more', ")
    assert recorded("replay", "r1", "asks.py:asks").code == 0
    done = recorded("replay", "r1", "asks.py:asks", "--compare-output-hash")
    assert done.code == 1
    assert "differs" in done.out


def test_a_run_that_waits_is_fine_where_only_live_calls_count(rulvar: Rulvar) -> None:
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    assert rulvar("replay", "r1", "flows.py:release").code == 3
    assert rulvar("replay", "r1", "flows.py:release", "--assert-no-live").code == 0
    missing = rulvar("replay", "r1", "flows.py:release", "--compare-output-hash", "--assert-no-live")
    assert missing.code == 1
    assert "no hash" in missing.out


def test_an_exported_run_and_a_bare_journal_are_replayed_without_a_store(
    recorded: Rulvar, project: Path
) -> None:
    assert recorded("export", "r1", "-o", "r1.json").code == 0
    journal = project / "elsewhere" / "r9.jsonl"
    journal.parent.mkdir()
    journal.write_bytes((project / ".rulvar" / "r1.jsonl").read_bytes())
    for path in (project / ".rulvar").rglob("*"):
        if path.is_file():
            path.unlink()
    assert recorded("replay", "./r1.json", "asks.py:asks", "--compare-output-hash").code == 0
    assert recorded("replay", journal, "asks.py:asks", "--arg", "a=1").code == 0
    assert not any(path.is_file() for path in (project / ".rulvar").rglob("*"))


def test_the_report_is_the_one_that_editors_read(recorded: Rulvar, project: Path) -> None:
    edit(project, '"second"', '"another question"')
    done = recorded("replay", "r1", "asks.py:asks", "--report", "out/report.json")
    assert done.code == 1
    report = read_report(project / "out" / "report.json")
    [test] = report.tests
    assert (report.mode, test.outcome, test.file) == ("strict", "failed", "asks.py")
    assert [(call.kind, call.served, call.label) for call in test.calls] == [
        ("agent", "journal", "one"),
        ("step", "journal", "count"),
    ]
    assert test.calls[0].site is not None
    assert (test.calls[0].site.file, test.calls[0].site.line) == ("asks.py", 6)
    [replay] = test.replays
    assert replay.divergence is not None
    assert replay.divergence.site is not None
    assert replay.divergence.site.line == 8


def test_a_report_that_cannot_be_written_is_told(recorded: Rulvar, project: Path) -> None:
    done = recorded("replay", "r1", "asks.py:asks", "--report", "asks.py/report.json")
    assert done.code == 2
    assert "report" in done.err


def test_a_torn_journal_is_replayed_and_left_as_it_is(recorded: Rulvar, project: Path) -> None:
    path = project / ".rulvar" / "r1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"hash')
    before = contents(project)
    assert recorded("replay", "r1", "asks.py:asks").code == 0
    assert contents(project) == before


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["r2", "asks.py:asks"], "no run 'r2'"),
        (["r1"], "no workflow named 'asks'"),
        (["r1", "flows.py:hello"], "'asks', not 'hello'"),
        (["r1", "asks.py:asks", "--arg", "a=2"], "args"),
        (["./nope.json", "asks.py:asks"], "nope.json"),
        (["./asks.py.json", "asks.py:asks"], "No such file"),
    ],
)
def test_what_cannot_be_replayed_is_refused(recorded: Rulvar, words: list[str], named: str) -> None:
    done = recorded("replay", *words)
    assert done.code == 2
    assert named in done.err


def test_a_journal_of_another_version_is_refused(recorded: Rulvar, project: Path) -> None:
    path = project / ".rulvar" / "r1.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "hashVersion": 3}) + "\n" for line in lines))
    done = recorded("replay", "r1", "asks.py:asks")
    assert done.code == 2
    assert "hashVersion 3" in done.err


def test_a_damaged_journal_file_is_refused_by_its_line(recorded: Rulvar, project: Path) -> None:
    path = project / ".rulvar" / "r1.jsonl"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([second, first, *rest]))
    for verb in (
        ["replay", "./.rulvar/r1.jsonl", "asks.py:asks"],
        ["shake", "asks.py:asks", "--run", "./.rulvar/r1.jsonl"],
    ):
        done = recorded(*verb)
        assert done.code == 2
        assert "r1.jsonl, line 2 has seq 0" in done.err


def recorded_and_now(done: Any) -> list[str]:
    return [line.strip() for line in done.out.splitlines() if line.strip().startswith(("recorded", "now"))]


def test_what_was_recorded_stands_above_what_is_asked_now(recorded: Rulvar, project: Path) -> None:
    edit(project, '"second"', '"the sceond"')  # another size: bytecode knows a source by second and size
    assert recorded("export", "r1", "-o", "r1.json").code == 0
    for source in ("r1", ".rulvar/r1.jsonl", "./r1.json"):
        done = recorded("replay", source, "asks.py:asks", "--arg", "a=1")
        assert done.code == 1, done.err
        assert recorded_and_now(done) == ["recorded second", "now      the sceond"]
    assert recorded_and_now(recorded("resume", "r1", "asks.py:asks", "--dry-run")) == [
        "recorded second", "now      the sceond"
    ]  # fmt: skip
    [difference] = recorded("replay", "r1", "asks.py:asks", "--json").json["divergence"]["differences"]
    assert difference == {"path": "prompt", "recorded": "second", "actual": "the sceond"}


def test_long_prompts_are_shown_where_they_part(recorded: Rulvar, project: Path) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    edit(project, '"second"', f'"{words}"')
    assert recorded("run", "asks.py:asks", "--arg", "a=1", "--run-id", "r2").code == 0
    edit(project, "word40", "other40")
    shown = recorded_and_now(recorded("replay", "r2", "asks.py:asks"))
    assert [line.split()[0] for line in shown] == ["recorded", "now"]
    assert "word40 word41" in shown[0]
    assert "other40 word41" in shown[1]
    assert all(len(line) < 90 for line in shown)
    assert shown[0].index("word39") == shown[1].index("word39")


def test_a_journal_alone_says_where_the_prompt_could_be_had(recorded: Rulvar, project: Path) -> None:
    edit(project, '"second"', '"another"')
    (project / "alone.jsonl").write_bytes((project / ".rulvar" / "r1.jsonl").read_bytes())
    done = recorded("replay", "./alone.jsonl", "asks.py:asks", "--arg", "a=1")
    assert "recorded None" not in done.out
    assert "the transcript that has its words is not at hand" in done.out
    [told] = recorded("replay", "./alone.jsonl", "asks.py:asks", "--arg", "a=1", "--json").json["divergence"][
        "differences"
    ]
    assert (told["recorded"], told["actual"]) == (None, "'another'")


def test_a_step_under_another_label_says_that_its_words_are_not_kept(recorded: Rulvar, project: Path) -> None:
    edit(project, '"count"', '"number"')
    done = recorded("replay", "r1", "asks.py:asks")
    assert "recorded None" not in done.out
    assert "of a step the journal holds a hash" in done.out


def test_a_prompt_that_is_the_same_points_at_the_other_fields(recorded: Rulvar, project: Path) -> None:
    edit(project, '"second")', '"second", agent_type="other", schema={"type": "string"})')
    config = project / "rulvar_config.py"
    config.write_text(config.read_text().replace("routing=", 'profiles={"other": {}}, routing='))
    done = recorded("replay", "r1", "asks.py:asks")
    assert "the recorded one is the same: several other fields differ at once" in done.out
