"""Real Neovim, headless: the documented set-up, from the first diagnostic to a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
DOCS = HERE.parents[2] / "docs" / "editors"

pytestmark = pytest.mark.editors


def test_neovim_shows_fixes_runs_and_explains(
    bench: Any, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    script = HERE / "nvim" / "e2e.lua"
    # an error in a script leaves a headless Neovim running
    guarded = (
        f"lua local ok, e = xpcall(dofile, debug.traceback, [[{script}]]); "
        "if not ok then io.stderr:write(e .. string.char(10)); vim.cmd.cquit() end"
    )
    done = subprocess.run(
        [str(bench.nvim), "--headless", "--clean", "-i", "NONE", "-c", guarded],
        cwd=project,
        env={
            **environment,
            "RULVAR_DOCS": str(DOCS),
            "RULVAR_FILE": str(project / "flow.py"),
            "RULVAR_TEST": str(project / "test_flow.py"),
            "RULVAR_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and done.stdout.strip(), done.stderr
    seen = json.loads(done.stdout.strip().splitlines()[-1])
    (bench.shots / "neovim.json").write_text(json.dumps(seen, indent=1), "utf-8")
    assert [name for name, good in seen["ok"].items() if not good] == [], seen
    # an emoji and an accent stand before the finding: a column in bytes, as this client counts
    assert (seen["encoding"], seen["clock"][:3]) == ("utf-8", [7, 23, 40])
    assert seen["fixed"] == '    began = ("😋é", ctx.now())'
    assert seen["lenses"] == ["Run replay-strict", "Run replay-strict"]
    assert "nearest is row 3" in seen["miss"]
    assert '+ "Draft a short answer to a bug ticket"' in seen["hover"]
