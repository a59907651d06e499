"""List cassettes: files, and every cassette below folders, with what they hold."""

from __future__ import annotations

import argparse

from rulvar.cli.amounts import age_text
from rulvar.cli.arguments import add_json
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.sources import check_paths
from rulvar.cli.terminal import Part, Terminal
from rulvar.testing.cassette_listing import list_cassettes

_HEADINGS = ("CASSETTE", "ROWS", "BYTES", "RECORDED", "ADAPTERS", "MODELS")


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", default=["."], help="files and folders (default: here)"
    )
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """List; a cassette that cannot be read makes the exit code 1."""
    check_paths(options.paths)
    found = list_cassettes(options.paths)
    if options.json:
        terminal.document({"cassettes": found})
    elif found:
        terminal.table(_HEADINGS, [_row(item) for item in found if "error" not in item])
        for item in found:
            if "error" in item:
                terminal.say(("error: ", "red"), str(item["error"]))
    else:
        terminal.say("no cassettes")
    return FAILED if any("error" in item for item in found) else OK


def _row(item: dict[str, object]) -> list[Part]:
    return [
        str(item["path"]),
        str(item["rows"]),
        f"{item['bytes']:,}",
        age_text(item["recordedAt"]),
        _joined(item["adapters"]),
        _joined(item["models"]),
    ]


def _joined(names: object) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else ""
