"""The report of a check: rendered, written, remembered."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar_lint import warm
from rulvar_lint.batch import Outcome
from rulvar_lint.cli.options import UsageError
from rulvar_lint.reporters import text

if TYPE_CHECKING:
    import argparse

    from rulvar_lint.cli.session import Session
    from rulvar_lint.core.diagnostic import Diagnostic


def finish(session: Session, outcome: Outcome, fixed: int) -> int:
    """Print the report and give the exit code."""
    args = session.args
    report = render(session, outcome, fixed)
    code = 1 if outcome.found and not args.exit_zero else 0
    if args.output_file:
        try:
            Path(args.output_file).write_text(report, "utf-8")
        except OSError as err:
            raise UsageError(f"--output-file {args.output_file}: {err.strerror}") from err
    else:
        stream: Any = sys.stderr if session.stdin_name and (args.fix or args.diff) else sys.stdout
        _write(stream, report)
    is_text = args.output_format in ("full", "concise", "text")
    note = ""
    if outcome.workflows == 0 and not args.quiet and session.stdin_name is None:
        note = f"0 workflows found in {outcome.files} Python file{'' if outcome.files == 1 else 's'}.\n"
        (sys.stdout if is_text and not args.output_file else sys.stderr).write(note)
    _remember(session, outcome, report + (note if is_text else ""), "" if is_text else note, code)
    return code


def _remember(session: Session, outcome: Outcome, output: str, err: str, code: int) -> None:
    """Let the same command print the same next time, if nothing changes."""
    if not warm.is_repeatable(session.args.argv) or session.overlays:
        return
    config = session.config
    files = {path: list(stat) for path, stat in outcome.stats.items()}
    entry: dict[str, Any] = {
        "root": str(session.root),
        "exclude": list(config.exclude),
        "gitignore": config.respect_gitignore,
        "cassettes": list(config.cassettes),
        "extra": [*(session.wanted or ()), "pyproject.toml"],
        "files": files,
        "stderr": err,
        "code": code,
    }
    entry["files"] = warm.current(entry)
    if all(entry["files"].get(path) == stat for path, stat in files.items()):
        warm.remember(session.args.argv, entry, output)


def _write(stream: Any, report: str) -> None:
    """Write text whatever the encoding of the stream is."""
    try:
        stream.write(report)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(report.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def render(session: Session, outcome: Outcome, fixed: int = 0) -> str:
    """The report in the chosen format."""
    args = session.args
    found = session.shown(outcome.found)
    kind = args.output_format
    if args.statistics:
        return _statistics(found, kind)
    if kind in ("full", "concise", "text"):
        colour = _colour(args)
        if kind == "concise":
            body = text.concise(found, colour)
        else:
            body = text.full(found, _source_lines(session, outcome.found, found), colour)
        return body if args.quiet else body + text.summary(found, fixed)
    return _machine_report(found, kind)


def _statistics(found: list[Diagnostic], kind: str) -> str:
    if kind not in ("json", "jsonl"):
        return text.statistics(found)
    import json

    rows = [
        {"code": code, "name": name, "count": number, "fixable": fixable}
        for code, name, number, fixable in text.count(found)
    ]
    return json.dumps(rows, indent=2) + "\n"


def _machine_report(found: list[Diagnostic], kind: str) -> str:
    if kind in ("json", "jsonl", "rdjson"):
        from rulvar_lint.reporters import json as as_json

        return {"json": as_json.array, "jsonl": as_json.lines, "rdjson": as_json.rdjson}[kind](found)
    if kind == "sarif":
        from rulvar_lint import __version__
        from rulvar_lint.reporters import sarif
        from rulvar_lint.rules.pages import RULES

        return sarif.log(found, RULES, __version__)
    from rulvar_lint.reporters import github

    return {
        "github": github.workflow_commands,
        "gitlab": github.code_quality,
        "junit": github.junit,
    }[kind](found)


def _source_lines(
    session: Session, found: list[Diagnostic], shown: list[Diagnostic]
) -> Callable[[str, int], str]:
    from rulvar_lint.core.source import Source

    names = {after.path: before.path for before, after in zip(found, shown, strict=True)}
    sources: dict[str, Source] = {}

    def line(path: str, number: int) -> str:
        name = names.get(path, path)
        if name not in sources:
            sources[name] = Source(name, session.source_text(name).encode("utf-8", "surrogatepass"))
        return sources[name].line_text(number)[:400]

    return line


def _colour(args: argparse.Namespace) -> bool:
    if args.color != "auto":
        return bool(args.color == "always")
    if args.output_file or os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
