"""The whole idea in one minute, offline: lint, a strict replay, a miss explained, the editor's view.

Run it with `make demo`, or with `python docs/examples/demo.py` where rulvar is installed with its
extra `lsp`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rulvar_lsp.features.inlay_hints import hints
from rulvar_lsp.features.sites import place_sites
from rulvar_lsp.report import Report, decode_report
from rulvar_lsp.snapshot import Recorded
from rulvar_lsp.text import Text

TRIAGE = Path(__file__).parent / "triage"
REPLAY_TEST = "test_triage.py::test_triage_on_the_recorded_session"
OLD, NEW = "Write to the reporter.", "Write warmly to the reporter."
COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if COLOURS else text


def title(number: int, text: str) -> None:
    print(paint("1;36", f"\n{number}. {text}"), flush=True)


def command(text: str) -> None:
    print(paint("2", f"   $ {text}"), flush=True)


def run(arguments: list[str], folder: Path, expected: int) -> None:
    """Run a command of ours and show what it prints."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if COLOURS:
        environment["FORCE_COLOR"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    for line in done.stdout.rstrip().splitlines():
        print(f"   {line}")
    if done.returncode != expected:
        print(done.stderr, file=sys.stderr)
        sys.exit(f"demo: {' '.join(arguments)} ended with {done.returncode}, not {expected}")


def replay(folder: Path, expected: int) -> Report:
    report = folder / ".rulvar" / "report.json"
    options = ["-q", "--no-header", "--tb=short", "--rulvar-replay=strict", f"--rulvar-report={report}"]
    command(f"pytest {REPLAY_TEST} --rulvar-replay=strict")
    run(["pytest", REPLAY_TEST, *options], folder, expected)
    return decode_report(report.read_bytes(), str(report))


def show_editor(folder: Path, report: Report) -> None:
    """Print the workflow as an editor shows it: each model call with what served it."""
    path = folder / "triage.py"
    source = path.read_text("utf-8")
    recorded = Recorded.of([("report.json", report)], revision=1)
    text = Text(source)
    placed = place_sites(text, recorded.calls_in.get(str(path), ()), None)
    lines = source.splitlines()
    labels = {hint.line: hint.label for hint in hints(placed, (), 0, len(lines))}
    first = min(hint.span.line for hint in placed)
    for number in range(first - 1, len(lines)):
        label = labels.get(number)
        shown = paint("33" if label and "miss" in label else "32", f"  « {label} »") if label else ""
        print(f"   {number + 1:>3} │ {lines[number]}{shown}".rstrip())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / "triage"
        shutil.copytree(TRIAGE, copy, ignore=shutil.ignore_patterns("__pycache__", ".*"))

        title(1, "The lint finds what breaks replay, and names the way that does not.")
        command("rulvar-lint unstable.py")
        run(["rulvar_lint", "unstable.py"], copy, expected=1)

        title(2, "The recorded session replays: no provider, no key, no network, no cost.")
        replay(copy, expected=0)

        title(3, "A prompt was edited. One call misses, and you are told why.")
        workflow = copy / "triage.py"
        source = workflow.read_text("utf-8")
        assert OLD in source
        workflow.write_text(source.replace(OLD, NEW), "utf-8")
        print(f"   {paint('31', f'- {OLD}')}\n   {paint('32', f'+ {NEW}')}")
        report = replay(copy, expected=1)

        title(4, "The same in your editor, beside each call.")
        show_editor(copy, report)

        title(5, "Open it yourself.")
        print(
            "   VS Code   cd vscode-extension && npm ci && npm run package && code --install-extension *.vsix\n"
            "             then open the folder docs/examples/triage and pick .venv's interpreter\n"
            "   Neovim    docs/editors/neovim.md: one file, then vim.lsp.enable('rulvar')"
        )


if __name__ == "__main__":
    main()
