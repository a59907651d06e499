"""Show a run as a tree: where every machine stands, what it waits for and what a person would see.

With --record the tool calls of a traced run become a fixture for tests. Code of the project is run only where its engine is what names the store.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.catalogue import journal_of
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK
from rulvar.cli.hints import near_verb
from rulvar.cli.machine_questions import question_of
from rulvar.cli.stores import Runs
from rulvar.cli.terminal import Terminal
from rulvar.cli.trees import show_tree, status_of
from rulvar.cli.verbs import VERBS
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError, RunNotFoundError
from rulvar.machines.report import prompt_of, read_run, record_run
from rulvar.machines.view import RunView

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import RunMeta


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--record", metavar="FILE", help="write the tool fixture of the run to this file")
    parser.add_argument("--tools", metavar="ID,ID", help="with --record: only calls of these tools")
    parser.add_argument(
        "--no-redact", action="store_true", help="with --record: leave credentials as they are"
    )
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Show or record."""
    return run_async(_show(options, terminal))


async def _show(options: argparse.Namespace, terminal: Terminal) -> int:
    async with Workspace(options).runs() as runs:
        return await _show_in(runs, options, terminal)


async def _show_in(runs: Runs, options: argparse.Namespace, terminal: Terminal) -> int:
    store = runs.journal
    try:
        meta, _ = await journal_of(store, options.run)
    except RunNotFoundError as error:
        near = near_verb(options.run, VERBS, "runs")
        if near is None or near == "runs" or "did you mean" in error.message:
            raise
        raise RunNotFoundError(
            f"{error.message}; or did you mean 'rulvar {near}'?", data=error.data
        ) from None
    if options.tools is not None and options.record is None:
        raise ConfigError("--tools without --record: there is nothing that it could choose from")
    if options.no_redact and options.record is None:
        raise ConfigError("--no-redact without --record: there is nothing that it could leave as it is")
    if options.record is not None:
        tools = None if options.tools is None else [name.strip() for name in options.tools.split(",")]
        told = await record_run(
            store, options.run, options.record, tools, False if options.no_redact else None
        )
        if terminal.json_output:
            terminal.document(told)
        else:
            terminal.out(f"{count_text(told['recordings'], 'recording')} in {told['file']}")
            if told["skippedPending"]:
                skipped = count_text(
                    told["skippedPending"],
                    "call skipped: its result came from a child",
                    "calls skipped: their results came from children",
                )
                terminal.out(f"  {skipped}")
        return OK
    view = await read_run(store, options.run)
    if terminal.json_output:
        terminal.document(_document(view, meta))
    else:
        show_tree(terminal, view, meta)
    return OK


def _document(view: RunView, meta: RunMeta) -> dict[str, Any]:
    prompt = prompt_of(view)
    return {
        **_node(view, meta),
        "prompt": None if prompt is None else {**prompt.to_wire(), "status": "suspended"},
    }


def _node(view: RunView, meta: RunMeta | None = None) -> dict[str, Any]:
    waits = (
        view.waits if view.place is None else [replace(way, prompt=question_of(view)) for way in view.waits]
    )
    return {
        "runId": view.run_id,
        "workflow": view.workflow,
        "status": status_of(view, meta),
        "place": view.place,
        "path": view.path,
        "state": view.state,
        "result": view.result,
        "error": view.error,
        "documents": [item.to_wire() for item in view.documents],
        "pending": [way.to_wire() for way in waits],
        "trace": [event.to_wire() for event in view.trace],
        "children": [_node(child) for child in view.children],
    }
