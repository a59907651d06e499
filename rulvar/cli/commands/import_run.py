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
from rulvar.engine.lease import HeldRun, default_owner
from rulvar.errors import ConfigError
from rulvar.stores.bundle import Bundle, decode_bundle

_TTL_S = 30.0


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
            raise _is_there(runs, run_id)
        held = await HeldRun.take(runs.journal, runs.transcripts, run_id, default_owner(), _TTL_S)
        try:
            await _bring(runs, held, bundle, replaces=exists)
        finally:
            await held.release()
    if options.json:
        terminal.document(
            {"runId": run_id, "entries": len(bundle.entries), "transcripts": len(bundle.transcripts)}
        )
    else:
        entries = count_text(len(bundle.entries), "entry", "entries")
        terminal.out(f"{run_id}  {entries}, {count_text(len(bundle.transcripts), 'transcript')}")
    return OK


async def _bring(runs: Runs, held: HeldRun, bundle: Bundle, *, replaces: bool) -> None:
    """Put the run in the place of the one that is there, if any; nobody can start it meanwhile."""
    run_id = bundle.run_id
    if replaces:
        await _delete(held, run_id)
    elif await held.load_meta(run_id) is not None or await held.load(run_id):
        raise _is_there(runs, run_id)  # it has been started meanwhile
    held.keep(lambda error: None)  # what is written without the lease is refused by the store
    try:
        await bundle.put_into(held, held.transcripts)
    except BaseException:
        await _delete(held, run_id)  # half a run is none
        raise


async def _delete(held: HeldRun, run_id: str) -> None:
    await held.delete(run_id)
    await held.transcripts.delete_run(run_id)


def _is_there(runs: Runs, run_id: str) -> ConfigError:
    return ConfigError(
        f"run {run_id!r} is in {runs.name} already; pass --force to replace it", data={"field": "runId"}
    )
