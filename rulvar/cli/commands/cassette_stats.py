"""Say what cassettes add up to: rows, requests, tokens and cost per model."""

from __future__ import annotations

import argparse
from typing import Any

from rulvar.cli.amounts import count_text, tokens_text, usd_text
from rulvar.cli.arguments import add_json
from rulvar.cli.exits import OK
from rulvar.cli.terminal import Terminal
from rulvar.testing.cassette import read_cassette
from rulvar.testing.cassette_listing import cassette_stats

_HEADINGS = ("  MODEL", "ROWS", "ERRORS", "TOKENS", "COST")


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("cassettes", metavar="CASSETTE", nargs="+")
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Add up."""
    found = [cassette_stats(read_cassette(path)) for path in options.cassettes]
    if options.json:
        terminal.document({"cassettes": found})
    for stats in found if not options.json else ():
        _show(stats, terminal)
    return OK


def _show(stats: dict[str, Any], terminal: Terminal) -> None:
    terminal.out(
        (str(stats["path"]), "bold"),
        f"  {count_text(stats['rows'], 'row')}, {count_text(stats['requests'], 'request')} ({stats['repeated']} repeated), "
        f"{count_text(stats['bytes'], 'byte')}, "
        f"recorded {stats['recordedAt']}",
    )
    rows = [
        [
            f"  {model['adapter']}:{model['model']}",
            str(model["rows"]),
            str(model["errors"]),
            tokens_text(model["usage"]),
            usd_text(model["costUsd"]),
        ]
        for model in stats["models"]
    ]
    if rows:
        terminal.table(_HEADINGS, rows)
