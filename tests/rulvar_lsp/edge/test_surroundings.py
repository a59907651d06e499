"""What the tests of a module say about its calls, on disk and in buffers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulvar_lsp.edge import surroundings
from rulvar_lsp.edge.surroundings import TestFiles

TEST = 'from flow import triage\nTAPE = "one.jsonl"\nROUTING = {"loop": "fake:small"}\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cassettes").mkdir()
    for name in ("one", "two"):
        (tmp_path / "cassettes" / f"{name}.jsonl").write_text("{}\n")
    (tmp_path / "flow.py").write_text("")
    (tmp_path / "test_flow.py").write_text(TEST)
    (tmp_path / "test_other.py").write_text(TEST.replace("flow", "other").replace("one", "two"))
    return tmp_path


def names(files: TestFiles, root: Path, buffers: dict[str, str] | None = None) -> list[str]:
    found = files.around(str(root / "flow.py"), str(root), buffers or {})
    return [Path(path).stem for path in found.cassettes]


def test_only_the_tests_that_import_the_module_count(root: Path) -> None:
    files = TestFiles()
    assert names(files, root) == ["one"]
    found = files.around(str(root / "flow.py"), str(root), {})
    assert found.models == {"fake:small"}
    assert found.mention("triage") and not found.mention("tri") and not found.mention("")


def test_a_conftest_above_the_tests_counts_and_one_beside_them_does_not(root: Path) -> None:
    (root / "conftest.py").write_text('TAPE = "two.jsonl"\n')
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "conftest.py").write_text('ROUTING = {"loop": "fake:large"}\n')
    files = TestFiles()
    assert names(files, root) == ["one", "two"]
    assert files.around(str(root / "flow.py"), str(root), {}).models == {"fake:small"}


def test_an_unsaved_test_counts_at_once(root: Path) -> None:
    files = TestFiles()
    assert names(files, root) == ["one"]
    changed = {str(root / "test_flow.py"): TEST.replace("one", "two")}
    assert names(files, root, changed) == ["two"]
    changed[str(root / "test_flow.py")] = TEST.replace("flow", "nothing")
    assert names(files, root, changed) == []
    assert names(files, root) == ["one"]


def test_what_changes_on_disk_counts_when_it_is_looked_at_again(root: Path) -> None:
    files = TestFiles()
    (root / "cassettes" / "one.jsonl").unlink()
    assert names(files, root) == []
    (root / "cassettes" / "one.jsonl").write_text("{}\n")
    files.look_again()
    assert names(files, root) == ["one"]
    (root / "test_flow.py").write_text(TEST.replace('"one.jsonl"', '"cassettes/two.jsonl"'))
    (root / "test_new.py").write_text(TEST)
    files.look_again()
    assert names(files, root) == ["two", "one"]
    (root / "test_flow.py").unlink()
    files.look_again()
    assert names(files, root) == ["one"]


def test_a_second_question_reads_nothing_again(root: Path, monkeypatch: Any) -> None:
    files = TestFiles()
    assert names(files, root) == ["one"]
    for name in ("read_source", "_walk", "cassette_links", "imports_module"):
        monkeypatch.setattr(surroundings, name, lambda *args: pytest.fail("looked at again"))
    assert names(files, root) == ["one"]
    assert names(files, root, {str(root / "flow.py"): "x = 1\n"}) == ["one"]


def test_few_modules_are_remembered(root: Path) -> None:
    files = TestFiles()
    for number in range(200):
        assert files.around(str(root / f"module{number}.py"), str(root), {}).cassettes == ()
    assert names(files, root) == ["one"]
