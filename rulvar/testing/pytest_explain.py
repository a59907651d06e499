"""What the failure section of a test says: why a call was not served, where a replay diverged, what ended a run."""

from __future__ import annotations

from typing import Any

from rulvar.contracts.ports.observer import CallRecord, RunRecord
from rulvar.contracts.redaction import default_redact
from rulvar.testing.collector import Collected, RunCollector
from rulvar.testing.report import relative_path

__all__ = ["explain"]


_EXPLAINED = ("vcr_miss", "journal_miss")
"""Errors of which the section tells more than their message."""


def explain(collected: Collected, collector: RunCollector) -> str:
    """Return what a failure section says: calls that nothing served, replays that diverged, runs that failed."""
    lines: list[str] = []
    for record in collected.calls:
        if record.served.how in ("miss", "exhausted"):
            lines += _explain_call(record, collector)
    for run in collected.runs:
        if run.divergence is not None:
            where = _at(run.divergence_site, collector)
            label = run.divergence.get("found") or run.divergence.get("label") or ""
            lines.append(f"replay of {run.run_id} diverged{where}: {default_redact(str(label))}")
        elif run.error is not None and run.error.code not in _EXPLAINED:
            lines.append(_explain_end(run))
    return "\n".join(lines)


def _explain_end(run: RunRecord) -> str:
    assert run.error is not None
    message = default_redact(run.error.message.split("\n", 1)[0])
    raised = "" if run.raised is None else f"; raised by {run.raised}"
    return f"run {run.run_id} of {run.workflow!r} ended {run.status}: {run.error.code}: {message}{raised}"


def _explain_call(record: CallRecord, collector: RunCollector) -> list[str]:
    served = record.served
    agent = f' of agent "{record.agent_type}"' if record.agent_type else ""
    digest = (served.request_hash or "")[:8]
    lines = [
        f"{served.how}{_at(record.site, collector)}: model call{agent} to {record.adapter}:{record.model} ({digest})"
    ]
    if served.message:
        lines.append(f"  {default_redact(served.message)}")
    if served.nearest is not None:
        for difference in served.nearest.differences[:8]:
            lines.append(f"  {difference.path}")
            lines.append(f"    recorded: {_side(difference.recorded)}")
            lines.append(f"    actual:   {_side(difference.actual)}")
    return lines


def _at(site: Any, collector: RunCollector) -> str:
    return "" if site is None else f" at {relative_path(site.file, collector.root)}:{site.line}"


def _side(text: str | None) -> str:
    return "(absent)" if text is None else text
