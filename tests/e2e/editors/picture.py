"""Takes the README's picture in the real VS Code: `python tests/e2e/editors/picture.py`.

Needs what `setup.sh` installs. The picture shows the example after a prompt was edited and its tests
ran, with one more line that breaks replay.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from conftest import ROOT, Bench

EXAMPLE = ROOT / "docs" / "examples" / "triage"
EDITS = {
    "Write to the reporter.": "Write warmly to the reporter.",
    "import TypedDict\n": "import TypedDict\nfrom datetime import datetime\n",
    '    report = args["report"]\n': '    report = args["report"]\n    today = datetime.now().date()\n',
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder).resolve() / "triage"
        shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        workflow = project / "triage.py"
        source = workflow.read_text("utf-8")
        for old, new in EDITS.items():
            assert old in source, old
            source = source.replace(old, new)
        workflow.write_text(source, "utf-8")
        report = "--rulvar-report=.rulvar_cache/reports/all.json"
        tests = ["-q", "-k", "recorded", "--rulvar-replay=strict", report]
        subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=project, check=False)
        bench = Bench()
        settings = {**bench.vscode(), "project": str(project), "out": str(ROOT / "docs" / "images")}
        driver = Path(__file__).parent / "vscode" / "picture.mjs"
        environment = {**os.environ, "HOME": folder}
        subprocess.run([settings["node"], str(driver), json.dumps(settings)], env=environment, check=True)


if __name__ == "__main__":
    main()
