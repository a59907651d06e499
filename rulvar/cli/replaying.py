"""A strict replay and what it came to: served from the journal, or the first call that was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.cli.exits import EXIT_OF_STATUS, FAILED, OK
from rulvar.cli.outcomes import STATUS_STYLES, preview_document, show_error, show_value
from rulvar.cli.terminal import Style, Terminal
from rulvar.errors import JournalMissError
from rulvar.testing.recorded_texts import MissWatch, recorded_differences, told_differences

if TYPE_CHECKING:
    from rulvar.contracts.outcome import Outcome, Preview
    from rulvar.contracts.ports.transcripts import TranscriptStore
    from rulvar.engine.engine import Engine
    from rulvar.engine.workflow import Workflow

__all__ = ["ReplayReport", "replayed"]

_LABEL = 11
"""How wide the words are that lines of differences begin with."""


@dataclass(slots=True)
class ReplayReport:
    """What a strict replay came to.

    Attributes:
        recorded_status: how the run settled last, as its journal tells; None when it never did.
        recorded_hash, replayed_hash: of the output, when they were asked to be compared.
        only_live_counts: a replay that ends waiting is fine: no call would have gone live.
        differences: those of the divergence, with what was recorded; None until they are known.
    """

    run_id: str
    workflow: str
    outcome: Outcome
    preview: Preview
    recorded_status: str | None = None
    compares_output: bool = False
    recorded_hash: str | None = None
    replayed_hash: str | None = None
    only_live_counts: bool = False
    differences: list[dict[str, Any]] | None = None

    @property
    def divergence(self) -> Mapping[str, Any] | None:
        """The first call that was not in the journal."""
        error = self.outcome.error
        if error is None or error.code != JournalMissError.code:
            return None
        found = {"message": error.message, **(error.data or {})}
        return found if self.differences is None else {**found, "differences": self.differences}

    @property
    def output_differs(self) -> bool:
        """Whether the output was to be compared, and is not the recorded one."""
        return self.compares_output and (
            self.recorded_hash is None or self.recorded_hash != self.replayed_hash
        )

    @property
    def exit_code(self) -> int:
        """The exit code that it comes to."""
        if self.divergence is not None or self.output_differs:
            return FAILED
        code = EXIT_OF_STATUS.get(self.outcome.status, FAILED)
        return OK if self.only_live_counts and self.outcome.status == "suspended" else code

    def tell(self, terminal: Terminal) -> int:
        """Write the report and return the exit code."""
        if terminal.json_output:
            terminal.document(self.document())
        else:
            self._show(terminal)
        return self.exit_code

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        outcome = self.outcome
        document: dict[str, Any] = {
            "runId": self.run_id,
            "workflow": self.workflow,
            "status": outcome.status,
            "recordedStatus": self.recorded_status,
            "value": outcome.value,
            "error": None if outcome.error is None else outcome.error.to_wire(),
            "raised": None if outcome.raised is None else outcome.raised.to_wire(),
            "pending": [item.to_wire() for item in outcome.pending],
            "preview": preview_document(self.preview),
            "divergence": self.divergence,
        }
        if self.compares_output:
            document["output"] = {
                "recordedHash": self.recorded_hash,
                "replayedHash": self.replayed_hash,
                "same": not self.output_differs,
            }
        return document

    def _show(self, terminal: Terminal) -> None:
        outcome, preview, found = self.outcome, self.preview, self.divergence
        status = "diverged" if found is not None else outcome.status
        terminal.out((status, STATUS_STYLES.get(status, "red")), f"  {self.workflow}  {self.run_id}")
        facts = [f"{preview.hits} served from the journal"]
        facts += [f"{count} {word}" for count, word in _also(preview) if count]
        terminal.out(f"  calls    {', '.join(facts)}")
        if found is not None:
            show_divergence(terminal, found)
        else:
            show_error(terminal, outcome)
        if outcome.status == "ok":
            show_value(terminal, outcome.value)
        for item in outcome.pending:
            terminal.out("  waits for ", (item.key, "cyan"))
        if preview.orphaned:
            terminal.out(
                f"  orphaned {', '.join(map(str, preview.orphaned))} (open entries that no call took)"
            )
        if self.compares_output:
            self._show_hashes(terminal)

    def _show_hashes(self, terminal: Terminal) -> None:
        if self.recorded_hash is None:
            terminal.out("  output   ", ("the journal holds no hash of an output", "red"))
        elif self.output_differs:
            terminal.out("  output   ", ("differs", "red"), f": recorded {self.recorded_hash}")
            terminal.out(f"           replayed {self.replayed_hash or 'no output'}")
        else:
            terminal.out("  output   ", ("same", "green"), f" as recorded ({self.recorded_hash[:12]})")


def show_divergence(terminal: Terminal, found: Mapping[str, Any]) -> None:
    """Write the first call that was not in the journal, and what differs."""
    terminal.out_block(str(found["message"]), "  ")
    site = found.get("site")
    if isinstance(site, Mapping):
        terminal.out(f"  at       {site.get('file')}:{site.get('line')} in {site.get('function')}")
    for line in told_differences(found.get("differences") or ()):
        style: Style = "red" if line.startswith("  recorded") else "green" if line.startswith("  now") else ""
        terminal.out(f"  {line[:_LABEL]}", (line[_LABEL:], style))


async def replayed(
    engine: Engine,
    run_id: str,
    workflow: Workflow[Any],
    args: Any,
    *,
    transcripts: TranscriptStore | None = None,
    **options: Any,
) -> ReplayReport:
    """Run a dry run to its end and return what it came to.

    Args:
        transcripts: where the run's conversations are, when that is not the engine's store.
        options: others of ``Engine.resume``.
    """
    watch = MissWatch()
    engine.observers = (*engine.observers, watch)
    handle = engine.resume(run_id, workflow, args=args, dry_run=True, **options)
    outcome = await handle.result()
    report = ReplayReport(run_id, workflow.name, outcome, await handle.preview())
    if report.divergence is not None:
        entries = await engine.store.load(run_id)
        report.differences = await recorded_differences(
            report.divergence, watch.missed, entries, transcripts or engine.transcripts
        )
    return report


def _also(preview: Preview) -> tuple[tuple[int, str], ...]:
    invalid = len(preview.invalid_resolutions)
    return (
        (preview.misses, "not in the journal"),
        (preview.reruns, "to be run again"),
        (preview.skipped, "skipped"),
        (
            invalid,
            "answer that does not fit its schema" if invalid == 1 else "answers that do not fit their schema",
        ),
    )
