"""Write a run into one JSON file: its meta row, its journal and its transcripts.

The file holds everything that the run's prompts and answers held. It can be imported into another
store, replayed (rulvar replay FILE WORKFLOW) and compared (rulvar diff).

--minimize writes the smallest journal with which WORKFLOW still comes to the same end, with secrets
masked: a regression test that can be shown to others. The workflow's body is run to find out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_json, add_store
from rulvar.cli.catalogue import journal_of
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK
from rulvar.cli.minimizing import add_minimizing, facts_of, lines_of, minimized, refuse_without_minimizing
from rulvar.cli.stores import Runs
from rulvar.cli.terminal import Terminal
from rulvar.cli.version import installed_version
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError
from rulvar.stores.bundle import Bundle, encode_bundle
from rulvar.stores.refs import refs_of

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry

_REFERENCES = ("transcriptRef", "checkpointRef")


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument(
        "workflow", metavar="WORKFLOW", nargs="?", help="with --minimize; default: the recorded one"
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="default: RUN.run.json; - is stdout")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_minimizing(parser)
    add_store(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Export."""
    return run_async(_export(options, terminal))


async def _export(options: argparse.Namespace, terminal: Terminal) -> int:
    if options.minimize:
        small = await minimized(options, terminal)
        code = _put(small.run, [], f"of {small.entries_before} ", facts_of(small), options, terminal)
        if not options.json:
            for line in lines_of(small):
                terminal.say(f"  {line}")
        return code
    refuse_without_minimizing(options)
    async with Workspace(options).runs() as runs:
        meta, entries = await journal_of(runs.journal, options.run)
        blobs, missing = await _transcripts(runs, options.run, entries)
    return _put(Bundle(options.run, meta, entries, blobs), missing, "", {}, options, terminal)


def _put(
    run: Bundle,
    missing: list[str],
    of_how_many: str,
    facts: dict[str, Any],
    options: argparse.Namespace,
    terminal: Terminal,
) -> int:
    """Write the file and say what is in it."""
    data = encode_bundle(run, installed_version())
    name = options.output or f"{options.run}.run.json"
    if name == "-":
        if options.json:
            raise ConfigError(
                "--json and --output - both want stdout; leave one out", data={"field": "--json"}
            )
        terminal.out_bytes(data)
        return OK
    _write(Path(name), data, replace=options.force)
    for ref in missing:
        terminal.say(
            ("warning: ", "yellow"), f"transcript {ref} is named in the journal and not in the store"
        )
    if options.json:
        terminal.document(
            {
                "runId": options.run,
                "file": name,
                "entries": len(run.entries),
                "transcripts": len(run.transcripts),
                "missing": missing,
                **facts,
            }
        )
    else:
        entries = count_text(len(run.entries), f"{of_how_many}entry", f"{of_how_many}entries")
        counts = f"{entries}, {count_text(len(run.transcripts), 'transcript')}"
        terminal.out(f"{name}  {counts}, {count_text(len(data), 'byte')}")
    return OK


async def _transcripts(
    runs: Runs, run_id: str, entries: list[JournalEntry]
) -> tuple[dict[str, bytes], list[str]]:
    """Return the blobs of a run by name, and the references that lead nowhere."""
    prefix = f"{run_id}/"
    names = {ref.removeprefix(prefix) for ref in await refs_of(runs.transcripts, run_id, entries)}
    for entry in entries:
        if b"Ref" in entry.line:
            wire = entry.to_wire()
            named = [wire.get(field) for field in _REFERENCES]
            names.update(
                ref.removeprefix(prefix) for ref in named if isinstance(ref, str) and ref.startswith(prefix)
            )
    blobs, missing = {}, []
    for name in sorted(names):
        data = await runs.transcripts.get(prefix + name)
        if data is None:
            missing.append(name)
        else:
            blobs[name] = data
    return blobs, missing


def _write(path: Path, data: bytes, *, replace: bool) -> None:
    if path.exists() and not replace:
        raise ConfigError(f"{path}: exists already; pass --force to replace it", data={"file": str(path)})
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise ConfigError(f"{path}: cannot be written: {error.strerror}", data={"file": str(path)}) from None
