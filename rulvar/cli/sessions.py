"""Brings a run to its end: drives it, asks what it waits for, resumes it, and tells how it ended."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.cli.asking import ask_pending
from rulvar.cli.driving import drive
from rulvar.cli.outcomes import exit_code, outcome_document, preview_document, show_outcome
from rulvar.cli.questions import Questions, questions_of
from rulvar.cli.terminal import Terminal
from rulvar.cli.wanted_args import hint_of
from rulvar.engine.handle import ResumeHandle, RunHandle
from rulvar.errors import RulvarError
from rulvar.machines.fold import fold_run
from rulvar.machines.report import run_document
from rulvar.machines.view import RunView

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry
    from rulvar.contracts.events import Event
    from rulvar.contracts.outcome import Outcome, Preview
    from rulvar.engine.engine import Engine
    from rulvar.engine.workflow import Workflow

__all__ = ["Report", "finish"]


@dataclass(slots=True)
class Report:
    """How a run ended, and how that is told."""

    run_id: str
    workflow: str
    outcome: Outcome
    events: list[Event]
    questions: Questions
    signal: int | None = None
    preview: Preview | None = None
    machine: RunView | None = None
    duration_ms: int = 0
    hint: str | None = None

    def tell(self, terminal: Terminal) -> int:
        """Write the report and return the exit code."""
        if terminal.json_output:
            document = outcome_document(self.run_id, self.workflow, self.outcome, self.events)
            if self.machine is not None:
                document = {**run_document(self.machine, self.outcome, self.duration_ms), **document}
            document["pending"] = self.questions.to_wire()
            if self.preview is not None:
                document["preview"] = preview_document(self.preview)
            terminal.document(document)
        else:
            show_outcome(terminal, self.run_id, self.workflow, self.outcome, self.hint)
            self.questions.show(terminal)
        if self.signal is not None and self.outcome.status == "cancelled":
            return 128 + self.signal
        return exit_code(self.outcome)


async def _told(engine: Engine, run_id: str) -> tuple[list[JournalEntry], RunView | None]:
    """Return the run as its store tells it; nothing where that has failed meanwhile, which the outcome tells."""
    try:
        entries, meta = await engine.store.load(run_id), await engine.store.load_meta(run_id)
        return entries, fold_run(entries, run_id, meta)
    except (RulvarError, OSError):
        return [], None


async def finish(
    engine: Engine,
    handle: RunHandle,
    workflow: Workflow[Any],
    args: Any,
    options: argparse.Namespace,
    terminal: Terminal,
    *,
    deadline_at: float | None = None,
) -> Report:
    """Drive a run until it ends or waits for somebody who is not there.

    Args:
        options: ``quiet`` and ``no_input`` of the command line.
        deadline_at: epoch seconds; holds over the resumes that answers bring.
    """
    run_id, began = handle.run_id, time.monotonic()
    while True:
        driven = await drive(handle, terminal, workflow.name, quiet=options.quiet)
        outcome = driven.outcome
        asks = outcome.status == "suspended" and driven.signal is None
        if asks and terminal.is_interactive and not options.no_input:
            answered = await ask_pending(engine, run_id, outcome.pending, terminal)
            if answered:
                handle = engine.resume(run_id, workflow, args=args, deadline_at=deadline_at)
                continue
        preview = await handle.preview() if isinstance(handle, ResumeHandle) else None
        entries, view = await _told(engine, run_id)
        questions = questions_of(run_id, outcome.pending, entries, options)
        spent = round((time.monotonic() - began) * 1000)
        return Report(
            run_id,
            workflow.name,
            outcome,
            handle.events_seen(),
            questions,
            driven.signal,
            preview,
            view,
            spent,
            hint_of(workflow, args, outcome),
        )
