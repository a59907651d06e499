"""Cancel a run that nobody drives, or that workers of a queue drive or are about to.

A run that waits for an answer, or whose process is gone, settles as cancelled; its workflow is not run
for that. A run in the queue is not started, and one that a worker drives is cancelled there. A run that
another process drives by itself is cancelled in that process: with Ctrl-C, or SIGTERM. A cancelled run
can be resumed all the same.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rulvar.cli.arguments import add_args, add_config, add_json, add_store, run_args
from rulvar.cli.catalogue import meta_of
from rulvar.cli.driving import run_async
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.kept_args import recall_args
from rulvar.cli.outcomes import STATUS_STYLES, show_error
from rulvar.cli.stores import Runs
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError, LeaseHeldError

if TYPE_CHECKING:
    from rulvar.contracts.outcome import Outcome
    from rulvar.contracts.ports.store import RunMeta
    from rulvar.engine.engine import Engine

_ENDED = frozenset({"ok", "error", "exhausted"})


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--reason", default="cancelled on request", help="kept in the outcome")
    add_args(parser)
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Cancel."""
    return run_async(_cancel(options, terminal))


async def _cancel(options: argparse.Namespace, terminal: Terminal) -> int:
    with terminal.quiet_stdout():
        async with Workspace(options).runs() as runs:
            status, outcome = await _cancelled(runs, options)
    if terminal.json_output:
        error = None if outcome is None or outcome.error is None else outcome.error.to_wire()
        terminal.document({"runId": options.run, "status": status, "error": error})
    else:
        terminal.out((status, STATUS_STYLES.get(status, "")), f"  {options.run}")
        if outcome is not None and status != "cancelled":
            show_error(terminal, outcome)
    return OK if status in ("cancelled", "cancelling") else FAILED


async def _cancelled(runs: Runs, options: argparse.Namespace) -> tuple[str, Outcome | None]:
    """Return how the run stands now: ``cancelling`` when that is up to a worker."""
    from rulvar.engine.engine import Engine

    run_id: str = options.run
    engine = runs.engine or Engine(journal=runs.journal, transcripts=runs.transcripts, determinism="off")
    asked = await _ask_workers(engine, run_id)
    if asked and await engine.store.load_meta(run_id) is None:
        return "cancelled", None  # it had not begun
    meta = await meta_of(engine.store, run_id)
    status = str(meta.get("status"))
    if status == "cancelled" or (asked and status in _ENDED):
        return "cancelled", None
    if status in _ENDED:
        raise ConfigError(f"run {run_id!r} has ended already: {status}", data={"field": "run"})
    try:
        outcome = await _settle(engine, meta, options)
    except LeaseHeldError as error:
        if asked:
            return "cancelling", None
        raise ConfigError(
            f"run {run_id!r} is driven by {error.data.get('owner') or 'another process'}: cancel it there, with Ctrl-C or "
            "SIGTERM",
            data={"field": "run"},
        ) from None
    return outcome.status, outcome


async def _ask_workers(engine: Engine, run_id: str) -> bool:
    """Take the run's jobs from the queue, and have the one that is under way aborted."""
    cancel = getattr(engine.queue, "cancel", None)
    return callable(cancel) and bool(await cancel(run_id))


async def _settle(engine: Engine, meta: RunMeta, options: argparse.Namespace) -> Outcome:
    """Drive a segment that is cancelled before its body begins: it needs the workflow's name only."""
    from rulvar.engine.workflow import define_workflow

    async def nothing(ctx: Any, args: Any) -> None:
        raise AssertionError("cancelled before it began")

    name = meta.get("workflowName")
    workflow = define_workflow(name if isinstance(name, str) else "unknown", nothing)
    args = await recall_args(engine.transcripts, options.run, meta, run_args(options))
    handle = engine.resume(options.run, workflow, args=args)
    await handle.cancel(options.reason)
    return await handle.result()
