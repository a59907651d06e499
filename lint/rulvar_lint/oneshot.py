"""A single answer, without a session to keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rulvar_lint.config import Config
from rulvar_lint.project import Project

if TYPE_CHECKING:
    from rulvar_lint.core.diagnostic import Diagnostic


def lint_source(text: str, path: str = "<string>", config: Config | None = None) -> list[Diagnostic]:
    """The findings of one file with no project around it."""
    project = Project(Path("/nonexistent-rulvar-root"), config or Config(), [])
    name = path if path.endswith((".py", ".jsonl")) else f"{path}.py"
    project.set_text(name, text)
    found = project.check_file(name)
    return found if name == path else [_renamed(item, path) for item in found]


def _renamed(item: Diagnostic, path: str) -> Diagnostic:
    return replace(item, path=path)


def lint_paths(
    paths: Iterable[str | Path], root: Path | None = None, config: Config | None = None
) -> list[Diagnostic]:
    """The findings of files and folders in the project at `root` (the current folder if not
    given).
    """
    return Project(root or Path.cwd(), config).check(paths)
