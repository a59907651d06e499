"""Run workflows again on their recorded calls under other conditions, and report the first call that moves.

TARGET is a test (a pytest node id, a file or a folder) or a workflow (a registered name, module:name
or path/to/file.py:name). A workflow is shaken on a recorded run of it: --run, or its latest in the
store. Nothing goes live and nothing is written. Exit code 0: nothing moved; 1: something did.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rulvar.cli.arguments import add_args, add_config, add_json, add_store, run_args
from rulvar.cli.catalogue import journal_of, list_runs
from rulvar.cli.driving import run_async
from rulvar.cli.exits import FAILED, OK, USAGE
from rulvar.cli.kept_args import recall_args
from rulvar.cli.sources import is_file
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError
from rulvar.testing.recorded_run import run_of_file
from rulvar.testing.shake.entrances import DEFAULT_ROUNDS, check_rounds, shake_journal, shake_tests
from rulvar.testing.shake.report import ShakeReport
from rulvar.testing.shake.rounds import Round

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine

_PYTEST_FAILED = 1
_PYTEST_NO_TESTS = 5


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument(
        "--run", metavar="RUN|FILE", help="the recorded run of a workflow; default: its latest"
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=DEFAULT_ROUNDS,
        help=f"how many processes run everything again (default: {DEFAULT_ROUNDS})",
    )
    parser.add_argument("--round", metavar="TASK", help=argparse.SUPPRESS)
    add_args(parser)
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Shake."""
    if options.round is not None:
        return _round(options, terminal)
    check_rounds(options.rounds)
    if _is_test(options.target):
        return _shake_tests(options, terminal)
    return run_async(_shake_run(options, terminal))


def _is_test(target: str) -> bool:
    return "::" in target or Path(target).exists()


def _shake_tests(options: argparse.Namespace, terminal: Terminal) -> int:
    given = [name for name in ("run", "args", "store", "config") if getattr(options, name)] + ["arg"] * bool(
        options.arg
    )
    if given:
        raise ConfigError(
            f"--{given[0]} is for a workflow; {options.target} is a test", data={"field": f"--{given[0]}"}
        )
    done = shake_tests([options.target], rounds=options.rounds, quiet=options.json)
    if options.json:
        report = None if done.report is None else done.report.to_wire()
        terminal.document({"target": options.target, "pytestExitCode": done.exit_code, "report": report})
    if done.exit_code in (OK, _PYTEST_FAILED):
        return FAILED if done.exit_code else OK
    if done.exit_code == _PYTEST_NO_TESTS:
        raise ConfigError(f"{options.target}: pytest found no test there", data={"field": "target"})
    return USAGE


async def _shake_run(options: argparse.Namespace, terminal: Terminal) -> int:
    workspace = Workspace(options)
    source = options.run
    in_file = source is not None and is_file(source)
    with terminal.quiet_stdout():
        async with workspace.engine(writes=False, in_memory=in_file) as engine:
            if in_file:
                run = run_of_file(source)
                await run.put_into(engine.store, engine.transcripts)
                source = run.run_id
            elif source is None:
                source = await _latest_run(workspace, options.target, engine)
            meta, entries = await journal_of(engine.store, source)
            workflow = workspace.workflow(options.target, engine)
            given = run_args(options, workflow.args and workflow.args.json)
            args = await recall_args(engine.transcripts, source, meta, given)
            budget = meta.get("budgetUsd")
            report = shake_journal(
                engine,
                workflow,
                journal=entries,
                args=args,
                run_id=source,
                budget_usd=budget if isinstance(budget, (int, float)) else None,
                command=_command(options),
                rounds=options.rounds,
                tell=lambda number: terminal.status(f"round {number} of {options.rounds}"),
            )
    terminal.clear_status()
    return _tell(report, source, options, terminal)


async def _latest_run(workspace: Workspace, target: str, engine: Engine) -> str:
    name = workspace.workflow(target, engine).name
    listed = await list_runs(engine.store)
    runs = [item for item in listed if item.meta.get("workflowName") == name]
    if not runs:
        raise ConfigError(
            f"there is no recorded run of workflow {name!r}; start one with rulvar run, or name one with --run",
            data={"field": "--run"},
        )
    return max(runs, key=lambda item: str(item.meta.get("updatedAt", ""))).run_id


def _command(options: argparse.Namespace) -> Callable[[Path], Sequence[str]]:
    words = [options.target]
    if options.config is not None:
        words += ["--config", options.config]
    return lambda task: [sys.executable, "-m", "rulvar.cli.main", "shake", *words, "--round", str(task)]


def _round(options: argparse.Namespace, terminal: Terminal) -> int:
    """Be the process of one round: code of the project is imported only once its surroundings are others."""
    shaking = Round(options.round)
    shaking.begin()

    async def examine() -> None:
        workspace = Workspace(options)
        async with workspace.engine(writes=False, in_memory=True) as engine:
            shaking.examine_all(engine, workspace.workflow(options.target, engine))

    run_async(examine())
    shaking.end()
    return OK


def _tell(report: ShakeReport, run_id: str, options: argparse.Namespace, terminal: Terminal) -> int:
    if options.json:
        terminal.document({"target": options.target, "runId": run_id, "report": report.to_wire()})
    else:
        for line in report.lines:
            moved = line.startswith("MOVED")
            terminal.out((line, "red") if moved else line)
    if not report.runs:
        terminal.say(("error: ", "red"), "the run could not be compared in any round")
        return FAILED
    return OK if report.is_steady else FAILED
