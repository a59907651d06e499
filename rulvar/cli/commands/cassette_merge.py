"""Write the rows of several cassettes into one, in order; repeated requests are numbered on."""

from __future__ import annotations

import argparse
from pathlib import Path

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_json
from rulvar.cli.exits import OK
from rulvar.cli.terminal import Terminal
from rulvar.errors import ConfigError
from rulvar.testing.cassette_changes import merge_cassettes


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("cassettes", metavar="CASSETTE", nargs="+")
    parser.add_argument("--output", "-o", metavar="FILE", required=True)
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Merge."""
    if Path(options.output).exists() and not options.force:
        raise ConfigError(
            f"{options.output}: exists already; pass --force to replace it", data={"file": options.output}
        )
    rows = merge_cassettes(options.cassettes, options.output)
    if options.json:
        terminal.document({"path": options.output, "rows": rows})
    else:
        terminal.out(f"{options.output}  {count_text(rows, 'row')}")
    return OK
