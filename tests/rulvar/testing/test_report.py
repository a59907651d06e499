"""A report is written atomically, and read strictly: errors name file and field."""

import json
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.ports.observer import CallRecord, CallSite, OrphanRecord, RunRecord
from rulvar.contracts.ports.provider import FieldDifference, NearestRow, Served
from rulvar.errors import ConfigError
from rulvar.testing.collector import RunCollector
from rulvar.testing.report import (
    ReplayReport,
    TestReport,
    read_report,
    relative_path,
    report_from_wire,
    site_digest,
    write_report,
)

ROOT = Path(__file__).resolve().parents[3]


def sample(tmp_path: Path) -> ReplayReport:
    """A report with every part in it."""
    source = tmp_path / "flow.py"
    source.write_text("async def wf(ctx, args):\n    x = await ctx.agent(\n        'ask')\n", "utf-8")
    collector = RunCollector(str(tmp_path))
    site = CallSite(file=str(source), line=2, column=15, end_line=3, end_column=15, function="wf")
    difference = FieldDifference(path="messages[0].parts[0].text", recorded="a", actual="b \ud800")
    nearest = NearestRow(
        cassette=str(tmp_path / "t.jsonl"), row=3, request_hash="ab", distance=0.5, differences=(difference,)
    )
    served = Served(how="miss", request_hash="cd", nearest=nearest, message="no sk-FAKEFAKEFAKE")
    collector.call_finished(
        CallRecord(run_id="r", kind="agent", scope="", content_key="ef", served=served, site=site, turn=1)
    )
    collector.call_finished(
        CallRecord(run_id="r", kind="step", scope="", content_key=None, served=Served(how="live"))
    )
    collector.run_settled(
        RunRecord(
            run_id="r", workflow="w", status="error", resumed=True, strict=True, hits=1, misses=1, reruns=0, skipped=0,
            orphaned=(OrphanRecord(seq=4, kind="step", scope="par:0:1"),),
            divergence={"reason": "changed", "label": None, "differences": [
                {"path": "prompt", "recorded": "sk-FAKEFAKEFAKE", "actual": None}]},
            divergence_site=site,
        )
    )  # fmt: skip
    collector.determinism_warning(str(source), 2, "RLV101", "time.time()")
    collected = collector.take()
    test = TestReport(
        node_id="test_x.py::test_y", file="test_x.py", line=1, outcome="failed", duration_ms=1.5, mode="default",
        message=None, cassettes=(), calls=collector.calls(collected), replays=collector.replays(collected),
        warnings=tuple(collected.warnings),
    )  # fmt: skip
    return ReplayReport(
        v=1, kind="rulvar-replay-report", created_at="2026-11-30T10:00:00.000Z", rulvar="0.1.0", root=str(tmp_path),
        mode="default", tests=(test,),
    )  # fmt: skip


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "out" / "report.json"
    report = sample(tmp_path)
    write_report(path, report)
    assert read_report(path) == report
    assert [item.name for item in path.parent.iterdir()] == ["report.json"]


def test_a_report_among_the_caches_is_not_for_git(tmp_path: Path) -> None:
    ignore = tmp_path / ".rulvar_cache" / ".gitignore"
    write_report(tmp_path / ".rulvar_cache" / "reports" / "pytest.json", sample(tmp_path))
    assert ignore.read_text() == "*\n"
    ignore.write_text("mine")
    write_report(tmp_path / ".rulvar_cache" / "reports" / "pytest.json", sample(tmp_path))
    assert ignore.read_text() == "mine"


def test_the_parts_of_a_report(tmp_path: Path) -> None:
    wire = sample(tmp_path).to_wire()
    [test] = wire["tests"]
    call, step = test["calls"]
    assert call["site"] == {
        "file": "flow.py", "line": 2, "column": 15, "endLine": 3, "endColumn": 15, "function": "wf",
        "digest": site_digest(["    x = await ctx.agent(\n", "        'ask')\n"]),
    }  # fmt: skip
    assert call["nearest"]["cassette"] == "t.jsonl"
    assert "FAKE" not in call["message"]
    assert (step["site"], step["served"], step["nearest"]) == (None, "live", None)
    [replay] = test["replays"]
    assert replay["orphaned"] == [{"seq": 4, "kind": "step", "scope": "par:0:1", "label": None}]
    assert replay["divergence"]["reason"] == "changed"
    assert "FAKE" not in json.dumps(replay)
    assert test["warnings"] == [{"file": "flow.py", "line": 2, "code": "RLV101", "message": "time.time()"}]


def test_the_reference_page_names_every_field(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "report.md").read_text("utf-8")

    def names(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(names, value.values()))
        return set().union(*map(names, value)) if isinstance(value, list) else set()

    for name in names(sample(tmp_path).to_wire()):
        assert f"`{name}`" in page or f'"{name}"' in page, name


def damaged(tmp_path: Path, *path: Any, value: Any) -> Path:
    wire: Any = sample(tmp_path).to_wire()
    *owners, last = path
    node = wire
    for key in owners:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    file = tmp_path / "report.json"
    file.write_text(json.dumps(wire), "utf-8")
    return file


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (["v"], 2, "v"),
        (["v"], "1", "v"),
        (["v"], True, "v"),
        (["kind"], "other", "kind"),
        (["root"], None, "root"),
        (["mode"], "lax", "mode"),
        (["tests"], {}, "tests"),
        (["tests", 0, "line"], "1", "tests[0].line"),
        (["tests", 0, "outcome"], "ok", "tests[0].outcome"),
        (["tests", 0, "calls", 0, "served"], "hot", "tests[0].calls[0].served"),
        (["tests", 0, "calls", 0, "site", "digest"], 5, "tests[0].calls[0].site.digest"),
    ],
)
def test_a_wrong_report_is_refused_with_file_and_field(
    tmp_path: Path, path: Any, value: Any, named: str
) -> None:
    file = damaged(tmp_path, *path, value=value)
    with pytest.raises(ConfigError) as refusal:
        read_report(file)
    assert str(file) in str(refusal.value)
    assert named in str(refusal.value)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "5", '"x"'])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=r"report\.json"):
        read_report(file)


def test_a_missing_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_report(tmp_path / "nothing.json")
    with pytest.raises(ConfigError, match="cannot read"):
        read_report(tmp_path)


def test_another_version_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"version 7.*reads version 1.*write it again"):
        read_report(damaged(tmp_path, "v", value=7))


def test_unknown_fields_are_tolerated(tmp_path: Path) -> None:
    wire = sample(tmp_path).to_wire()
    wire["later"] = wire["tests"][0]["later"] = 1
    assert report_from_wire(wire, "report.json") == sample(tmp_path)


def test_paths_are_relative_below_the_root_and_absolute_elsewhere(tmp_path: Path) -> None:
    root = str(tmp_path / "project")
    assert relative_path(f"{root}/a/b.py", root) == "a/b.py"
    assert relative_path("a/b.py", root) == "a/b.py"
    assert relative_path(f"{tmp_path}/other/b.py", root) == f"{tmp_path}/other/b.py".replace("\\", "/")
    assert relative_path(f"{root}..x/b.py", root) == f"{root}..x/b.py".replace("\\", "/")


def test_a_digest_ignores_indentation_and_nothing_else() -> None:
    assert site_digest(["  a(", "    b)"]) == site_digest(["a(", "b)"]) == site_digest(["a(  \n", "b)\n"])
    assert site_digest(["a(", "b)"]) != site_digest(["a( b)"])
    assert len(site_digest([])) == 16
