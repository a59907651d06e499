"""Show what a run did: its meta row, its calls in order, what it waits for, how it settled.

With --seq one entry is shown whole, with the conversation that it refers to.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from rulvar.cli.amounts import age_text, seconds_text, tokens_text
from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.catalogue import not_found, run_ids
from rulvar.cli.damage import damage_of
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK
from rulvar.cli.journals import Call, calls_of, open_waits, settles_of
from rulvar.cli.outcomes import STATUS_STYLES, value_line
from rulvar.cli.printable import clip
from rulvar.cli.questions import questions_of
from rulvar.cli.stores import Runs
from rulvar.cli.terminal import Part, Terminal
from rulvar.cli.trees import show_tree
from rulvar.cli.workspace import Workspace
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.clock import epoch_ms
from rulvar.engine.interruptions import interruptions_of
from rulvar.errors import ConfigError, RulvarError
from rulvar.machines.fold import fold_run
from rulvar.machines.report import place_document
from rulvar.runtime.checkpoint import checkpoint_json
from rulvar.stores.bundle import is_blob_name

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry
    from rulvar.contracts.ports.store import RunMeta
    from rulvar.machines.view import RunView

_MOST_SCOPES = 10
_HEADINGS = ("SEQ", "SCOPE", "KIND", "NAME", "STATUS", "TOOK", "TOKENS", "VALUE")
_LONGEST_VALUE = 60


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--seq", type=int, metavar="N", help="show the entry of that number whole")
    parser.add_argument("--scope", metavar="SCOPE", help="only calls in this scope and below")
    parser.add_argument("--entries", action="store_true", help="every entry as it is in the journal")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Inspect."""
    return run_async(_inspect(options, terminal))


async def _inspect(options: argparse.Namespace, terminal: Terminal) -> int:
    async with Workspace(options).runs() as runs:
        return await _inspect_in(runs, options, terminal)


async def _inspect_in(runs: Runs, options: argparse.Namespace, terminal: Terminal) -> int:
    meta, entries, damage = await _looked_up(runs, options.run)
    if options.seq is not None:
        await _show_entry(runs, entries, options, terminal)
        return OK
    chosen = [entry for entry in entries if _is_within(entry.scope, options.scope)]
    if options.entries:
        if options.json:
            terminal.document({"runId": options.run, "entries": [entry.to_wire() for entry in chosen]})
        for entry in chosen if not options.json else ():
            terminal.out(json.dumps(entry.to_wire(), ensure_ascii=False))
        return OK
    tree = _folded(options.run, meta, entries, damage)
    calls = [call for call in calls_of(entries) if _is_within(call.scope, options.scope)]
    if not calls and options.scope:
        scopes = list(dict.fromkeys(call.scope or "-" for call in calls_of(entries)))
        told = [*scopes[:_MOST_SCOPES], "..."] if len(scopes) > _MOST_SCOPES else scopes
        terminal.say(f"no call in scope {options.scope!r}; there are: {', '.join(told) or 'none'}")
    if options.json:
        terminal.document({**_document(options, meta, entries, calls, tree), "damage": damage})
    else:
        _show(options, meta, entries, calls, tree, terminal, damage)
    return OK


def _folded(run_id: str, meta: RunMeta, entries: list[JournalEntry], damage: list[str]) -> RunView | None:
    """Return the tree of a run in which machines stand; damage that hides it hides nothing else."""
    try:
        tree = fold_run(entries, run_id, meta)
    except RulvarError as error:
        damage.append(error.message)
        return None
    return tree if any(node.place is not None for node in tree.tree()) else None


async def _looked_up(runs: Runs, run_id: str) -> tuple[RunMeta, list[JournalEntry], list[str]]:
    """Return a run's meta row and entries, and what is wrong with their files; there may be nothing else."""
    meta = await runs.journal.load_meta(check_run_id(run_id))
    entries = await runs.journal.load(run_id)
    if meta is None and not entries and run_id not in await run_ids(runs.journal):
        raise await not_found(runs.journal, run_id)
    return meta or {}, entries, await damage_of(runs.journal, run_id, meta, entries)


def _is_within(scope: str, wanted: str | None) -> bool:
    return wanted is None or scope == wanted or wanted == "" or scope.startswith(f"{wanted}/")


def _document(
    options: argparse.Namespace,
    meta: RunMeta,
    entries: list[JournalEntry],
    calls: list[Call],
    tree: RunView | None,
) -> dict[str, Any]:
    run_id: str = options.run
    place: dict[str, Any] = {} if tree is None or tree.place is None else place_document(tree)
    return {
        "runId": run_id,
        "meta": meta,
        **place,
        "entries": len(entries),
        "calls": [
            {
                "seq": call.seq,
                "scope": call.scope,
                "kind": call.kind,
                "name": call.name,
                "key": call.first.get("key"),
                "status": call.status,
                "value": call.value,
                "error": call.wire.get("error"),
                "usage": call.wire.get("usage"),
                "model": call.wire.get("servedBy"),
                "startedAt": call.first.get("startedAt"),
                "endedAt": call.wire.get("endedAt"),
            }
            for call in calls
        ],
        "pending": questions_of(run_id, open_waits(entries), entries, options).to_wire(),
        "settles": [
            {"seq": s.seq, "status": s.status, "segment": s.segment, "outputHash": s.output_hash}
            for s in settles_of(entries)
        ],
    }


