"""Start a run of a workflow, and wait for its end.

WORKFLOW is a registered name, module:name, or path/to/file.py:name. When the run waits for an answer
and a person is at the terminal, they are asked; else the command ends with exit code 3.
"""

from __future__ import annotations

import argparse
import time

from rulvar.cli.arguments import (
    add_args,
    add_bounds,
    add_config,
    add_json,
    add_store,
    run_args,
    seconds_from_now,
)
from rulvar.cli.driving import run_async
from rulvar.cli.kept_args import kept_args
from rulvar.cli.sessions import finish
from rulvar.cli.terminal import Terminal
from rulvar.cli.wanted_args import wanted_args
from rulvar.cli.workspace import Workspace
from rulvar.kernel.admission import check_usd
from rulvar.machines.report import trace_wanted


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("workflow", metavar="WORKFLOW")
    add_args(parser)
    parser.add_argument("--run-id", metavar="ID", help="id of the run (default: a new one)")
    parser.add_argument("--name", help="a name for people")
    parser.add_argument("--tag", action="append", default=[], help="a tag for people; may be repeated")
    add_bounds(parser)
    parser.add_argument(
        "--trace",
        action="store_true",
        help="keep arguments and results of tool calls, so that 'rulvar runs RUN --record FILE' can make a fixture "
        "of the run (or set RULVAR_TRACE=1)",
    )
    parser.add_argument("--no-input", action="store_true", help="never ask; end with exit code 3 instead")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run the workflow."""
    return run_async(_run(options, terminal))


async def _run(options: argparse.Namespace, terminal: Terminal) -> int:
    deadline = seconds_from_now(options.deadline, time.time())
    budget = check_usd(options.budget, "budget_usd")
    workspace = Workspace(options)
    with terminal.quiet_stdout():
        async with workspace.engine(starts=True) as engine:
            workflow = workspace.workflow(options.workflow, engine)
            args, warning = wanted_args(workflow, run_args(options, workflow.args and workflow.args.json))
            if warning is not None:
                terminal.say("rulvar: ", ("warning: ", "yellow"), warning)
            handle = engine.run(
                workflow,
                args,
                run_id=options.run_id,
                budget_usd=budget,
                deadline_at=deadline,
                name=options.name,
                tags=options.tag,
                trace=trace_wanted(options.trace) or None,
                kept=kept_args(workflow, args),
            )
            report = await finish(engine, handle, workflow, args, options, terminal, deadline_at=deadline)
    return report.tell(terminal)
