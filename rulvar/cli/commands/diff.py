"""Compare two journals: in each scope, the first call in which they part.

A and B are runs of the store, journal files (.jsonl) or exported runs. Times, spans and entry numbers
do not count. Exit code 0: the same; 1: they differ.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.catalogue import journal_of
from rulvar.cli.divergences import Divergence, compare_journals
from rulvar.cli.driving import run_async
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.sources import is_file, read_source
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare."""
    return run_async(_diff(options, terminal))


async def _diff(options: argparse.Namespace, terminal: Terminal) -> int:
    a, b = await _entries(options.a, options), await _entries(options.b, options)
    found = compare_journals(a, b)
    if options.json:
        terminal.document(
            {
                "a": options.a,
                "b": options.b,
                "same": not found,
                "divergences": [item.to_wire() for item in found],
            }
        )
    elif not found:
        terminal.out(("same", "green"), f"  {len(a)} and {count_text(len(b), 'entry', 'entries')}")
    else:
        for item in found:
            _show(item, terminal)
        terminal.out((count_text(len(found), "scope differs", "scopes differ"), "red"))
    return FAILED if found else OK


async def _entries(name: str, options: argparse.Namespace) -> list[JournalEntry]:
    if is_file(name):
        return (await read_source(Path(name))).entries
    async with Workspace(options).runs() as runs:
        _, entries = await journal_of(runs.journal, name)
    return entries


def _show(item: Divergence, terminal: Terminal) -> None:
    terminal.out((item.scope or "the workflow body", "bold"), f", call {item.position}: {item.message}")
    for side, call in (("A", item.a), ("B", item.b)):
        told = "nothing" if call is None else f"seq {call.seq}  {call.kind}  {call.name}  {call.status}"
        terminal.out(f"  {side}  {told}")
    for path, a, b in item.differences:
        terminal.out(f"  {path}")
        terminal.out("    A ", (a, "red"))
        terminal.out("    B ", (b, "green"))
