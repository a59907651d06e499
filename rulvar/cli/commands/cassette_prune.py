"""Remove rows that nobody uses, in place and atomically; the other rows keep their bytes.

--unused takes a report of a whole, passing test run (pytest --rulvar-report REPORT).
"""

from __future__ import annotations

import argparse

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_json
from rulvar.cli.exits import OK
from rulvar.cli.terminal import Terminal
from rulvar.errors import ConfigError
from rulvar.testing.cassette_changes import prune_cassette, unused_lines
from rulvar.testing.report import read_report


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("cassettes", metavar="CASSETTE", nargs="+")
    parser.add_argument("--unused", metavar="REPORT", help="remove what no test of this report used")
    parser.add_argument(
        "--line", metavar="N", type=int, action="append", help="remove this line; may be repeated"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Prune."""
    if (options.unused is None) == (not options.line):
        raise ConfigError("say what to remove: --unused REPORT or --line N", data={"field": "--unused"})
    if options.line and len(options.cassettes) > 1:
        raise ConfigError("--line is about one cassette; name one", data={"field": "--line"})
    report = None if options.unused is None else read_report(options.unused)
    # every cassette is looked at before the first one is changed
    chosen = [
        (path, sorted(set(options.line)) if report is None else unused_lines(path, report))
        for path in options.cassettes
    ]
    if not options.dry_run:
        for path, lines in chosen:
            prune_cassette(path, lines)
    if options.json:
        removed = [{"path": path, "lines": lines} for path, lines in chosen]
        terminal.document({"dryRun": options.dry_run, "cassettes": removed})
        return OK
    word = "would remove" if options.dry_run else "removed"
    for path, lines in chosen:
        told = f"{word} {count_text(len(lines), 'row')}" if lines else "nothing to remove"
        where = f" (line {', '.join(map(str, lines))})" if lines else ""
        terminal.out(f"{path}  {told}{where}")
    return OK
