"""What the lint's tests share: checking a handful of files that live in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rulvar_lint import Config, Diagnostic, Project

NOWHERE = Path(__file__).parent / "no-such-folder"
Check = Callable[..., list[Diagnostic]]


def in_memory(files: dict[str, str], config: Config | None = None, root: Path | None = None) -> Project:
    """A project whose files are buffers."""
    project = Project(root or NOWHERE, config or Config())
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
