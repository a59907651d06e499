"""The ceiling of a run over its whole life: what it was started with, and what a resume made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.store import RunMeta
from rulvar.engine.run import Run
from rulvar.errors import ConfigError
from rulvar.kernel.keys import content_key

__all__ = ["check_override", "journal_override", "recorded_ceiling"]

_ROUNDING_USD = 1e-9
"""Sums of prices are no closer than that."""


def recorded_ceiling(meta: Mapping[str, Any], entries: list[JournalEntry]) -> float | None:
    """Return the ceiling that a run has: the last journaled override, or the one it was started with."""
    ceiling = meta.get("budgetUsd")
    for entry in entries:
        if entry.kind == "decision" and b'"run_budget_override"' in entry.line:
            value = entry.value
            told = value.get("budgetUsd") if isinstance(value, dict) else None
            applied = told.get("applied") if isinstance(told, dict) else told
            ceiling = ceiling if applied is None else applied
    return ceiling if isinstance(ceiling, (int, float)) and not isinstance(ceiling, bool) else None


def check_override(run: Run, meta: Mapping[str, Any], ceiling: float) -> None:
    """Check that a run may go on under another ceiling.

    Raises:
        ConfigError: the run was started with a ceiling for life, or has spent more than that.
    """
    if meta.get("budgetPolicy") == "immutable-lifetime":
        raise ConfigError(
            f"run {run.run_id!r} was started with a ceiling for life (budgetPolicy 'immutable-lifetime'); resume it "
            "without one, or cancel it",
            data={"field": "budget_usd"},
        )
    spent = run.spend.report().total_usd
    if spent - ceiling > _ROUNDING_USD:
        raise ConfigError(
            f"resume of {run.run_id!r}: budget_usd={ceiling} is below the {spent:.4f} USD that the run has spent; "
            "give it that much or more, or leave it out",
            data={"field": "budget_usd", "spentUsd": spent},
        )


async def journal_override(run: Run, meta: RunMeta, entries: list[JournalEntry], ceiling: float) -> None:
    """Journal that a run goes on under another ceiling, before it does."""
    key = content_key({"kind": "run-budget-override", "segment": run.segment + 1})
    assert key is not None
    decision = {
        "decisionType": "run_budget_override",
        "source": "resume-options",
        "segment": run.segment + 1,
        "budgetUsd": {"recorded": recorded_ceiling(meta, entries), "applied": ceiling},
        "settledSpendUsd": run.spend.report().total_usd,
    }
    await run.decide("", key, run.root.span, decision)
