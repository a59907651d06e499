"""Real VS Code (its web build) in headless Chromium, with the extension from its .vsix."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

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
    assert seen["diff"] == [
        "Nearest row 3 (73e5d6) and miss 2eaccc",
        "# messages[0].parts[0].text\nDraft a short answer to a bug ticket\n",
    ]
    assert seen["workflow"] == "1 hit, 1 miss in 1 test"
    assert seen["cassette"] == ["cassette-row"]
    assert seen["forecast"] == ["will hit row 2", "will miss"]
    assert seen["record"] == "rulvar.record"


def test_the_example_project_makes_the_picture_of_the_readme(drive: Any, project: Path, bench: Any) -> None:
    """With RULVAR_PICTURE set, the picture replaces that of the READMEs."""
    shutil.rmtree(project)
    shutil.copytree(ROOT / "docs" / "examples" / "triage", project)
    workflow = project / "triage.py"
    text = workflow.read_text("utf-8")
    edited = text.replace("Write to the reporter.", "Write a short answer to the reporter.")
    edited = edited.replace(
        '    report = args["report"]\n', '    report = args["report"]\n    started = time.time()\n'
    )
    edited = edited.replace("from typing import", "import time\nfrom typing import", 1)
    assert edited.count("time") - text.count("time") == 3
    workflow.write_text(edited, "utf-8")
    drive("picture.mjs")
    if os.environ.get("RULVAR_PICTURE"):
        for target in ("docs/images/editor-vscode.png", "vscode-extension/media/editor.png"):
            shutil.copy(bench.shots / "picture.png", ROOT / target)
