"""Drive runs that were handed to the queue of the project's engine, until told to stop.

The engine comes from rulvar_config.py, [tool.rulvar] engine or --config, and has a queue:
Engine(queue=ProcrastinateQueue(dsn), journal=PostgresStore(dsn), workflows=[...]). SIGTERM and Ctrl-C
let the runs under way come to their end; a second one hands them to other workers at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK
from rulvar.cli.outcomes import STATUS_STYLES
from rulvar.cli.stores import name_of_store
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rulvar.contracts.outcome import Outcome


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--concurrency",
        metavar="N",
        type=int,
        default=10,
        help="how many runs are driven at once (default: 10)",
    )
    parser.add_argument(
        "--drain",
        metavar="SECONDS",
        type=float,
        default=30.0,
        help="for how long runs may go on after the first signal (default: 30)",
    )
    parser.add_argument(
        "--max-interruptions",
        metavar="N",
        type=int,
        default=5,
        help="give a run up that has ended its process so often in a row at the same place; 0 never does (default: 5)",
    )
    parser.add_argument("--until-idle", action="store_true", help="end once nothing is left that is due")
    parser.add_argument("--quiet", "-q", action="store_true", help="no line per run")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve."""
    return run_async(_serve(options, terminal))


async def _serve(options: argparse.Namespace, terminal: Terminal) -> int:
    from rulvar.workers import Worker

    def tell(run_id: str, outcome: Outcome) -> None:
        error = "" if outcome.error is None else f"  {outcome.error.code}: {outcome.error.message}"
        terminal.say((outcome.status, STATUS_STYLES.get(outcome.status, "")), f"  {run_id}{error}")

    workspace = Workspace(options)
    with terminal.quiet_stdout():
        async with workspace.engine(starts=True) as engine:
            if engine.queue is None:
                raise ConfigError(
                    "worker: the project's engine has no queue; give it one in rulvar_config.py: "
                    "Engine(queue=ProcrastinateQueue(dsn), journal=PostgresStore(dsn), workflows=[...])",
                    data={"field": "queue"},
                )
            worker = Worker(
                engine,
                concurrency=options.concurrency,
                drain_s=options.drain,
                max_interruptions=options.max_interruptions or None,
                on_outcome=None if options.quiet else tell,
            )
            terminal.say(f"worker {engine.owner} over {name_of_store(engine.store)}; Ctrl-C ends it")
            with _logged(terminal):
                await worker.run(until_idle=options.until_idle, handle_signals=True)
    stats = dataclasses.asdict(worker.stats)
    if terminal.json_output:
        terminal.document({"worker": engine.owner, **stats})
    else:
        terminal.out(", ".join(f"{count} {name}" for name, count in stats.items()))
    return OK


@contextmanager
def _logged(terminal: Terminal) -> Iterator[None]:
    """Say what workers log, in one line each."""
    handler = _Said(terminal)
    logger = logging.getLogger("rulvar.workers")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Said(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Say a warning or an error; where in the code it arose is for the log that the project sets up."""
        error = record.exc_info[1] if record.exc_info else None
        told = record.getMessage() + ("" if error is None else f": {type(error).__name__}: {error}")
        self._terminal.say((f"{record.levelname.lower()}: ", "yellow"), told)
