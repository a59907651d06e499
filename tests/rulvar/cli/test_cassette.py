"""Cassettes are looked after from the shell: listed, shown, checked, compared, explained, pruned, merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "triage" / "cassettes" / "triage.jsonl"


@pytest.fixture
def tape(project: Path) -> Path:
    """A cassette of six rows."""
    path = project / "cassettes" / "triage.jsonl"
    path.parent.mkdir()
    path.write_bytes(EXAMPLE.read_bytes())
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def rewrite(path: Path, rows: list[dict[str, Any]]) -> None:
    header = path.read_text().splitlines()[0]
    path.write_text("\n".join([header, *map(json.dumps, rows)]) + "\n")


def test_cassettes_are_listed_and_broken_ones_named(look: Any, tape: Path) -> None:
    done = look("cassette", "ls")
    assert done.code == 0
    assert done.out.splitlines()[1].split()[:2] == ["./cassettes/triage.jsonl", "6"]
    tape.with_name("broken.jsonl").write_text(tape.read_text().splitlines()[0] + "\n{broken\n{}\n")
    broken = look("cassette", "ls", "cassettes", "--json")
    assert broken.code == 1
    assert [("error" in item) for item in broken.json["cassettes"]] == [True, False]
    assert "broken.jsonl" in look("cassette", "ls").err


def test_rows_are_shown_in_short_and_one_of_them_whole(look: Any, tape: Path) -> None:
    done = look("cassette", "show", tape)
    assert done.code == 0
    assert len(done.out.splitlines()) == 7
    digest = rows_of(tape)[0]["requestHash"]
    [row] = look("cassette", "show", tape, digest[:8], "--json").json["rows"]
    assert (row["line"], row["requestHash"]) == (2, digest)
    assert look("cassette", "show", tape, "2").out.startswith("{")
    assert look("cassette", "show", tape, "--json").json["rows"][0]["line"] == 2
    unknown = look("cassette", "show", tape, "99")
    assert unknown.code == 2
    assert "no row at line '99'" in unknown.err


def test_cassettes_are_added_up(look: Any, tape: Path) -> None:
    [stats] = look("cassette", "stats", tape, "--json").json["cassettes"]
    assert (stats["rows"], stats["models"][0]["model"]) == (6, "small")
    assert "6 rows, 6 requests" in look("cassette", "stats", tape).out


def test_secrets_and_edited_rows_are_found(look: Any, tape: Path) -> None:
    assert look("cassette", "check", ".").code == 0
    rows = rows_of(tape)
    rows[0]["request"]["messages"][0]["parts"][0]["text"] = "ghp_FAKEFAKEFAKEFAKEFAKEFAKEFAKEFAKEFAKE"
    rewrite(tape, rows)
    done = look("cassette", "check", "cassettes", "--json")
    assert done.code == 1
    assert [(item["kind"], item["line"]) for item in done.json["findings"]] == [("secret", 2)]
    shown = look("cassette", "check", "cassettes", "--hashes")
    assert "triage.jsonl:2: secret request.messages[0].parts[0].text" in shown.out
    assert "FAKE" not in shown.out
    assert "hash" in shown.out


def test_the_projects_own_hook_is_asked_too(look: Any, tape: Path, project: Path) -> None:
    (project / "masking.py").write_text(
        "def hide(text):\n    return text.replace('parser', '[part]')\nNUMBER = 1\n"
    )
    done = look("cassette", "check", "cassettes", "--redact", "masking.py:hide", "--json")
    assert {item["rule"] for item in done.json["findings"]} == {"custom"}
    assert "is no function" in look("cassette", "check", ".", "--redact", "masking.py:NUMBER").err


def test_two_cassettes_are_compared(look: Any, tape: Path) -> None:
    other = tape.with_name("other.jsonl")
    other.write_bytes(tape.read_bytes())
    assert look("cassette", "diff", tape, other).out == "6 the same\n"
    rows = rows_of(other)
    rows[0]["events"][0]["text"] = "another answer"
    rewrite(other, rows[:-1])
    done = look("cassette", "diff", tape, other, "--json")
    assert done.code == 1
    assert (done.json["same"], done.json["removed"], len(done.json["answers"])) == (4, [7], 1)
    assert "removed" in look("cassette", "diff", tape, other).out


def test_a_request_that_is_not_served_is_explained(look: Any, tape: Path, project: Path) -> None:
    request = rows_of(tape)[0]["request"]
    (project / "request.json").write_text(json.dumps(request))
    served = look("cassette", "explain", tape, "--request", "request.json")
    assert served.code == 0
    assert "by line 2" in served.out
    request["messages"][0]["parts"][0]["text"] += " Really."
    (project / "request.json").write_text(json.dumps(request))
    done = look("cassette", "explain", tape, "--request", "request.json")
    assert done.code == 1
    assert "messages[0].parts[0].text" in done.out
    assert "Really." in done.out
    assert (
        look("cassette", "explain", tape, "--request", "request.json", "--json").json["reason"] == "messages"
    )
    (project / "request.json").write_text("[]")
    assert look("cassette", "explain", tape, "--request", "request.json").code == 2
    assert look("cassette", "explain", tape, "--request", "nope.json").code == 2


def test_rows_are_removed_by_line_or_because_nobody_uses_them(look: Any, tape: Path, project: Path) -> None:
    report = {
        "v": 1, "kind": "rulvar-replay-report", "createdAt": "2026-01-01T00:00:00.000Z", "rulvar": "0",
        "root": str(project), "mode": "strict",
        "tests": [{
            "nodeId": "t", "file": "t.py", "line": 1, "outcome": "passed", "durationMs": 1, "mode": "strict",
            "message": None, "calls": [], "replays": [], "warnings": [],
            "cassettes": [{"path": "cassettes/triage.jsonl", "rows": 6, "served": [2, 3, 4, 5], "unused": [6, 7]}],
        }],
    }  # fmt: skip
    (project / "report.json").write_text(json.dumps(report))
    before = tape.read_bytes()
    dry = look(
        "cassette", "prune", "cassettes/triage.jsonl", "--unused", "report.json", "--dry-run", "--json"
    )
    assert dry.json["cassettes"] == [{"path": "cassettes/triage.jsonl", "lines": [6, 7]}]
    assert tape.read_bytes() == before
    assert "removed 2 rows (line 6, 7)" in look("cassette", "prune", tape, "--unused", "report.json").out
    assert tape.read_bytes() == b"".join(before.splitlines(keepends=True)[:5])
    assert look("cassette", "prune", tape, "--line", "2").code == 0
    assert len(rows_of(tape)) == 3
    assert look("cassette", "prune", tape, "--line", "99").code == 2
    assert "say what to remove" in look("cassette", "prune", tape).err
    assert look("cassette", "prune", tape, "--unused", "nope.json").code == 2


def test_cassettes_are_merged_into_a_file_of_their_own(look: Any, tape: Path, project: Path) -> None:
    done = look("cassette", "merge", tape, tape, "-o", "both.jsonl")
    assert done.out == "both.jsonl  12 rows\n"
    again = look("cassette", "merge", tape, tape, "-o", "both.jsonl")
    assert again.code == 2
    assert "--force" in again.err
    assert look("cassette", "merge", tape, tape, "-o", "both.jsonl", "--force", "--json").json["rows"] == 12
    assert look("cassette", "merge", tape, "-o", "one.jsonl").code == 2
    assert not (project / "one.jsonl").exists()


@pytest.mark.parametrize("verb", ["show", "stats", "diff", "explain"])
def test_a_file_that_is_no_cassette_is_named(look: Any, project: Path, verb: str) -> None:
    (project / "no.jsonl").write_text("hello\n")
    (project / "request.json").write_text("{}")
    more = {"diff": ["no.jsonl"], "explain": ["--request", "request.json"]}.get(verb, [])
    for name in ("no.jsonl", "nope.jsonl"):
        done = look("cassette", verb, name, *more)
        assert (done.code, done.out) == (2, "")
        assert name in done.err


@pytest.mark.parametrize("verb", ["ls", "check"])
def test_a_path_that_is_not_there_is_a_wrong_command_line(look: Any, project: Path, verb: str) -> None:
    (project / "cassettes").mkdir()
    done = look("cassette", verb, "casettes")
    assert (done.code, done.out) == (2, "")
    assert "casettes: no such file or folder; did you mean 'cassettes'?" in done.err
