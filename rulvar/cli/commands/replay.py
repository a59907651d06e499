"""Replay a run strictly: every call is served from the journal, and nothing is written.

The first call that would go live ends the replay; it is shown with its call site and with what
differs from the journal. RUN is a run of the store, or a file: a journal (.jsonl) or an exported run.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rulvar.cli.arguments import add_args, add_config, add_json, add_store, run_args
from rulvar.cli.catalogue import journal_of
from rulvar.cli.driving import run_async
from rulvar.cli.journals import Settle, last_settle
from rulvar.cli.kept_args import recall_args
from rulvar.cli.replaying import ReplayReport, replayed
from rulvar.cli.reports import Recording
from rulvar.cli.sources import is_file
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.kernel.keys import hash_output
from rulvar.testing.recorded_run import run_of_file, transcripts_beside

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN|FILE")
    parser.add_argument("workflow", metavar="WORKFLOW", nargs="?")
    add_args(parser)
    parser.add_argument(
        "--assert-no-live",
        action="store_true",
        help="judge only whether a call would go live: a run that ends waiting is then fine too",
    )
    parser.add_argument(
        "--compare-output-hash",
        action="store_true",
        help="fail when the output is not the one whose hash the journal holds",
    )
    parser.add_argument("--report", metavar="PATH", help="write what served each call as a replay report")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Replay."""
    return run_async(_replay(options, terminal))


async def _replay(options: argparse.Namespace, terminal: Terminal) -> int:
    workspace = Workspace(options)
    recording = Recording.start(options.report)
    try:
        with terminal.quiet_stdout():
            async with workspace.engine(writes=False, in_memory=is_file(options.run)) as engine:
                run_id = await _place_run(options.run, engine)
                meta, entries = await journal_of(engine.store, run_id)
                workflow = workspace.workflow_of_run(options.workflow, meta, engine)
                given = run_args(options, workflow.args and workflow.args.json)
                args = await recall_args(engine.transcripts, run_id, meta, given)
                is_journal = options.run.endswith(".jsonl")
                transcripts = transcripts_beside(options.run) if is_journal else None
                report = await replayed(engine, run_id, workflow, args, transcripts=transcripts)
                _judge(report, options, last_settle(entries))
        recording.write(report, workflow)
    finally:
        recording.stop()
    return report.tell(terminal)


async def _place_run(name: str, engine: Engine) -> str:
    """Return the run's id; a run in a file is put into the engine's store first."""
    if not is_file(name):
        return name
    source = run_of_file(name)
    await source.put_into(engine.store, engine.transcripts)
    return source.run_id


def _judge(report: ReplayReport, options: argparse.Namespace, settle: Settle | None) -> None:
    """Add what the replay is held against."""
    report.only_live_counts = options.assert_no_live
    report.compares_output = options.compare_output_hash
    if settle is not None:
        report.recorded_status, report.recorded_hash = settle.status, settle.output_hash
    if report.outcome.status == "ok":
        report.replayed_hash = hash_output(report.outcome.value)
