"""Whole projects: results from the cache are those of a fresh run, in one process or several."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rulvar_lint import Config, Diagnostic
from rulvar_lint.batch import Outcome, check
from rulvar_lint.cli import main

FLOW = """from app.clock import stamp
from rulvar import Ctx, workflow


@workflow
async def flow_{n}(ctx: Ctx, args: dict):
    return await ctx.agent(f"At {{stamp()}} {n}")
"""
CLOCK = "import time\n\n\ndef stamp():\n    return time.time()\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/__init__.py").write_text("")
    (tmp_path / "app/clock.py").write_text(CLOCK)
    for n in range(5):
        (tmp_path / f"app/flow_{n}.py").write_text(FLOW.format(n=n))
    return tmp_path


def found(outcome: Outcome) -> list[tuple[str, int, str]]:
    return [(item.path, item.line, item.code) for item in outcome.found]


def fresh(root: Path) -> Outcome:
    return check(root, Config(), use_cache=False)


def same(left: Outcome, right: Outcome) -> None:
    assert left.found == right.found
    assert (left.files, left.workflows) == (right.files, right.workflows)


def write(path: Path, text: str) -> None:
    """Write a file whose time differs from before, as an editor's save does."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_second_run_gives_what_the_first_gave(root: Path) -> None:
    first = check(root, Config())
    assert len(first.found) == 5
    same(check(root, Config()), first)
    assert (root / ".rulvar_cache/.gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("app/clock.py", "def stamp():\n    return 1\n"),
        ("app/clock.py", "def stamp(:\n"),
        ("app/flow_1.py", "x = 1\n"),
        ("app/flow_1.py", FLOW.format(n=1) + "# one more line\n"),
        ("app/new.py", FLOW.format(n=9)),
        ("app/new_clock.py", CLOCK),
    ],
)
def test_a_changed_or_new_file_is_seen(root: Path, path: str, text: str) -> None:
    check(root, Config())
    write(root / path, text)
    same(check(root, Config()), fresh(root))
    same(check(root, Config()), fresh(root))


def test_a_deleted_helper_is_seen(root: Path) -> None:
    check(root, Config())
    (root / "app/clock.py").unlink()
    same(check(root, Config()), fresh(root))


def test_a_touched_file_with_the_same_content_changes_nothing(root: Path) -> None:
    first = check(root, Config())
    write(root / "app/clock.py", CLOCK)
    same(check(root, Config()), first)


def test_another_configuration_has_a_cache_of_its_own(root: Path) -> None:
    assert len(check(root, Config()).found) == 5
    assert check(root, Config(ignore=("RLV1",))).found == []
    assert len(check(root, Config()).found) == 5


def test_a_mutation_that_appears_elsewhere_is_seen(root: Path) -> None:
    write(root / "app/data.py", "LIMITS = {}\n")
    write(
        root / "app/flow_0.py",
        "from app.data import LIMITS\nfrom rulvar import workflow\n\n\n@workflow\n"
        "async def flow(ctx, args):\n    return LIMITS.get('a')\n",
    )
    check(root, Config())
    write(root / "app/clock.py", f"from app.data import LIMITS\nLIMITS['a'] = 1\n{CLOCK}")
    same(check(root, Config()), fresh(root))
    write(
        root / "app/clock.py",
        f"from app.data import LIMITS\n\n\ndef f():\n    LIMITS['a'] = 1\n\n\n{CLOCK}",
    )
    outcome = check(root, Config())
    same(outcome, fresh(root))
    assert ("app/flow_0.py", 7, "RLV205") in found(outcome)


def test_a_file_named_on_the_command_line_is_checked_although_the_cache_skipped_it(
    root: Path,
) -> None:
    write(root / "app/broken.py", "def (:\n")
    assert all(item.code == "RLV101" for item in check(root, Config()).found)
    only = check(root, Config(), ["app/broken.py"])
    assert found(only) == [("app/broken.py", 1, "RLV001")]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 1}', b"\xff\xfe", b"null"])
def test_a_damaged_cache_counts_as_none(root: Path, damage: bytes) -> None:
    first = check(root, Config())
    files = list((root / ".rulvar_cache").rglob("*.json"))
    assert files
    for path in files:
        path.write_bytes(damage)
    same(check(root, Config()), first)
    same(check(root, Config()), first)


def test_a_folder_that_cannot_be_written_does_not_matter(root: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    same(check(root, Config(), cache_folder=blocked), fresh(root))


def test_several_processes_give_what_one_gives(root: Path) -> None:
    for n in range(5, 60):
        (root / f"app/flow_{n}.py").write_text(FLOW.format(n=n))
    one = check(root, Config(), use_cache=False, jobs=1)
    two = check(root, Config(), use_cache=False, jobs=2)
    assert len(one.found) == 60
    same(one, two)


def test_cached_units_mix_with_fresh_ones(root: Path) -> None:
    check(root, Config())
    units = next((root / ".rulvar_cache").rglob("units.json"))
    assert set(json.loads(units.read_text())) == {f"app/flow_{n}.py" for n in range(5)}
    write(root / "app/flow_3.py", FLOW.format(n=3).replace("stamp()", "1"))
    outcome = check(root, Config())
    same(outcome, fresh(root))
    assert len(outcome.found) == 4


# The output of a whole command


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = main(list(args))
    return code, capsys.readouterr().out


def test_the_same_command_prints_the_same_until_something_changes(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    first = printed(capsys)
    assert list((root / ".rulvar_cache/lint").glob("warm-*.txt"))
    assert printed(capsys) == first
    assert printed(capsys, "--output-format", "concise") != first
    write(root / "app/clock.py", "def stamp():\n    return 1\n")
    assert printed(capsys) == (0, "All checks passed.\n")
    write(root / "pyproject.toml", "[tool.rulvar.lint]\nselect = ['RLV9']\n")
    with pytest.MonkeyPatch.context():
        assert main([]) == 2


def test_a_file_outside_the_walk_that_was_named_is_watched_too(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    (root / ".gitignore").write_text("out/\n")
    (root / "out").mkdir()
    write(root / "out/flow.py", FLOW.format(n=7))
    assert printed(capsys, "out/flow.py")[0] == 1
    write(root / "out/flow.py", "x = 1\n")
    assert printed(capsys, "out/flow.py")[0] == 0


def test_a_remembered_output_that_was_damaged_is_made_again(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    first = printed(capsys)
    for path in (root / ".rulvar_cache/lint").glob("warm-*.json"):
        path.write_text("{")
    assert printed(capsys) == first


def test_remembered_outputs_do_not_pile_up(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    for n in range(30):
        printed(capsys, "--select", "RLV1" + f"{n:02}"[:1], "--ignore", "RLV2", *["-q"] * (n % 15))
    assert len(list((root / ".rulvar_cache/lint").glob("warm-*"))) <= 2 * 13


def test_findings_survive_the_way_through_json() -> None:
    outcome = Outcome([], 0, 0, {})
    assert outcome.found == []
    item = Diagnostic("a.py", 1, 2, 3, 4, "RLV101", "n", "error", "m", "u", (), None)
    assert Diagnostic.from_json(json.loads(json.dumps(item.to_json()))) == item
