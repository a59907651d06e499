"""Answer what a run waits for.

VALUE is JSON, @FILE or - for stdin; a wait for a text takes the text as it is, one for a yes or no
takes yes and no, and an approval takes allow or deny. KEY may be left out when the run waits for one
thing only. The workflow is not run: resume the run to let it go on.
"""

from __future__ import annotations

import argparse

from rulvar.cli.answers import answer_value
from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.catalogue import journal_of
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK, WAITING
from rulvar.cli.journals import open_waits
from rulvar.cli.questions import Questions, options_again, questions_of
from rulvar.cli.stores import Runs
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.contracts.outcome import Pending
from rulvar.engine.waits import find_way
from rulvar.errors import ConfigError


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("key", metavar="KEY", nargs="?", help="what the answer is for")
    parser.add_argument(
        "value", metavar="VALUE", nargs="?", help="without it, what the run waits for is shown"
    )
    parser.add_argument(
        "--force", action="store_true", help="also while the run is marked as running: its process is gone"
    )
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Answer."""
    return run_async(_answer(options, terminal))


async def _answer(options: argparse.Namespace, terminal: Terminal) -> int:
    async with Workspace(options).runs() as runs:
        return await _answer_in(runs, options, terminal)


async def _answer_in(runs: Runs, options: argparse.Namespace, terminal: Terminal) -> int:
    from rulvar.engine.engine import Engine

    meta, entries = await journal_of(runs.journal, options.run)
    waits = open_waits(entries)
    key, text = _key_and_text(options, waits)
    if text is None:
        return _show(questions_of(options.run, waits, entries, options), terminal)
    engine = runs.engine or Engine(journal=runs.journal, transcripts=runs.transcripts, determinism="off")
    has_workers = engine.queue is not None
    if meta.get("status") == "running" and not options.force and not has_workers:
        raise ConfigError(
            f"run {options.run!r} is marked as running: answer it in the process that runs it, or, if that is gone, "
            f"resume the run first (rulvar resume {options.run}{options_again(options)}) or pass --force",
            data={"field": "run"},
        )
    pending = find_way(key or "", waits, f"run {options.run!r}")
    await engine.resolve_external(options.run, pending.key, answer_value(text, pending))
    left = [
        item for item in waits if item.entry_ref != pending.entry_ref
    ]  # a park's other ways are closed with it
    if terminal.json_output:
        document = {"runId": options.run, "key": key, "answered": True}
        terminal.document(
            {**document, "pending": questions_of(options.run, left, entries, options).to_wire()}
        )
        return OK
    terminal.out(("answered", "green"), f" {pending.transition or pending.key}")
    if left:
        terminal.out(
            f"  still waits for {', '.join(dict.fromkeys(item.transition or item.key for item in left))}"
        )
    terminal.out(
        f"  next     {'a worker goes on with it' if has_workers else f'rulvar resume {options.run}{options_again(options)}'}"
    )
    return OK


def _key_and_text(options: argparse.Namespace, waits: list[Pending]) -> tuple[str | None, str | None]:
    key, text = options.key, options.value
    if (
        key is not None
        and text is None
        and len(waits) == 1
        and key not in (waits[0].key, waits[0].transition)
    ):
        return waits[0].key, key  # one word for the one thing that is waited for
    return key, text


def _show(questions: Questions, terminal: Terminal) -> int:
    if terminal.json_output:
        terminal.document({"runId": questions.run_id, "answered": False, "pending": questions.to_wire()})
    elif questions.pending:
        questions.show(terminal)
    else:
        terminal.out(f"run {questions.run_id} waits for nothing")
    return WAITING if questions.pending else OK
