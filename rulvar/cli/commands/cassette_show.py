"""Show the rows of a cassette in short, or one of them whole.

ROW is a line number or the first digits of a request hash.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from rulvar.cli.amounts import tokens_text, usd_text
from rulvar.cli.arguments import add_json
from rulvar.cli.exits import OK
from rulvar.cli.terminal import Part, Terminal
from rulvar.testing.cassette import read_cassette
from rulvar.testing.cassette_listing import find_rows, row_summary

_HEADINGS = ("LINE", "HASH", "MODEL", "OUTCOME", "TOKENS", "COST", "PROMPT", "ANSWER")
_HASH_DIGITS = 8


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("cassette", metavar="CASSETTE")
    parser.add_argument("row", metavar="ROW", nargs="?")
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Show."""
    cassette = read_cassette(options.cassette)
    if options.row is not None:
        rows = [{"line": row.line, **row.wire} for row in find_rows(cassette, options.row)]
        if options.json:
            terminal.document({"cassette": cassette.path, "rows": rows})
        for row in rows if not options.json else ():
            terminal.out_block(json.dumps(row, ensure_ascii=False, indent=2))
        return OK
    summaries = [row_summary(row) for row in cassette.rows]
    if options.json:
        terminal.document({"cassette": cassette.path, "rows": summaries})
    else:
        terminal.table(_HEADINGS, [_row(item) for item in summaries], flexible=len(_HEADINGS) - 1)
    return OK


def _row(item: dict[str, Any]) -> list[Part]:
    cost = item["costUsd"]
    return [
        str(item["line"]),
        str(item["requestHash"])[:_HASH_DIGITS],
        f"{item['adapter']}:{item['model']}",
        (item["outcome"], "red" if str(item["outcome"]).startswith("error") else ""),
        "" if item["usage"] is None else tokens_text(item["usage"]),
        "" if cost is None else usd_text(cost),
        item["prompt"],
        item["answer"],
    ]
