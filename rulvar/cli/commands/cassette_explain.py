"""Say what a cassette would serve for a request, or why it would not: the nearest row, and what differs.

Exit code 0: it is served; 1: it is not.
"""

from __future__ import annotations

import argparse
from typing import Any

from rulvar.cli.arguments import add_json, json_argument
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.terminal import Terminal
from rulvar.errors import ConfigError
from rulvar.testing.cassette_listing import explain_request


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("cassette", metavar="CASSETTE")
    parser.add_argument(
        "--request", metavar="FILE", required=True, help="the request's JSON object; - is stdin"
    )
    parser.add_argument("--adapter", metavar="ID", help="needed where the cassette holds several")
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Explain."""
    source = options.request if options.request == "-" else f"@{options.request}"
    request = json_argument(source, "--request")
    if not isinstance(request, dict):
        raise ConfigError("--request: expected a JSON object", data={"field": "--request"})
    found = explain_request(options.cassette, request, options.adapter)
    if options.json:
        terminal.document(found)
    else:
        _show(found, terminal)
    return OK if found["served"] else FAILED


def _show(found: dict[str, Any], terminal: Terminal) -> None:
    digest = found["requestHash"]
    if found["served"]:
        lines = ", ".join(map(str, found["lines"]))
        terminal.out(("served", "green"), f"  {digest}  by line {lines} of {found['cassette']}")
        return
    terminal.out(("not served", "red"), f"  {digest}  ({found['reason']})")
    terminal.out_block(str(found["message"]), "  ")
    nearest = found["nearest"] or {}
    for difference in nearest.get("differences", ()):
        terminal.out(f"  {difference['path']}")
        terminal.out("    recorded ", (str(difference["recorded"]), "red"))
        terminal.out("    actual   ", (str(difference["actual"]), "green"))
