"""Runs are started, told, resumed; exit codes and JSON say how they ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

Rulvar = Callable[..., Any]


def test_a_run_that_ends_ok_tells_its_value_and_exits_0(rulvar: Rulvar) -> None:
    done = rulvar("run", "flows.py:hello")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].startswith("ok  hello  ")
    assert "value    hello" in done.out


def test_a_run_that_fails_exits_1_and_tells_why(rulvar: Rulvar) -> None:
    done = rulvar("run", "flows.py:boom")
    assert done.code == 1
    assert "it broke" in done.out
    assert "raised   ValueError at flows.py:15 in boom" in done.out
    assert "Traceback" not in done.out + done.err


def test_a_run_that_waits_exits_3_and_tells_how_to_answer(rulvar: Rulvar) -> None:
    done = rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    assert done.code == 3
    assert "waits for gate" in done.out
    assert "Ship it?" in done.out
    assert "rulvar answer r1 gate VALUE" in done.out


def test_json_is_one_document_and_nothing_else_whatever_user_code_prints(
    rulvar: Rulvar, project: Path
) -> None:
    (project / "noisy.py").write_text(
        "import os, subprocess\nfrom rulvar import workflow\nprint('at import')\n"
        "@workflow\nasync def noisy(ctx):\n    print('from the body')\n    os.write(1, b'raw')\n"
        "    subprocess.run(['echo', 'child'])\n    return 1\n"
    )
    done = rulvar("run", "noisy.py:noisy", "--json")
    assert done.code == 0
    assert done.json["value"] == 1
    for word in ("at import", "from the body", "raw", "child"):
        assert word in done.err


def test_the_document_of_a_run_holds_what_there_is_to_know(rulvar: Rulvar) -> None:
    done = rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1", "--json")
    document = done.json
    assert (done.code, document["runId"], document["workflow"], document["status"]) == (
        3,
        "r1",
        "release",
        "suspended",
    )
    [pending] = document["pending"]
    assert (pending["key"], pending["prompt"]) == ("gate", "Ship it?")
    assert set(document) == {
        "durationMs", "errorMessage", "outcome", "result",
        "runId", "workflow", "status", "value", "error", "pending", "dropped", "usage", "cost", "warnings",
            "raised",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "stdin", "value"),
    [
        pytest.param(["--args", '{"a": [1, "x"]}'], "", {"a": [1, "x"]}, id="json"),
        pytest.param(["--args", "3"], "", 3, id="number"),
        pytest.param(["--args", "-"], '{"b": null}', {"b": None}, id="stdin"),
        pytest.param(["--args", "@args.json"], "", {"from": "file"}, id="file"),
        pytest.param(["--arg", "n=3", "--arg", "s=text", "--arg", "t=true"], "", {"n": 3, "s": "text", "t": True}, id="pairs"),
        pytest.param(["--arg", "v=1.10", "--arg", "w=1.5", "--arg", "z=007"], "", {"v": "1.10", "w": 1.5, "z": "007"}, id="versions are no numbers"),
        pytest.param(["--arg", "s=a=b"], "", {"s": "a=b"}, id="equals in the value"),
        pytest.param(["--arg", "s="], "", {"s": ""}, id="empty"),
        pytest.param(["--arg", "j=@args.json", "--arg", "t=@note.txt"], "", {"j": {"from": "file"}, "t": "a note\n"}, id="files"),
        pytest.param(["--arg", "s=@@home"], "", {"s": "@home"}, id="at sign"),
        pytest.param(["--arg", "t=@-", "--arg", "n=3"], "two\nlines", {"t": "two\nlines", "n": 3}, id="a pair from stdin"),
        pytest.param(["--args", '{"a": 1, "b": 1}', "--arg", "b=2"], "", {"a": 1, "b": 2}, id="both"),
        pytest.param([], "", None, id="none"),
    ],
)  # fmt: skip
def test_arguments_are_json_files_or_pairs(
    rulvar: Rulvar, project: Path, words: list[str], stdin: str, value: Any
) -> None:
    (project / "args.json").write_text('{"from": "file"}')
    (project / "note.txt").write_text("a note\n")
    done = rulvar("run", "flows.py:echo", "--json", *words, stdin=stdin)
    assert done.code == 0, done.err
    assert done.json["value"] == value


def test_what_a_workflow_declares_a_text_is_taken_as_one(rulvar: Rulvar, project: Path) -> None:
    (project / "typed.py").write_text(
        "from typing import TypedDict\nfrom rulvar import workflow\nclass Args(TypedDict):\n    version: str\n    count: int\n"
        "@workflow(args=Args)\nasync def typed(ctx, args):\n    return [args['version'], args['count']]\n"
    )
    done = rulvar("run", "typed.py:typed", "--arg", "version=3", "--arg", "count=3", "--json")
    assert done.code == 0, done.out
    assert done.json["value"] == ["3", 3]
    wrong = rulvar("run", "typed.py:typed", "--arg", "version=3", "--arg", "count=three", "--json")
    assert wrong.code == 2
    assert "count" in wrong.json["error"]["message"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--args", "{a: 1}"], "--args: not JSON: "),
        (["--args", "text"], "quote texts"),
        (["--args", "NaN"], "NaN is no JSON value"),
        (["--args", "[" * 100_000], "--args: not JSON: nested too deeply"),
        (["--args", "@nope.json"], "--args: nope.json: No such file"),
        (["--args", "@broken.json"], "--args: broken.json: not JSON: "),
        (["--args", "@latin.json"], "not UTF-8 at byte 1"),
        (["--arg", "a"], "--arg 'a': write KEY=VALUE"),
        (["--arg", "=a"], "write KEY=VALUE"),
        (["--arg", "a=@nope.txt"], "--arg a: nope.txt: No such file"),
        (["--args", "[1]", "--arg", "a=1"], "--arg needs --args to be an object"),
        (["--run-id", "../x"], "run_id '../x'"),
        (["--run-id", ".."], "run_id '..'"),
        (["--budget", "-1"], "budget_usd"),
        (["--budget", "much"], "--budget"),
        (["--deadline", "soon"], "--deadline 'soon': write a duration"),
        (["--deadline", "2027-01-01T00:00:00"], "a time with a zone"),
        (["--nope"], "unrecognized arguments: --nope"),
        (["--store", "mysql://u:secret@x"], "--store: 'mysql://...': expected a folder"),
        (["--store", "flows.py"], "flows.py is a file"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line_before_anything_runs(
    look: Rulvar, project: Path, words: list[str], named: str
) -> None:
    (project / "broken.json").write_text('{"a": 1,}')
    (project / "latin.json").write_bytes(b'"\xe9"')
    done = look("run", "flows.py:echo", *words)
    assert done.code == 2
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("rulvar: error: ")
    assert named in lines[0]
    assert not (project / ".rulvar").exists()


def test_an_error_is_a_document_too_where_json_was_asked_for(rulvar: Rulvar) -> None:
    done = rulvar("run", "flows.py:echo", "--json", "--run-id", "../x")
    assert done.code == 2
    assert done.json["error"]["code"] == "config"
    assert done.json["error"]["data"]["field"] == "run_id"


def test_a_run_id_is_used_once(rulvar: Rulvar) -> None:
    assert rulvar("run", "flows.py:hello", "--run-id", "r1").code == 0
    again = rulvar("run", "flows.py:hello", "--run-id", "r1")
    assert again.code == 2
    assert "exists already" in again.err


def test_an_answered_run_is_resumed_and_pays_nothing_twice(rulvar: Rulvar, project: Path) -> None:
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    answered = rulvar("answer", "r1", "gate", '{"approved": true}')
    assert answered.code == 0, answered.err
    resumed = rulvar("resume", "r1", "flows.py:release", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["value"] == {"notes": "notes for 1", "approved": True}
    assert resumed.json["preview"]["hits"] == 2
    steps = [json.loads(line) for line in (project / ".rulvar" / "r1.jsonl").read_text().splitlines()]
    assert [entry["status"] for entry in steps if entry["kind"] == "step"] == ["running", "ok"]


def test_arguments_are_kept_for_a_resume_and_others_are_refused(rulvar: Rulvar) -> None:
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    other = rulvar("resume", "r1", "flows.py:release", "--arg", "version=2")
    assert other.code == 2
    assert "args" in other.err
    assert rulvar("resume", "r1", "flows.py:release").code == 3


def test_a_run_that_is_there_keeps_its_arguments_when_another_wants_its_id(
    rulvar: Rulvar, project: Path, entry: Any
) -> None:
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    kept = snapshot(project / ".rulvar")
    assert rulvar("run", "flows.py:release", "--arg", "version=2", "--run-id", "r1").code == 2
    assert snapshot(project / ".rulvar") == kept
    (project / ".rulvar" / "r1.meta.json").unlink()  # a journal alone is a run too
    assert rulvar("run", "flows.py:release", "--arg", "version=2", "--run-id", "r1").code == 2
    del kept[str(project / ".rulvar" / "r1.meta.json")]
    assert snapshot(project / ".rulvar") == kept


@pytest.mark.parametrize("store", [".rulvar", "runs.db"])
def test_of_two_runs_that_start_with_one_id_at_once_one_wins_with_its_arguments(
    rulvar: Rulvar, store: str
) -> None:
    start = ("run", "flows.py:release", "--run-id", "r1", "--store", store, "--arg")
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda number: rulvar(*start, f"version={number}"), range(4)))
    assert sorted(item.code for item in done) == [2, 2, 2, 3], [item.err for item in done]
    assert rulvar("resume", "r1", "flows.py:release", "--store", store).code == 3


def test_arguments_that_do_not_fit_are_refused_before_a_run_is_there(rulvar: Rulvar, project: Path) -> None:
    (project / "typed.py").write_text(
        "from rulvar import workflow\n"
        "@workflow(args={'type': 'object', 'required': ['n'], 'properties': {'n': {'type': 'integer'}}})\n"
        "async def typed(ctx, args):\n    return args['n']\n"
    )
    for words in ([], ["--arg", "n=x"], ["--args", "3"]):
        done = rulvar("run", "typed.py:typed", "--run-id", "r1", *words)
        assert (done.code, done.out) == (2, ""), done
        assert "typed" in done.err
    assert not (project / ".rulvar").exists()
    assert rulvar("run", "typed.py:typed", "--run-id", "r1", "--arg", "n=3").code == 0


def test_a_run_with_arguments_that_were_not_kept_asks_for_them(rulvar: Rulvar, project: Path) -> None:
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    (project / ".rulvar" / "transcripts" / "r1" / "cli-args.bin").unlink()
    done = rulvar("resume", "r1", "flows.py:release")
    assert done.code == 2
    assert "--args" in done.err
    assert rulvar("resume", "r1", "flows.py:release", "--arg", "version=1").code == 3


def test_a_dry_run_writes_nothing_and_names_the_first_live_call(rulvar: Rulvar, project: Path) -> None:
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    rulvar("answer", "r1", "gate", '{"approved": true}')
    before = snapshot(project / ".rulvar")
    assert rulvar("resume", "r1", "flows.py:release", "--dry-run", "--json").json["preview"]["hits"] == 2
    text = (project / "flows.py").read_text().replace('"notes"', '"other notes"', 1)
    (project / "flows.py").write_text(text)
    edited = rulvar("resume", "r1", "flows.py:release", "--dry-run")
    assert edited.code == 1
    assert edited.out.startswith("diverged")
    assert "other notes" in edited.out
    assert "flows.py:" in edited.out
    assert snapshot(project / ".rulvar") == before


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_progress_is_plain_lines_in_a_pipe_and_nothing_when_quiet(rulvar: Rulvar, project: Path) -> None:
    (project / "talks.py").write_text(
        "import time\nfrom rulvar import workflow\n@workflow\nasync def talks(ctx):\n"
        "    async with ctx.phase('plan'):\n        ctx.log('warn', 'careful', {'n': 1})\n    return time.time() and 1\n"
    )
    done = rulvar("run", "talks.py:talks")
    assert "\x1b" not in done.err
    assert "\r" not in done.err
    assert "phase plan" in done.err
    assert "careful" in done.err
    assert "talks.py:7  RLV101" in done.err
    assert rulvar("run", "talks.py:talks", "-q").err == ""


def test_determinism_warnings_are_in_the_document(rulvar: Rulvar, project: Path) -> None:
    (project / "clock.py").write_text(
        "import time\nfrom rulvar import workflow\n@workflow\nasync def clock(ctx):\n    return time.time() and 1\n"
    )
    [warning] = rulvar("run", "clock.py:clock", "--json").json["warnings"]
    assert (warning["file"], warning["line"], warning["code"]) == ("clock.py", 5, "RLV101")


def test_a_deadline_cancels_the_run(rulvar: Rulvar) -> None:
    done = rulvar("run", "flows.py:slow", "--deadline", "0.3s", "--json")
    assert done.code == 1
    assert done.json["status"] == "cancelled"
    assert "deadline" in done.json["error"]["message"]


def test_a_deadline_that_has_passed_is_no_run_for_ever(rulvar: Rulvar) -> None:
    assert (
        rulvar("run", "flows.py:slow", "--deadline", "2020-01-01T00:00Z", "--json").json["status"]
        == "cancelled"
    )


def test_a_refused_run_leaves_the_arguments_of_the_run_that_is_there(rulvar: Rulvar) -> None:
    start = ("run", "flows.py:release", "--run-id", "r1", "--no-input")
    assert rulvar(*start, "--arg", "version=1").code == 3
    refused = rulvar(*start, "--arg", "version=2")
    assert refused.code == 2
    assert "exists already" in refused.err
    assert rulvar("answer", "r1", "gate", '{"approved": true}').code == 0
    resumed = rulvar("resume", "r1", "flows.py:release", "--json")
    assert resumed.json["value"]["notes"] == "notes for 1"


@pytest.mark.parametrize("wrong", [("--budget", "-1"), ("--deadline", "soon")])
def test_a_run_that_cannot_start_keeps_no_arguments(rulvar: Rulvar, project: Path, wrong: Any) -> None:
    done = rulvar("run", "flows.py:echo", "--arg", "a=1", "--run-id", "r1", *wrong)
    assert done.code == 2, done.out
    assert not list((project / ".rulvar").rglob("*r1*"))


def test_whoever_runs_a_body_again_tells_again_where_it_raised(rulvar: Rulvar) -> None:
    place = {"type": "ValueError", "file": "flows.py", "line": 15, "function": "boom"}
    for words in (["run", "flows.py:boom", "--run-id", "r1"], ["resume", "r1", "flows.py:boom"],
                  ["replay", "r1", "flows.py:boom"]):  # fmt: skip
        assert rulvar(*words, "--json").json["raised"] == place


@pytest.mark.parametrize("budget", ["1e308", "1.7976931348623157e308", "1e300"])
def test_a_budget_beyond_all_money_is_a_ceiling_like_others(rulvar: Rulvar, budget: str) -> None:
    done = rulvar("run", "flows.py:hello", "--budget", budget, "--run-id", "r1")
    assert done.code == 0, done.err
    assert rulvar("resume", "r1", "flows.py:hello").code == 0


def test_an_argument_in_utf_8_is_one_whatever_the_locale_says(rulvar: Rulvar) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = rulvar("run", "flows.py:echo", "--arg", "name=Zoë 🦊", "--json", **ascii_only)
    assert done.json["value"] == {"name": "Zoë 🦊"}


def test_an_entry_that_is_not_there_cannot_be_run_again(rulvar: Rulvar) -> None:
    rulvar("run", "flows.py:hello", "--run-id", "r1")
    done = rulvar("resume", "r1", "flows.py:hello", "--invalidate", "99")
    assert (done.code, done.out) == (2, "")
    assert "--invalidate 99: run 'r1' has no entry 99; its last one is" in done.err


def test_a_workflow_that_ends_the_process_is_no_run_that_waits(rulvar: Rulvar, project: Path) -> None:
    (project / "leaves.py").write_text(
        "import sys\nfrom rulvar import workflow\n@workflow\nasync def leaves(ctx):\n    sys.exit(3)\n"
    )
    done = rulvar("run", "leaves.py", "--json")
    assert done.code == 1
    assert "leaves.py:5 (SystemExit: 3); raise an exception there instead" in done.json["error"]["message"]


def test_an_error_of_a_megabyte_is_cut_for_people(rulvar: Rulvar, project: Path) -> None:
    (project / "long.py").write_text(
        "from rulvar import workflow\n@workflow\nasync def long(ctx):\n    raise ValueError('x' * 1_000_000)\n"
    )
    done = rulvar("run", "long.py", "--run-id", "long")
    assert len(done.out) < 5_000
    assert "(1,000,000 characters; --json has them all)" in done.out
    assert "settled  nothing was journaled" in rulvar("inspect", "long").out
