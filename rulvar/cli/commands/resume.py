"""Continue a run: finished calls are served from its journal, the rest is done.

WORKFLOW may be left out when the workflow is registered under the recorded name. Arguments may be
left out when the run was started from the command line.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulvar.cli.arguments import (
    add_args,
    add_bounds,
    add_config,
    add_json,
    add_store,
    entry_numbers,
    run_args,
    seconds_from_now,
)
from rulvar.cli.catalogue import meta_of
from rulvar.cli.driving import run_async
from rulvar.cli.kept_args import recall_args
from rulvar.cli.replaying import ReplayReport, replayed
from rulvar.cli.sessions import Report, finish
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("workflow", metavar="WORKFLOW", nargs="?")
    add_args(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write nothing; say what would be served and what would go live",
    )
    parser.add_argument(
        "--invalidate",
        metavar="SEQ",
        type=int,
        action="append",
        default=[],
        help="run the memoized failure with that entry number again; may be repeated",
    )
    add_bounds(parser)
    parser.add_argument("--no-input", action="store_true", help="never ask; end with exit code 3 instead")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Resume the run."""
    return run_async(_resume(options, terminal))


async def _resume(options: argparse.Namespace, terminal: Terminal) -> int:
    deadline = seconds_from_now(options.deadline, time.time())
    invalidate = entry_numbers(options.invalidate, "--invalidate")
    workspace = Workspace(options)
    with terminal.quiet_stdout():
        async with workspace.engine(writes=not options.dry_run) as engine:
            meta = await meta_of(engine.store, options.run)
            await _check_entries(engine, options.run, invalidate)
            workflow = workspace.workflow_of_run(options.workflow, meta, engine)
            given = run_args(options, workflow.args and workflow.args.json)
            args = await recall_args(engine.transcripts, options.run, meta, given)
            more = {"invalidate": invalidate, "budget_usd": options.budget, "deadline_at": deadline}
            report: Report | ReplayReport
            if options.dry_run:
                report = await replayed(engine, options.run, workflow, args, **more)
            else:
                handle = engine.resume(options.run, workflow, args=args, **more)
                report = await finish(engine, handle, workflow, args, options, terminal, deadline_at=deadline)
    return report.tell(terminal)


async def _check_entries(engine: Engine, run_id: str, numbers: Sequence[int]) -> None:
    """Refuse numbers that no entry of a run has.

    Raises:
        ConfigError: names the first, and the last entry that there is.
    """
    known = {entry.seq for entry in await engine.store.load(run_id)} if numbers else set()
    for number in numbers:
        if number not in known:
            raise ConfigError(
                f"--invalidate {number}: run {run_id!r} has no entry {number}; its last one is {max(known, default=-1)}",
                data={"field": "--invalidate"},
            )
