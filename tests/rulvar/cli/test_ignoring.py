"""The first run in a git repository keeps its folder out of git, and touches nothing that is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Rulvar = Callable[..., Any]


def ran(rulvar: Rulvar, *words: str) -> None:
    assert rulvar("run", "flows.py:hello", *words).code == 0


def test_the_first_run_in_a_repository_writes_a_gitignore(rulvar: Rulvar, project: Path) -> None:
    (project.parent / ".git").mkdir()
    ran(rulvar)
    file = project / ".rulvar" / ".gitignore"
    assert file.read_text().splitlines()[-1] == "*"
    assert rulvar("runs", "audit").code == 0
    file.unlink()
    ran(rulvar)
    assert not file.exists()


def test_a_folder_that_was_there_is_left_as_it_is(rulvar: Rulvar, project: Path) -> None:
    (project / ".git").mkdir()
    (project / ".rulvar").mkdir()
    ran(rulvar)
    assert not (project / ".rulvar" / ".gitignore").exists()


def test_a_store_by_another_name_may_be_meant_for_git(rulvar: Rulvar, project: Path) -> None:
    (project / ".git").mkdir()
    ran(rulvar, "--store", "runs")
    assert not (project / "runs" / ".gitignore").exists()


def test_outside_of_a_repository_there_is_nothing_to_ignore(rulvar: Rulvar, project: Path) -> None:
    ran(rulvar)
    assert not (project / ".rulvar" / ".gitignore").exists()


def test_a_run_that_is_refused_leaves_no_folder(rulvar: Rulvar, project: Path) -> None:
    (project / ".git").mkdir()
    assert rulvar("run", "flows.py:hello", "--arg", "a=1").code == 2
    assert not (project / ".rulvar").exists()
