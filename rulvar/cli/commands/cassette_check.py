"""Check cassettes before they are committed: readable, replayable, nothing that looks like a secret.

PATH is a file or a folder. Findings make the exit code 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_json
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.references import load_reference
from rulvar.cli.sources import check_paths
from rulvar.cli.terminal import Terminal
from rulvar.errors import ConfigError
from rulvar.testing.cassette_check import check_cassette
from rulvar.testing.cassette_listing import list_cassettes

if TYPE_CHECKING:
    from collections.abc import Callable


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("paths", metavar="PATH", nargs="+")
    parser.add_argument(
        "--hashes", action="store_true", help="find rows that were edited since they were recorded"
    )
    parser.add_argument(
        "--redact",
        metavar="MODULE:ATTR",
        help="the project's own masking hook; what it would change is a finding",
    )
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Check."""
    check_paths(options.paths)
    hook = _hook(options.redact)
    paths = [str(item["path"]) for item in list_cassettes(options.paths)]
    findings = [found for path in paths for found in check_cassette(path, hook, hashes=options.hashes)]
    if options.json:
        terminal.document({"cassettes": paths, "findings": [found.to_wire() for found in findings]})
        return FAILED if findings else OK
    for found in findings:
        line = f":{found.line}" if found.line is not None else ""
        field = f"{found.field}: " if found.field else ""
        terminal.out(f"{found.path}{line}: ", (found.kind, "red"), f" {field}{found.message}")
    count = count_text(len(paths), "cassette")
    if findings:
        terminal.out(f"{count}, ", (count_text(len(findings), "finding"), "red"))
    else:
        terminal.out(f"{count}, ", ("no findings", "green"))
    return FAILED if findings else OK


def _hook(reference: str | None) -> Callable[[str], str] | None:
    if reference is None:
        return None
    hook = load_reference(reference, Path.cwd(), "--redact")
    if not callable(hook):
        raise ConfigError(f"--redact: {reference} is no function", data={"field": "--redact"})
    made: Callable[[str], str] = hook
    return made
