"""How a run's end is told: as a JSON document, or in a few lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rulvar.cli.amounts import count_text, tokens_text, usd_text
from rulvar.cli.exits import EXIT_OF_STATUS, FAILED
from rulvar.cli.terminal import Style, Terminal

if TYPE_CHECKING:
    from rulvar.contracts.events import Event
    from rulvar.contracts.outcome import CostReport, Outcome, Preview

__all__ = [
    "STATUS_STYLES",
    "cost_document",
    "exit_code",
    "outcome_document",
    "preview_document",
    "show_error",
    "show_outcome",
    "value_line",
    "value_text",
]

_LONGEST_ERROR = 4_000

STATUS_STYLES: Mapping[str, Style] = {
    "ok": "green",
    "error": "red",
    "cancelled": "yellow",
    "exhausted": "red",
    "suspended": "cyan",
    "running": "cyan",
    "blocked": "yellow",
    "outcome_unknown": "red",
}


def exit_code(outcome: Outcome) -> int:
    """Return the exit code that a status comes to."""
    return EXIT_OF_STATUS.get(outcome.status, FAILED)


def outcome_document(
    run_id: str, workflow: str, outcome: Outcome, events: Sequence[Event] = ()
) -> dict[str, Any]:
    """Return the JSON document of a run's end."""
    return {
        "runId": run_id,
        "workflow": workflow,
        "status": outcome.status,
        "value": outcome.value,
        "error": None if outcome.error is None else outcome.error.to_wire(),
        "raised": None if outcome.raised is None else outcome.raised.to_wire(),
        "pending": [item.to_wire() for item in outcome.pending],
        "dropped": [item.to_wire() for item in outcome.dropped],
        "usage": outcome.usage.to_wire(),
        "cost": cost_document(outcome.cost),
        "warnings": [
            {name: event.get(name) for name in ("file", "line", "code", "message")}
            for event in events
            if event.type == "determinism:warning"
        ],
    }


def cost_document(cost: CostReport) -> dict[str, Any]:
    """Return the JSON object of a cost report."""
    return {
        "totalUsd": cost.total_usd,
        "grossUsd": cost.gross_usd,
        "byModel": dict(cost.by_model),
        "byPhase": dict(cost.by_phase),
        "byAgentType": dict(cost.by_agent_type),
        "byRole": dict(cost.by_role),
        "byScope": dict(cost.by_scope),
        "wireRequests": cost.wire_requests,
        "usageApprox": cost.usage_approx,
        "unpriced": list(cost.unpriced),
    }


def preview_document(preview: Preview) -> dict[str, Any]:
    """Return the JSON object of what the journal served."""
    return {
        "hits": preview.hits,
        "misses": preview.misses,
        "reruns": preview.reruns,
        "skipped": preview.skipped,
        "orphaned": list(preview.orphaned),
        "invalidResolutions": list(preview.invalid_resolutions),
    }


def show_error(terminal: Terminal, outcome: Outcome) -> None:
    """Write what ended a run, and the line of the workflow that raised it."""
    if outcome.error is not None:
        code = "" if outcome.error.code == "error" else outcome.error.code  # the label says as much
        message = _shortened(outcome.error.message)
        terminal.out("  error    ", (code, "red"), f"  {message}" if code else message)
    if outcome.raised is not None:
        terminal.out(f"  raised   {outcome.raised}")


def show_outcome(
    terminal: Terminal, run_id: str, workflow: str, outcome: Outcome, hint: str | None = None
) -> None:
    """Write a run's end in a few lines.

    Args:
        hint: what to do about its error.
    """
    terminal.out((outcome.status, STATUS_STYLES.get(outcome.status, "")), f"  {workflow}  {run_id}")
    show_error(terminal, outcome)
    if hint is not None:
        terminal.out(f"  hint     {hint}")
    if outcome.status == "ok" or outcome.value is not None:
        show_value(terminal, outcome.value)
    usage = outcome.usage.to_wire()
    cost = outcome.cost
    if cost.wire_requests or cost.total_usd:
        about = "about " if cost.usage_approx else ""
        terminal.out(
            f"  cost     {about}{usd_text(cost.total_usd)}, {tokens_text(usage)} tokens, "
            f"{count_text(cost.wire_requests, 'request')}"
        )
    if cost.unpriced:
        terminal.out("  unpriced ", (", ".join(cost.unpriced), "yellow"), " (not in the total)")
    for item in outcome.dropped:
        where = item.label or item.scope or item.source
        terminal.out("  dropped  ", f"{where}: {item.error.code}: {_shortened(item.error.message)}")


def _shortened(text: str) -> str:
    """Return an error's text as a person can read it."""
    if len(text) <= _LONGEST_ERROR:
        return text
    return f"{text[:_LONGEST_ERROR]}… ({len(text):,} characters; --json has them all)"


def show_value(terminal: Terminal, value: Any) -> None:
    """Write what a workflow returned."""
    text = value_text(value)
    if "\n" in text:
        terminal.out("  value")
        terminal.out_block(text, "    ")
    else:
        terminal.out(f"  value    {text}")


def value_line(value: Any) -> str:
    """Return a JSON value on one line for people: texts as they are."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\n", " ")


def value_text(value: Any) -> str:
    """Return a JSON value for people: texts as they are, small values on one line."""
    if isinstance(value, str):
        return value
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= 80 else json.dumps(value, ensure_ascii=False, indent=2)
