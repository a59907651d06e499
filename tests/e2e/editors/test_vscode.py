"""Real VS Code (its web build) in headless Chromium, with the extension from its .vsix."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.editors


@pytest.fixture
def drive(bench: Any, project: Path, environment: dict[str, str]) -> Any:
    """Run one of the drivers in `vscode/` on the project and return what it saw."""
    config = bench.vscode()

    def run(script: str) -> dict[str, Any]:
        done = subprocess.run(
            [
                config["node"],
                str(HERE / "vscode" / script),
                json.dumps({**config, "project": str(project)}),
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.stdout.strip(), done.stderr[-3000:]
        seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        failed = [name for name, good in seen["ok"].items() if not good]
        assert failed == [], {name: seen[name] for name in failed} | {"times": seen["ms"]}
        assert seen["foreign"] == []
        return seen

    return run


def test_a_person_sees_fixes_runs_and_understands(drive: Any, bench: Any) -> None:
    seen = drive("ui.mjs")
    assert seen["lens"] == ["Run replay-strict", "Run replay-strict"]
    assert "hit 6845ea #0" in seen["hints"][0]
    assert (bench.shots / "4-miss.png").stat().st_size > 10_000


def test_nothing_runs_in_an_untrusted_workspace_until_trust_is_granted(drive: Any, project: Path) -> None:
    drive("trust.mjs")
    assert list((project / ".rulvar_cache" / "reports").glob("*.json"))


def test_the_extension_holds_inside_the_extension_host(drive: Any) -> None:
    seen = drive("api.mjs")["probe"]
    assert seen["clock"] == [7, 20, "datetime.now(UTC)"]
    assert ["quickfix", True] in seen["actions"]
    assert all(kind.split(".")[0] in ("quickfix", "test", "explain") for kind, _ in seen["actions"])
    assert seen["fixAll"] == [["source.fixAll.rulvar", 1]]
    assert seen["lenses"] == ["Run replay-strict", "Run replay-strict"]
    assert seen["hints"] == ["hit 6845ea #0", "miss 2eaccc"]
    assert seen["related"][0] == ["triage.jsonl", 2, "nearest recorded row 73e5d6"]
    assert seen["definition"] == [["triage.jsonl", 1]]
    assert seen["opened"] == ["triage.jsonl", 2]
    assert seen["notebook"] == []
