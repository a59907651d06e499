"""``export --minimize``: what the command line adds to the minimization of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_args, add_config, run_args
from rulvar.cli.catalogue import journal_of
from rulvar.cli.kept_args import recall_args
from rulvar.cli.references import load_reference
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import ConfigError
from rulvar.stores.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulvar.testing.minimize.minimization import MinimizedRun

__all__ = ["add_minimizing", "facts_of", "lines_of", "minimized", "refuse_without_minimizing"]

_MOST_TOLD = 10


def add_minimizing(parser: argparse.ArgumentParser) -> None:
    """Add ``--minimize`` and what belongs to it."""
    parser.add_argument(
        "--minimize", action="store_true", help="only what a replay reads, with secrets masked"
    )
    parser.add_argument(
        "--blank",
        action="store_true",
        help="with --minimize: mask every text that the course does not depend on",
    )
    parser.add_argument(
        "--redact", metavar="MODULE:ATTR", help="with --minimize: the project's own masking hook"
    )
    add_args(parser)
    add_config(parser)


def refuse_without_minimizing(options: argparse.Namespace) -> None:
    """Refuse options that mean nothing without ``--minimize``.

    Raises:
        ConfigError: names the option.
    """
    for name in ("blank", "redact", "args", "arg", "workflow"):
        if getattr(options, name):
            shown = "WORKFLOW" if name == "workflow" else f"--{name}"
            raise ConfigError(f"{shown} goes with --minimize", data={"field": shown})


async def minimized(options: argparse.Namespace, terminal: Terminal) -> MinimizedRun:
    """Minimize the run of a command line.

    Raises:
        ConfigError: the run, its workflow or an option is wrong, or a mask would change its course.
    """
    from rulvar.testing.minimize.minimization import minimize_with

    hook = _hook(options.redact)
    workspace = Workspace(options)
    with terminal.quiet_stdout():
        async with workspace.engine(writes=False) as engine:
            meta, entries = await journal_of(engine.store, options.run)
            workflow = workspace.workflow_of_run(options.workflow, meta, engine)
            given = run_args(options, workflow.args and workflow.args.json)
            args = await recall_args(engine.transcripts, options.run, meta, given)
            run = Bundle(options.run, meta, entries)
            return minimize_with(engine, workflow, run, args, redact=hook, blank=options.blank)


def facts_of(small: MinimizedRun) -> dict[str, Any]:
    """Return what a program is told of a minimized run."""
    return {
        "entriesBefore": small.entries_before,
        "status": small.status,
        "error": small.error,
        "masked": [
            {"entry": None if note.seq < 0 else note.seq, "path": note.path, "rule": note.rule}
            for note in small.masked
        ],
        "blanked": list(small.blanked),
        "rekeyed": small.rekeyed,
    }


def lines_of(small: MinimizedRun) -> list[str]:
    """Return what a person is told of a minimized run."""
    lines = [f"ends: {small.status}" + (f": {small.error}" if small.error else "")]
    for note in small.masked[:_MOST_TOLD]:
        place = note.path if note.seq < 0 else f"entry {note.seq} {note.path}"
        lines.append(f"masked: {place} ({note.rule})")
    if len(small.masked) > _MOST_TOLD:
        lines.append(f"masked: {count_text(len(small.masked) - _MOST_TOLD, 'more place')}")
    if small.blanked:
        lines.append(f"blanked: {count_text(len(small.blanked), 'entry', 'entries')}")
    return lines


def _hook(reference: str | None) -> Callable[[str], str] | None:
    if reference is None:
        return None
    hook = load_reference(reference, Path.cwd(), "--redact")
    if not callable(hook):
        raise ConfigError(f"--redact: {reference} is no function", data={"field": "--redact"})
    made: Callable[[str], str] = hook
    return made
