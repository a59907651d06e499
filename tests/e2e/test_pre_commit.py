"""The hooks that a project names in its `.pre-commit-config.yaml`, run by pre-commit itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).parent / "pre-commit"
HOOKS = ("rulvar-lint-fix", "rulvar-lint", "rulvar-cassette-check")
FLOW = """import random
import time

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    random.shuffle(args["names"])
    return time.time()
"""
CASSETTE = (
    '{"kind":"header","v":1,"hashVersion":1,"recordedAt":"2026-01-01T00:00:00Z"}\n'
    '{"kind":"row","note":"sk-ant-api03-' + "a1B2" * 20 + '"}\n'
)

pytestmark = [
    pytest.mark.skipif(not PROGRAM.exists(), reason="pre-commit is not installed"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone"),
]


def git(folder: Path, *args: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run([*command, *args], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def commit(folder: Path) -> str:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that uses the hooks of this very source tree."""
    hooks = tmp_path_factory.mktemp("rulvar")
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        source = ROOT / name
        if name.split("/")[0] not in ("tests", "vscode-extension") and source.is_file():
            target = hooks / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    folder = tmp_path_factory.mktemp("project")
    lines = [f"      - id: {hook}" for hook in HOOKS]
    config = f"repos:\n  - repo: {hooks.as_uri()}\n    rev: {commit(hooks)}\n    hooks:\n" + "\n".join(lines)
    (folder / ".pre-commit-config.yaml").write_text(config + "\n")
    (folder / "flow.py").write_text(FLOW)
    (folder / "cassettes").mkdir()
    (folder / "cassettes" / "flow.jsonl").write_text(CASSETTE)
    commit(folder)
    return folder


def test_the_three_hooks_install_find_and_fix(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("pre-commit")
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home), "NO_COLOR": "1"}

    def run(hook: str) -> tuple[int, str]:
        done = subprocess.run(
            [PROGRAM, "run", "--all-files", "--verbose", hook],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    code, said = run("rulvar-lint")
    assert code == 1, said
    assert "flow.py:10:12: RLV101" in said
    assert "RLV5" not in said
    code, said = run("rulvar-lint-fix")
    assert code == 1, said
    assert "files were modified by this hook" in said
    assert "return ctx.time()" in (project / "flow.py").read_text()
    git(project, "add", "-A")
    code, said = run("rulvar-lint")
    assert "RLV101" not in said
    assert "flow.py:9:5: RLV102" in said
    code, said = run("rulvar-cassette-check")
    assert code == 1, said
    assert "cassettes/flow.jsonl:2:" in said
    assert "RLV501" in said
