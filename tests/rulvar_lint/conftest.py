"""What the lint's tests share: checking a handful of files that live in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rulvar_lint import Config, Diagnostic, Project

CASES = Path(__file__).parent / "cases"
Check = Callable[..., list[Diagnostic]]


def load_cases(name: str) -> list[Any]:
    """The cases of one file under `cases/`."""
    data = json.loads((CASES / name).read_text("utf-8"))
    return data["cases"] if isinstance(data, dict) else data


def in_memory(files: dict[str, str], config: Config | None = None, root: Path | None = None) -> Project:
    """A project whose files are buffers."""
    project = Project(root or CASES / "no-such-folder", config or Config())
    for path, text in files.items():
        project.set_text(path, text)
    return project


@pytest.fixture
def check() -> Check:
    """Check a mapping of paths to sources, or one source."""

    def run(files: dict[str, str] | str, config: Config | None = None) -> list[Diagnostic]:
        given = {"workflows/flow.py": files} if isinstance(files, str) else files
        return in_memory(given, config).check()

    return run
