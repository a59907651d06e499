"""Listing, checking, comparing, pruning and merging cassettes."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rulvar.contracts.capabilities import ModelPricing
from rulvar.errors import ConfigError
from rulvar.testing.cassette import read_cassette
from rulvar.testing.cassette_changes import diff_cassettes, merge_cassettes, prune_cassette, unused_lines
from rulvar.testing.cassette_check import check_cassette
from rulvar.testing.cassette_listing import (
    cassette_stats,
    explain_request,
    find_rows,
    list_cassettes,
    row_summary,
)
from rulvar.testing.recorder import record
from rulvar.testing.replayer import replay
from rulvar.testing.report import CallReport, CassetteReport, ReplayReport, TestReport


@pytest.fixture
def make(kit: Any, tmp_path: Path) -> Any:
    """Record a cassette: prompt, answer pairs; an answer may be a failure."""

    async def make(name: str, *exchanges: tuple[str, str], **options: Any) -> Path:
        path = tmp_path / name
        streams = [kit.failure() if text == "!" else kit.answer(text) for _, text in exchanges]
        adapter = kit.Adapter(streams, **options)
        with record(adapters=[adapter], cassette=path) as adapters:
            for prompt, _ in exchanges:
                await kit.drain(adapters[0].stream(kit.ask(prompt)))
        return path

    return make


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


# -- looking ---------------------------------------------------------------------------------


async def test_a_folder_is_listed_with_what_each_cassette_holds(make: Any, tmp_path: Path) -> None:
    await make("a/one.jsonl", ("x", "1"), ("y", "2"))
    broken = await make("b/two.jsonl", ("x", "1"))
    broken.write_bytes(broken.read_bytes()[:-9])
    (tmp_path / "a" / "journal.jsonl").write_text('{"seq": 0}\n', "utf-8")
    one, two = list_cassettes([tmp_path])
    assert (one["rows"], one["adapters"], one["models"], one["hashVersion"]) == (2, ["tiny"], ["tiny-1"], 2)
    assert two["path"] == str(broken)
    assert "line 2" in two["error"]
    [missing] = list_cassettes([tmp_path / "nothing.jsonl"])
    assert "cannot read" in missing["error"]


async def test_a_row_is_summed_up(make: Any) -> None:
    tape = read_cassette(await make("t.jsonl", ("what is\n it?", "an owl " * 30), ("fail", "!")))
    first, second = map(row_summary, tape.rows)
    assert (first["line"], first["adapter"], first["prompt"], first["outcome"]) == (
        2,
        "tiny",
        "what is it?",
        "stop",
    )
    assert first["answer"].endswith("…")
    assert first["usage"]["outputTokens"] == 5
    assert (second["outcome"], second["usage"]) == ("error agent", None)


async def test_rows_are_found_by_line_and_by_the_start_of_their_hash(make: Any) -> None:
    tape = read_cassette(await make("t.jsonl", ("x", "1"), ("x", "2"), ("y", "3")))
    assert [row.line for row in find_rows(tape, "3")] == [3]
    assert [row.line for row in find_rows(tape, tape.rows[0].request_hash[:8])] == [2, 3]
    for selector in ("9", "zzzz", "", "a"):
        with pytest.raises(ConfigError, match=r"no row"):
            find_rows(tape, selector)


async def test_a_cassette_adds_up(kit: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pricing = ModelPricing(input_usd_per_m_tok=100_000, output_usd_per_m_tok=200_000)
    caps = (
        kit.Adapter()
        .caps("x")
        .__class__.from_wire({**kit.Adapter().caps("x").to_wire(), "pricing": pricing.to_wire()})
    )
    monkeypatch.setattr(kit.Adapter, "caps", lambda self, model: caps)
    path = await make("t.jsonl", ("x", "1"), ("x", "2"), ("y", "!"))
    stats = cassette_stats(read_cassette(path))
    assert (stats["rows"], stats["requests"], stats["repeated"]) == (3, 2, 1)
    [model] = stats["models"]
    assert (model["rows"], model["errors"], model["usage"]["inputTokens"]) == (3, 1, 20)
    assert model["costUsd"] == stats["costUsd"] == 4.0


async def test_a_request_is_explained(kit: Any, make: Any) -> None:
    path = await make("t.jsonl", ("what is it?", "1"))
    served = explain_request(path, kit.ask("what is it?").to_wire())
    assert (served["served"], served["lines"], served["reason"]) == (True, [2], "exhausted")
    missed = explain_request(path, kit.ask("what was it?").to_wire(), "tiny")
    assert (missed["served"], missed["lines"], missed["reason"]) == (False, [], "messages")
    assert missed["nearest"]["row"] == 2
    with pytest.raises(ConfigError, match="messages"):
        explain_request(path, {"model": "m"})


# -- checking --------------------------------------------------------------------------------


async def test_a_sound_cassette_has_no_findings(make: Any) -> None:
    path = await make("t.jsonl", ("use sk-FAKEFAKEFAKE", "done"), ("y", "2"))
    assert check_cassette(path, hashes=True) == []


async def test_secrets_in_a_committed_cassette_are_found_where_they_stand(make: Any) -> None:
    path = await make("t.jsonl", ("x", "plain"), ("y", "2"))
    edit(path, '"plain"', '"key ghp_FAKEFAKEFAKEFAKE"')
    edit(path, '"text":"y"', '"text":"y of acme"')
    findings = check_cassette(path, lambda text: text.replace("acme", "[customer]"), hashes=True)
    assert [(f.kind, f.line, f.field, f.rule) for f in findings] == [
        ("secret", 2, "events[0].text", "github-token"),
        ("secret", 3, "request.messages[0].parts[0].text", "custom"),
        ("hash", 3, "requestHash", None),
    ]
    assert all("FAKE" not in finding.message for finding in findings)
    assert set(findings[0].to_wire()) == {"path", "kind", "line", "field", "rule", "message"}


async def test_an_edited_row_is_found(make: Any) -> None:
    path = await make("t.jsonl", ("x", "1"))
    edit(path, '"text":"x"', '"text":"X"')
    assert check_cassette(path) == []
    [finding] = check_cassette(path, hashes=True)
    assert (finding.kind, finding.line) == ("hash", 2)


async def test_unreadable_and_unplayable_cassettes_are_findings(make: Any, tmp_path: Path) -> None:
    path = await make("t.jsonl", ("x", "1"))
    edit(path, '"hashVersion":2', '"hashVersion":9')
    assert [finding.kind for finding in check_cassette(path)] == ["not-replayable"]
    path.write_bytes(path.read_bytes()[:-5])
    [finding] = check_cassette(path)
    assert (finding.kind, finding.line) == ("unreadable", 2)
    assert [finding.kind for finding in check_cassette(tmp_path / "nothing.jsonl")] == ["unreadable"]


# -- changing --------------------------------------------------------------------------------


async def test_two_cassettes_are_compared_row_by_row(make: Any) -> None:
    old = await make(
        "old.jsonl",
        ("same", "1"),
        ("asked twice", "1"),
        ("asked twice", "2"),
        ("what is an owl?", "o"),
        ("gone for good", "g"),
    )
    new = await make(
        "new.jsonl",
        ("same", "1"),
        ("asked twice", "other"),
        ("what was an owl?", "o"),
        ("entirely different question", "n"),
    )
    diff = diff_cassettes(old, new)
    assert diff["same"] == 1
    assert [(pair["old"], pair["new"]) for pair in diff["answers"]] == [(3, 3)]
    [changed] = diff["changed"]
    assert (changed["old"], changed["new"]) == (5, 4)
    assert changed["differences"] == [
        {"path": "messages[0].parts[0].text", "old": "what is an owl?", "new": "what was an owl?"}
    ]
    assert (diff["removed"], diff["added"]) == ([4, 6], [5])
    assert diff_cassettes(old, old)["same"] == 5


async def test_pruning_keeps_the_other_rows_as_they_are(make: Any) -> None:
    path = await make("t.jsonl", ("a", "1"), ("b", "2"), ("c", "3"))
    lines = path.read_bytes().split(b"\n")
    assert prune_cassette(path, [3]) == 1
    assert path.read_bytes().split(b"\n") == [*lines[:2], *lines[3:]]
    assert prune_cassette(path, []) == 0
    with pytest.raises(ConfigError, match="line 9 holds no row"):
        prune_cassette(path, [2, 9])
    assert len(read_cassette(path).rows) == 2
    replay(cassette=path)


def report_of(root: Path, *tests: tuple[str, str, list[int], list[int]]) -> ReplayReport:
    return ReplayReport(
        v=1, kind="rulvar-replay-report", created_at="", rulvar="0", root=str(root), mode="default",
        tests=tuple(
            TestReport(
                node_id=f"t.py::t{number}", file="t.py", line=1, outcome=outcome, duration_ms=0, mode="default",  # type: ignore[arg-type]
                message=None, calls=(), replays=(), warnings=(),
                cassettes=(CassetteReport(path=path, rows=3, served=tuple(served), unused=tuple(unused)),),
            )
            for number, (outcome, path, served, unused) in enumerate(tests)
        ),
    )  # fmt: skip


def call_report(**fields: Any) -> CallReport:
    return CallReport(
        **{**dict.fromkeys(CallReport.__struct_fields__), "kind": "agent", "scope": "", **fields}
    )


async def test_unused_lines_are_those_that_no_test_of_the_report_used(make: Any, tmp_path: Path) -> None:
    await make("t.jsonl", ("a", "1"), ("b", "2"), ("c", "3"))
    report = report_of(tmp_path, ("passed", "t.jsonl", [2], [3, 4]), ("passed", "t.jsonl", [4], [2, 3]))
    assert unused_lines(tmp_path / "t.jsonl", report) == [3]
    with pytest.raises(ConfigError, match="no test"):
        unused_lines(tmp_path / "other.jsonl", report)
    with pytest.raises(ConfigError, match="failed"):
        unused_lines(tmp_path / "t.jsonl", report_of(tmp_path, ("failed", "t.jsonl", [2], [3, 4])))


async def test_a_cassette_that_changed_since_the_report_is_not_pruned(make: Any, tmp_path: Path) -> None:
    path = await make("t.jsonl", ("a", "1"), ("b", "2"), ("c", "3"))
    report = report_of(tmp_path, ("passed", "t.jsonl", [2, 4], [3]))
    prune_cassette(path, unused_lines(path, report))
    with pytest.raises(ConfigError, match="has changed since the report"):
        unused_lines(path, report)
    await make("t.jsonl", ("d", "4"))  # the same lines, and another row at the last
    call = call_report(served="hit", cassette="t.jsonl", row=4, request_hash="0" * 64)
    [test] = report.tests
    hit = msgspec.structs.replace(report, tests=(msgspec.structs.replace(test, calls=(call,)),))
    with pytest.raises(ConfigError, match="has changed since the report"):
        unused_lines(path, hit)


async def test_rows_that_a_run_recorded_are_used_by_it(make: Any, tmp_path: Path) -> None:
    path = await make("t.jsonl", ("a", "1"), ("b", "2"))
    digest = read_cassette(path).rows[1].request_hash
    report = report_of(tmp_path, ("passed", "t.jsonl", [2], []), ("passed", "t.jsonl", [2], [3]))
    call = call_report(served="passthrough", cassette="t.jsonl", row=3, request_hash=digest)
    first, second = report.tests
    first = msgspec.structs.replace(first, calls=(call,))
    assert unused_lines(path, msgspec.structs.replace(report, tests=(first, second))) == []


async def test_merging_numbers_repeated_requests_on(kit: Any, make: Any, tmp_path: Path) -> None:
    one = await make("one.jsonl", ("same", "1"), ("a", "a"), ("same", "2"))
    two = await make("two.jsonl", ("same", "3"), ("b", "b"))
    merged = tmp_path / "merged.jsonl"
    assert merge_cassettes([one, two], merged) == 5
    assert [row.occurrence for row in read_cassette(merged).rows] == [0, 0, 1, 2, 0]
    [adapter] = replay(cassette=merged)
    texts = [(await kit.drain(adapter.stream(kit.ask("same"))))[0].text for _ in range(3)]
    assert texts == ["1", "2", "3"]
    assert merged.read_bytes().split(b"\n")[1:4] == one.read_bytes().split(b"\n")[1:4]


async def test_both_sides_of_a_conflict_are_merged_and_what_they_share_is_written_once(
    kit: Any, make: Any, tmp_path: Path
) -> None:
    base = await make("base.jsonl", ("same", "1"), ("a", "a"))
    sides = []
    for name, texts in (("ours.jsonl", ("2", "3")), ("theirs.jsonl", ("4",))):
        more = await make(f"more-{name}", ("same", "1"), *(("same", text) for text in texts))
        side = tmp_path / name
        side.write_bytes(base.read_bytes() + b"".join(more.read_bytes().splitlines(keepends=True)[2:]))
        sides.append(side)
    merged = tmp_path / "merged.jsonl"
    assert merge_cassettes(sides, merged) == 5
    assert [row.occurrence for row in read_cassette(merged).rows] == [0, 0, 1, 2, 3]
    [adapter] = replay(cassette=merged)
    texts = [(await kit.drain(adapter.stream(kit.ask("same"))))[0].text for _ in range(4)]
    assert texts == ["1", "2", "3", "4"]
    again = tmp_path / "again.jsonl"
    assert merge_cassettes([base, merged, *sides], again) == 6
    assert merge_cassettes([base, merged], again) == 5
    assert merge_cassettes([base, base], again) == 4  # named twice, meant twice


async def test_cassettes_that_contradict_each_other_are_not_merged(make: Any, tmp_path: Path) -> None:
    one = await make("one.jsonl", ("a", "1"), provider="p")
    two = await make("two.jsonl", ("b", "2"), provider="q")
    merged = tmp_path / "merged.jsonl"
    with pytest.raises(ConfigError, match="provider"):
        merge_cassettes([one, two], merged)
    with pytest.raises(ConfigError, match="at least two"):
        merge_cassettes([one], merged)
    assert not merged.exists()


async def test_unknown_fields_survive_a_merge(make: Any, tmp_path: Path) -> None:
    one = await make("one.jsonl", ("same", "1"))
    two = await make("two.jsonl", ("same", "2"))
    edit(two, '"model":"tiny-1"}', '"model":"tiny-1","later":[1,{"x":null}]}')
    merged = tmp_path / "merged.jsonl"
    merge_cassettes([one, two], merged)
    assert json.loads(merged.read_text("utf-8").splitlines()[2])["later"] == [1, {"x": None}]


async def test_what_cannot_be_replayed_is_found_at_its_line(make: Any) -> None:
    path = await make("t.jsonl", ("x", "1"), ("y", "2"))
    row = path.read_bytes().splitlines(keepends=True)[1]
    path.write_bytes(path.read_bytes() + row)
    [finding] = check_cassette(path)
    assert (finding.kind, finding.line, finding.field) == ("not-replayable", 4, "occurrence")
    assert "lines 2 and 4" in finding.message
    assert "delete one of the lines" in finding.message
    edited = row.replace(b'"text":"1"', b'"text":"other"')
    path.write_bytes(path.read_bytes().replace(row, b"", 1) + edited)
    [finding] = check_cassette(path)
    assert "two recorders" in finding.message
    edit(path, '"contextWindow":1000', '"contextWindow":7')
    [finding] = [item for item in check_cassette(path) if item.kind == "not-replayable"]
    assert finding.line is not None


def test_paths_are_a_list(tmp_path: Path) -> None:
    for wrong in (str(tmp_path), tmp_path):
        with pytest.raises(ConfigError, match="paths: expected a list"):
            list_cassettes(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"paths\[1\]=None"):
        list_cassettes([tmp_path, None])  # type: ignore[list-item]
