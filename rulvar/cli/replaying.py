"""A strict replay and what it came to: served from the journal, or the first call that was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.cli.exits import EXIT_OF_STATUS, FAILED, OK
from rulvar.cli.outcomes import STATUS_STYLES, preview_document, show_error, show_value
from rulvar.cli.terminal import Terminal
from rulvar.errors import JournalMissError

if TYPE_CHECKING:
    from rulvar.contracts.outcome import Outcome, Preview
    from rulvar.engine.handle import ResumeHandle

__all__ = ["ReplayReport", "replayed"]


@dataclass(slots=True)
class ReplayReport:
    """What a strict replay came to.

    Attributes:
        recorded_status: how the run settled last, as its journal tells; None when it never did.
        recorded_hash, replayed_hash: of the output, when they were asked to be compared.
        only_live_counts: a replay that ends waiting is fine: no call would have gone live.
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

    @property
    def divergence(self) -> Mapping[str, Any] | None:
        """The first call that was not in the journal."""
        error = self.outcome.error
        if error is None or error.code != JournalMissError.code:
            return None
        return {"message": error.message, **(error.data or {})}

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
    for difference in found.get("differences") or ():
        terminal.out(f"  differs  {difference.get('path')}")
        terminal.out("    recorded ", (str(difference.get("recorded")), "red"))
        terminal.out("    now      ", (str(difference.get("actual")), "green"))


async def replayed(handle: ResumeHandle, workflow: str) -> ReplayReport:
    """Wait for a dry run and return what it came to."""
    outcome = await handle.result()
    return ReplayReport(handle.run_id, workflow, outcome, await handle.preview())


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
