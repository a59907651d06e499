"""Bring a run into the store from a file that rulvar export wrote.

The file is checked as a whole before anything is written: names that could lead outside the store are
refused, and so is a run that the store holds already.
"""

from __future__ import annotations

import argparse

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.catalogue import run_ids
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK
from rulvar.cli.sources import read_bytes
from rulvar.cli.stores import Runs
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError
from rulvar.stores.bundle import decode_bundle


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", help="an exported run; - is stdin")
    parser.add_argument("--force", action="store_true", help="replace a run of that id that is there")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Import."""
    return run_async(_import(options, terminal))


async def _import(options: argparse.Namespace, terminal: Terminal) -> int:
    bundle = decode_bundle(read_bytes(options.file), "stdin" if options.file == "-" else options.file)
    run_id = bundle.run_id
    async with Workspace(options).runs(writes=True) as runs:
        exists = run_id in await run_ids(runs.journal)
        if exists and not options.force:
            raise ConfigError(
                f"run {run_id!r} is in {runs.name} already; pass --force to replace it",
                data={"field": "runId"},
            )
        if exists:
            await _delete(runs, run_id)
        try:
            await bundle.put_into(runs.journal, runs.transcripts)
        except BaseException:
            await _delete(runs, run_id)  # half a run is none
            raise
    if options.json:
        terminal.document(
            {"runId": run_id, "entries": len(bundle.entries), "transcripts": len(bundle.transcripts)}
        )
    else:
        entries = count_text(len(bundle.entries), "entry", "entries")
        terminal.out(f"{run_id}  {entries}, {count_text(len(bundle.transcripts), 'transcript')}")
    return OK


async def _delete(runs: Runs, run_id: str) -> None:
    await runs.journal.delete(run_id)
    await runs.transcripts.delete_run(run_id)
