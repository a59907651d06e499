"""Compare two cassettes: the same calls, changed requests with their fields, other answers.

Exit code 0: the same; 1: they differ.
"""

from __future__ import annotations

import argparse
from typing import Any

from rulvar.cli.arguments import add_json
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.terminal import Terminal
from rulvar.testing.cassette_changes import diff_cassettes


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare."""
    found = diff_cassettes(options.old, options.new)
    differs = any(found[name] for name in ("answers", "changed", "removed", "added"))
    if options.json:
        terminal.document({**found, "differs": differs})
    else:
        _show(found, terminal)
    return FAILED if differs else OK


def _show(found: dict[str, Any], terminal: Terminal) -> None:
    for pair in found["changed"]:
        terminal.out((f"line {pair['old']} -> {pair['new']}", "bold"), "  the request changed")
        for difference in pair["differences"]:
            terminal.out(f"  {difference['path']}")
            terminal.out("    - ", (str(difference["old"]), "red"))
            terminal.out("    + ", (str(difference["new"]), "green"))
    for pair in found["answers"]:
        terminal.out((f"line {pair['old']} -> {pair['new']}", "bold"), "  the same request, another answer")
    for line in found["removed"]:
        terminal.out((f"line {line}", "bold"), ("  removed", "red"))
    for line in found["added"]:
        terminal.out((f"line {line}", "bold"), ("  added", "green"))
    counts = [
        f"{len(found[name])} {name}" for name in ("changed", "answers", "removed", "added") if found[name]
    ]
    terminal.out(", ".join([f"{found['same']} the same", *counts]))
