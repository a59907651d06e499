"""Bring a run into the store from a file that rulvar export wrote.

The file is checked as a whole before anything is written: names that could lead outside the store are
refused, and so is a run that the store holds already.
"""

from __future__ import annotations

import argparse

from rulvar.cli.arguments import add_json, add_store
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK
from rulvar.cli.sources import read_bytes
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError
from rulvar.stores.bundle import decode_bundle


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", help="an exported run; - is stdin")
    parser.add_argument("--force", action="store_true", help="replace a run of that id that is there")
    add_store(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Import."""
    return run_async(_import(options, terminal))


async def _import(options: argparse.Namespace, terminal: Terminal) -> int:
    bundle = decode_bundle(read_bytes(options.file), "stdin" if options.file == "-" else options.file)
    store = Workspace(options).store_to_write()
    run_id = bundle.run_id
    exists = any((store.directory / f"{run_id}{suffix}").exists() for suffix in (".jsonl", ".meta.json"))
    if exists and not options.force:
        raise ConfigError(
            f"run {run_id!r} is in {store.directory} already; pass --force to replace it",
            data={"field": "runId"},
        )
    if exists:
        await store.delete(run_id)
        await store.transcripts.delete_run(run_id)
    try:
        await bundle.put_into(store, store.transcripts)
    except BaseException:
        await store.delete(run_id)  # half a run is none
        await store.transcripts.delete_run(run_id)
        raise
    store.close()
    if options.json:
        terminal.document(
            {"runId": run_id, "entries": len(bundle.entries), "transcripts": len(bundle.transcripts)}
        )
    else:
        terminal.out(f"{run_id}  {len(bundle.entries)} entries, {len(bundle.transcripts)} transcripts")
    return OK
