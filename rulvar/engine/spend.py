"""Spend of a run: a fold over its terminal agent entries and the receipts of its tool calls.

What a run reports folds ends only, so that a replay of its journal reports the same. What counts against its
ceiling is more: exchanges of agents that are under way, and of work that was abandoned, are paid for too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import CostReport
from rulvar.contracts.usage import ZERO_USAGE, Usage, add_usage
from rulvar.errors import ConfigError
from rulvar.kernel.ledger import usd
from rulvar.runtime.billing import Bill, bill_entry
from rulvar.runtime.pricing import price_usd
from rulvar.runtime.router import ROLES

__all__ = ["Spend"]


class Spend:
    """Adds up tokens and money, by every dimension of the cost report.

    Args:
        pricing: returns the price of a model reference, or None when it has none.
    """

    def __init__(self, pricing: Callable[[str], ModelPricing | None]) -> None:
        self._pricing = pricing
        self.usage = ZERO_USAGE
        self._ended_usd = 0.0
        self._abandoned_usd = 0.0
        self._tool_micros = 0
        self.held_usd = 0.0
        self.past: list[tuple[int, str, float]] = []
        """Seq, scope and cost of the ends that the journal brought; see ``PastSpend``."""
        self._under_way: dict[int, float] = {}
        self._under_way_usd = 0.0
        self._wire_requests = 0
        self._approximate = False
        self._unpriced: dict[str, None] = {}
        self._by: dict[str, dict[str, float]] = {
            "model": {},
            "phase": {},
            "agent_type": {},
            "role": dict.fromkeys(ROLES, 0.0),
            "scope": {},
        }

    @property
    def spent_usd(self) -> float:
        """What counts against the ceiling: agents that have not ended, and abandoned work, included.

        Their exchanges are kept apart: taken in and out of one sum they would leave it a last bit away from what a
        replay, which sees ends only, adds up.
        """
        return self._reported_usd + self._under_way_usd + self._abandoned_usd

    @property
    def _reported_usd(self) -> float:
        return self._ended_usd + usd(self._tool_micros)

    def add_entry(self, entry: JournalEntry, *, abandoned: bool = False) -> None:
        """Count a terminal entry of an agent or a tool call that a journal holds."""
        if entry.kind == "agent":
            if entry.ref is not None:
                bill = self.add(entry.to_wire(), abandoned=abandoned)
                if bill.usd:
                    self.past.append((entry.seq, entry.scope, bill.usd))
        elif entry.kind in ("step", "decision") and b'"receipt"' in entry.line:
            receipt = _receipt(entry)
            if isinstance(receipt, dict):
                spent, held = receipt.get("spentMicros", 0), receipt.get("reservedMicros", 0)
                if not isinstance(spent, int) or not isinstance(held, int):
                    raise ConfigError(
                        f"entry {entry.seq}: its receipt counts no money; restore the run from a copy",
                        data={"seq": entry.seq, "field": "receipt"},
                    )
                self.add_tool(spent, held, entry.scope)
                if spent:
                    self.past.append((entry.seq, entry.scope, usd(spent)))

    def add_exchange(self, agent_ref: int, cost_usd: float | None) -> None:
        """Count an exchange of an agent that has not ended; its terminal entry takes the place of them all."""
        if cost_usd:
            self._under_way_usd += cost_usd
            self._under_way[agent_ref] = self._under_way.get(agent_ref, 0.0) + cost_usd

    def add_tool(self, spent_micros: int, held_micros: int, scope: str) -> None:
        """Count what a tool call cost, and what stays reserved for one whose outcome is unknown."""
        self.held_usd += usd(held_micros)
        if not spent_micros:
            return
        amount = usd(spent_micros)
        self._tool_micros += spent_micros
        totals = self._by["scope"]
        totals[scope or "root"] = totals.get(scope or "root", 0.0) + amount

    def below(self, scope: str) -> float:
        """Return what the finished calls of a scope, and of all scopes in it, have cost."""
        inside = f"{scope}/"
        return sum(
            amount
            for name, amount in self._by["scope"].items()
            if not scope or name == scope or name.startswith(inside)
        )

    def add(self, wire: Mapping[str, Any], *, abandoned: bool = False) -> Bill:
        """Count one terminal entry and return its bill.

        Args:
            abandoned: whether an abandon entry covers it: its money is told apart from the run's.
        """
        bill = self.bill(wire)
        under_way = self._under_way.pop(wire.get("ref", -1), 0.0)
        self._under_way_usd = self._under_way_usd - under_way if self._under_way else 0.0
        self._wire_requests += _wire_requests(wire.get("providerCalls"))
        usage = bill.usage
        if abandoned:
            self._abandoned_usd += bill.usd
        if abandoned or usage is None:
            return bill
        self.usage = add_usage(self.usage, usage)
        self._approximate = self._approximate or bool(wire.get("usageApprox"))
        self._ended_usd += bill.usd
        if usage.input_tokens or usage.output_tokens:
            self._unpriced.update(dict.fromkeys(bill.unpriced))
        self._attribute(wire, bill)
        return bill

    def _attribute(self, wire: Mapping[str, Any], bill: Bill) -> None:
        attribution = _mapping(wire.get("costAttribution"))
        role = attribution.get("role") or "loop"
        by = self._by
        models, roles = by["model"], by["role"]
        for unit in bill.units:
            paid_by = str(unit.role or role)
            models[unit.model] = models.get(unit.model, 0.0) + unit.usd
            roles[paid_by] = roles.get(paid_by, 0.0) + unit.usd
        for dimension, name in (
            ("phase", attribution.get("phase") or "unknown"),
            ("agent_type", attribution.get("agentType") or "unknown"),
            ("scope", wire.get("scope") or "root"),
        ):
            totals, key = by[dimension], str(name)
            totals[key] = totals.get(key, 0.0) + bill.usd

    def bill(self, wire: Mapping[str, Any]) -> Bill:
        """Return what a terminal entry of an agent cost."""
        return bill_entry(wire, self.price)

    def price(self, reference: str, usage: Usage) -> float | None:
        """Return the cost of a usage at a model's price, None when it has none.

        An adapter may tell a price that cannot be; what comes to no amount, or to a credit, is no price.
        """
        pricing = self._pricing(reference)
        if pricing is None:
            return None
        cost = price_usd(pricing, usage)
        return cost if 0 <= cost < math.inf else None

    def report(self) -> CostReport:
        """Return the cost report so far."""
        return CostReport(
            total_usd=self._reported_usd,
            gross_usd=self._reported_usd + self._abandoned_usd,
            abandoned_usd=self._abandoned_usd,
            by_model=dict(self._by["model"]),
            by_phase=dict(self._by["phase"]),
            by_agent_type=dict(self._by["agent_type"]),
            by_role=dict(self._by["role"]),
            by_scope=dict(self._by["scope"]),
            wire_requests=self._wire_requests,
            usage_approx=self._approximate,
            unpriced=tuple(self._unpriced),
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return what an entry holds where an object belongs; whatever else stands there counts as nothing."""
    return value if isinstance(value, Mapping) else {}


def _wire_requests(calls: Any) -> int:
    """Return how many requests exchanges came to: a record may stand for several."""
    if not isinstance(calls, list):
        return 0
    counts = [call.get("wireRequests", 1) if isinstance(call, dict) else 1 for call in calls]
    return sum([count if isinstance(count, int) else 1 for count in counts])


def _receipt(entry: JournalEntry) -> Any:
    """Return the receipt that an entry of a tool call carries."""
    wire = entry.to_wire()
    if entry.kind == "step":
        return wire.get("receipt")
    value = wire.get("value")
    if isinstance(value, dict) and value.get("decisionType") == "tool-call":
        return value.get("receipt")
    return None
