"""Every Python, JSON and TOML fence of README and docs runs; a page is one program."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```([a-z]*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    # rule pages show code that is wrong on purpose: the lint's own tests run them
    if path.exists() and "rules" not in path.parts and "examples" not in path.parts
)


def fences(path: Path) -> list[tuple[str, str, int]]:
    text = path.read_text("utf-8")
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
async def test_every_fence_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__docs__", "tmp_path": tmp_path}
    for language, code, line in fences(page):
        if language == "python":
            await run_python(code, f"{page}", line, names)
        elif language == "json":
            json.loads(code)
        elif language == "toml":
            tomllib.loads(code)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if re.search(r"^(async )?def test_", page.read_text("utf-8"), re.MULTILINE)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_tests_that_a_page_shows_pass(page: Path, tmp_path: Path) -> None:
    """They record on the author's machine, and replay what was recorded there and in CI."""
    parts = [code for language, code, _ in fences(page) if language == "python" and is_a_file(code)]
    (tmp_path / "test_page.py").write_text("\n\n".join(parts), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    elsewhere = {name: value for name, value in os.environ.items() if name != "CI"}
    for environment in (elsewhere, elsewhere, {**elsewhere, "CI": "true"}):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def is_a_file(code: str) -> bool:
    try:
        compile(code, "fence", "exec")
    except SyntaxError:  # awaits at the top level
        return False
    return True


async def run_python(code: str, filename: str, line: int, names: dict[str, Any]) -> None:
    tree = ast.parse(code, filename)
    ast.increment_lineno(tree, line - 1)
    program = compile(tree, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(program, names)
    if inspect.iscoroutine(result):
        await result


def test_no_page_has_a_fence_without_a_language() -> None:
    for page in PAGES:
        for language, code, line in fences(page):
            assert language, f"{page}:{line}: {code[:40]!r}"
