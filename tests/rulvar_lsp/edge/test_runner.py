"""Which interpreter runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rulvar_lsp.edge.runner import find_interpreter


def make_python(path: Path) -> str:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("/usr/bin/python3.11", "/usr/bin/python3.11"),
        ("env/bin/python", "/w/project/env/bin/python"),
        ("${workspaceFolder}/env/bin/python", "/w/env/bin/python"),
        ("~/env/bin/python", os.path.expanduser("~/env/bin/python")),
        ("no-such-python", None),
    ],
)
def test_the_setting_decides(setting: str, found: str | None) -> None:
    assert find_interpreter("/w/project", setting, {}, "/w") == found


def test_without_a_folder_its_variable_is_the_project(tmp_path: Path) -> None:
    assert find_interpreter("/w", "${workspaceFolder}/bin/python", {}) == "/w/bin/python"


def test_the_projects_environment_goes_before_the_active_one(tmp_path: Path) -> None:
    active = make_python(tmp_path / "active" / "bin" / "python")
    environ = {"VIRTUAL_ENV": str(tmp_path / "active")}
    root = tmp_path / "project"
    root.mkdir()
    assert find_interpreter(str(root), "", environ) == active
    plain = make_python(root / "venv" / "bin" / "python")
    assert find_interpreter(str(root), "", environ) == plain
    hidden = make_python(root / ".venv" / "bin" / "python")
    assert find_interpreter(str(root), "", environ) == hidden