def _show(
    options: argparse.Namespace,
    meta: RunMeta,
    entries: list[JournalEntry],
    calls: list[Call],
    tree: RunView | None,
    terminal: Terminal,
    damage: list[str],
) -> None:
    run_id: str = options.run
    status = str(meta.get("status", "?"))
    terminal.out((status, STATUS_STYLES.get(status, "")), f"  {meta.get('workflowName', '?')}  {run_id}")
    for label, value in _facts(meta, entries):
        terminal.out(f"  {label:<9}{value}")
    for line in damage:
        terminal.out("  damage   ", (line, "red"), f"; see rulvar runs audit {run_id}")
    if tree is not None:
        terminal.out("")
        show_tree(terminal, tree, meta, "  ")
    if calls:
        terminal.out("")
        terminal.table(_HEADINGS, [_row(call) for call in calls], flexible=len(_HEADINGS) - 1)
    waits = open_waits(entries)
    if waits:
        terminal.out("")
        questions_of(run_id, waits, entries, options).show(terminal)


def _facts(meta: RunMeta, entries: list[JournalEntry]) -> list[tuple[str, str]]:
    settles = ", ".join(f"{settle.status} at {settle.seq}" for settle in settles_of(entries))
    facts = [
        ("name", meta.get("name")),
        ("tags", ", ".join(map(str, meta["tags"])) if isinstance(meta.get("tags"), list) else None),
        ("updated", f"{meta.get('updatedAt')} ({age_text(meta.get('updatedAt'))})" if meta else None),
        ("segments", meta.get("segments")),
        ("budget", None if meta.get("budgetUsd") is None else f"${meta['budgetUsd']}"),
        ("entries", len(entries)),
        (
            "settled",
            settles
            or ("not yet" if entries or meta.get("status") in (None, "running") else "nothing was journaled"),
        ),
        ("broke off", _broken_off(meta)),
    ]
    return [(label, str(value)) for label, value in facts if value not in (None, "")]


def _broken_off(meta: RunMeta) -> str | None:
    told = interruptions_of(meta)
    if told is None:
        return None
    ending = "once" if told.times == 1 else f"{told.times} times in a row without getting any further"
    return (
        f"after entry {told.entries - 1}, {ending}" if told.entries else f"before its first entry, {ending}"
    )


def _row(call: Call) -> list[Part]:
    usage, error = call.wire.get("usage"), call.wire.get("error")
    style = STATUS_STYLES.get(call.status, "")
    if isinstance(error, dict):
        told = value_line(f"{error.get('code')}: {error.get('message')}")
    else:
        told = "" if call.value is None else value_line(call.value)
    return [
        str(call.seq),
        call.scope or "-",
        call.kind,
        call.name,
        (call.status, style),
        _took(call),
        tokens_text(usage) if isinstance(usage, dict) and call.kind == "agent" else "",
        clip(told, _LONGEST_VALUE),
    ]


def _took(call: Call) -> str:
    try:
        started, ended = epoch_ms(str(call.first["startedAt"])), epoch_ms(str(call.wire["endedAt"]))
    except (KeyError, ValueError):
        return ""
    return seconds_text((ended - started) / 1000) if call.kind != "rand" else ""


async def _show_entry(
    runs: Runs, entries: list[JournalEntry], options: argparse.Namespace, terminal: Terminal
) -> None:
    entry = next((item for item in entries if item.seq == options.seq), None)
    if entry is None:
        last = entries[-1].seq if entries else -1
        raise ConfigError(
            f"run {options.run!r} has no entry {options.seq}; its last one is {last}", data={"field": "--seq"}
        )
    wire = entry.to_wire()
    ref = wire.get("transcriptRef") or wire.get("checkpointRef")
    data = None
    if isinstance(ref, str) and is_blob_name(ref):
        data = await runs.transcripts.get(ref)
    transcript = None if data is None else _decoded(data)
    if options.json:
        terminal.document({"runId": options.run, "entry": wire, "transcript": transcript})
        return
    terminal.out_block(json.dumps(wire, ensure_ascii=False, indent=2))
    if transcript is not None:
        terminal.out((str(ref), "bold"))
        terminal.out_block(json.dumps(transcript, ensure_ascii=False, indent=2))


def _decoded(data: bytes) -> Any:
    try:
        return checkpoint_json(data)
    except ValueError:
        return f"{len(data)} bytes that are no JSON"
