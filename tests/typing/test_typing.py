"""The surface's types are inferred: mypy in strict mode agrees with ``inferred.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_mypy_infers_the_types_of_the_surface() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--no-error-summary",
            str(HERE / "inferred.py"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_would_find_a_wrong_type(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from rulvar import Ctx\n"
        "from pydantic import BaseModel\n"
        "class M(BaseModel):\n    a: int\n"
        "async def f(ctx: Ctx) -> str:\n    return await ctx.agent('?', schema=M)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(wrong)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "type[M]" in done.stdout
