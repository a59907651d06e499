"""Money of a run while it executes: admission of calls, the ledger, and what may still be spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import Msg
from rulvar.contracts.usage import Usage
from rulvar.engine.past_spend import PastSpend
from rulvar.errors import AdmissionRejectedError, BudgetExhaustedError
from rulvar.kernel.admission import Estimate, estimate
from rulvar.kernel.ledger import Denial, Ledger, Reservation, usd
from rulvar.runtime.history import rough_tokens
from rulvar.runtime.pricing import affordable_output_tokens

if TYPE_CHECKING:
    from rulvar.engine.branch import Place
    from rulvar.engine.run import Run

__all__ = ["Budget", "BudgetSnapshot", "BudgetView", "Remaining", "Spent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has spent so far, earlier segments included."""

    usd: float
    usage: Usage
    agents_spawned: int

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"usd": self.usd, "usage": self.usage.to_wire(), "agentsSpawned": self.agents_spawned}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What a run may still spend; ``usd`` is None without a ceiling."""

    usd: float | None
    spawns: int

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"usd": self.usd, "spawns": self.spawns}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSnapshot:
    """A run's money at one moment, in micro-USD.

    Attributes:
        spent_micros: spent so far.
        reserved_micros: promised, and held for calls whose outcome is unknown.
        ceiling_micros: what may be spent; None without a ceiling.
        calls: model and tool calls that were paid for, free ones included.
    """

    spent_micros: int
    reserved_micros: int
    ceiling_micros: int | None
    calls: int

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "spentMicros": self.spent_micros,
            "reservedMicros": self.reserved_micros,
            "ceilingMicros": self.ceiling_micros,
            "calls": self.calls,
        }


_ORIGINS = {
    "default": " (the flat promise of a call that says nothing; say what it may cost: est_cost=0.01, on the call or "
    "in its profile)",
    "est-cost": " (the call's est_cost)",
    "profile": " (est_cost of the call's profile)",
    "count": " (its tokens at the model's price)",
}


class Budget:
    """The ledger of a run, with the events and errors around it."""

    def __init__(self, run: Run, ceiling_usd: float | None) -> None:
        self._run = run
        self._defaults = run.engine.budget_defaults
        self.ceiling_usd = ceiling_usd
        self.ledger = Ledger(ceiling_usd, run.spend.spent_usd)
        if run.spend.held_usd:
            self.ledger.hold("run", run.spend.held_usd)
        self.spawned = sum(
            1 for item in run.index.operations.values() if item.first.kind in ("agent", "child")
        )
        self.children: dict[str, int] = {}
        self.calls = 0
        self._past: PastSpend | None = None
        self.denied: BudgetExhaustedError | None = None

    def snapshot(self) -> BudgetSnapshot:
        """Return the state of the run's account."""
        root = self.ledger.root
        return BudgetSnapshot(
            spent_micros=root.spent,
            reserved_micros=root.reserved,
            ceiling_micros=root.ceiling,
            calls=self.calls,
        )

    def estimate(self, call: float | None, profile: float | None, counted: float | None = None) -> Estimate:
        """Return what is promised for a call."""
        return estimate(call, profile, counted, self._defaults)

    def reserve(self, place: Place, amount: Estimate) -> Reservation:
        """Promise an amount for a call at a place.

        Raises:
            BudgetExhaustedError: an account of the chain does not admit it.
        """
        verdict = self.ledger.reserve(place.account, amount.reserve_usd)
        if isinstance(verdict, Denial):
            raise self._exhausted(verdict, f"asked {usd(verdict.proposed)}{_ORIGINS.get(amount.source, '')}")
        self.announce()
        return verdict

    def count_spawn(self) -> None:
        """Count one more agent or child against the run's lifetime cap.

        Raises:
            AdmissionRejectedError: the cap is reached.
        """
        if self.spawned >= self._defaults.max_spawns:
            raise AdmissionRejectedError(
                f"the run has started {self.spawned} agents and children, as many as it may "
                "(budget_defaults max_spawns)",
                data={"reason": {"code": "spawn_cap"}},
            )
        self.spawned += 1

    def settle(self, place: Place, reservation: Reservation, cost_usd: float | None) -> None:
        """Book what an exchange or a call cost."""
        if cost_usd:
            self.ledger.spend(place.account, cost_usd)

    def release(self, reservation: Reservation) -> None:
        """Give a call's promise back."""
        self.ledger.release(reservation)
        self.announce()

    def open_child(self, place: Place, scope: str, share: float | None = None) -> None:
        """Open the account of a child workflow; ``share`` is the part of what is left that it gets."""
        self.ledger.open(scope, place.account, self._fraction(share))

    def reopen_child(self, place: Place, scope: str, admitted_at: int, share: float | None = None) -> None:
        """Open the account of a child that the journal brought: what it got once is all that it gets.

        Args:
            admitted_at: seq of the decision that admitted it.
        """
        if self._past is None:
            self._past = PastSpend(self._run.spend.past)
        before, spent = self._past.of(place.account, admitted_at), self._past.of(scope)
        self.ledger.reopen(scope, place.account, self._fraction(share), before, spent)

    def _fraction(self, share: float | None) -> float:
        return self._defaults.child_fraction if share is None else share

    def output_bound(
        self, reservation: Reservation, reference: str, caps: ModelCaps, messages: Sequence[Msg]
    ) -> int | None:
        """Return how many output tokens the rest of the budget buys; None is no bound.

        Raises:
            BudgetExhaustedError: the rest does not buy one useful turn.
        """
        rest = self.ledger.affordable(reservation)
        if rest is None:
            return None
        pricing = self._run.models.price_of(reference)
        if pricing is None:
            return None
        tokens = affordable_output_tokens(pricing, rest, rough_tokens(messages))
        if math.isinf(tokens) or tokens >= caps.max_output_tokens:
            return None
        least = max(1, caps.min_output_tokens_per_turn or 1)
        if tokens < least:
            raise self._exhausted(self._denial(reservation), "and the rest buys no further turn")
        return int(tokens)

    def affords(self, reservation: Reservation, cost_usd: float | None) -> bool:
        """Whether every account of a call's chain pays for what an exchange has cost so far."""
        rest = self.ledger.affordable(reservation)
        if rest is None or not cost_usd or cost_usd <= rest:
            return True
        self._exhausted(
            self._denial(reservation), "and the turn costs more than the rest"
        )  # the run ends exhausted, whoever catches the error
        return False

    def announce(self) -> None:
        """Emit the state of the run's account."""
        root = self.ledger.root
        facts = {
            "spentUsd": self._run.spend.spent_usd,
            "remainingUsd": None if root.ceiling is None else usd(max(0, root.ceiling - root.spent)),
            "committedReserveUsd": usd(root.reserved),
        }
        self._run.bus.emit("budget:update", self._run.root.span, None, facts)

    def view(self) -> BudgetView:
        """Return what a workflow sees of its budget."""
        return BudgetView(self)

    def spent(self) -> Spent:
        """Return what the run has spent."""
        spend = self._run.spend
        return Spent(usd=spend.spent_usd, usage=spend.usage, agents_spawned=spend.agents)

    def remaining(self) -> Remaining:
        """Return what the run may still spend."""
        left = self.ledger.root.remaining
        return Remaining(
            usd=None if left is None else usd(left), spawns=self._defaults.max_spawns - self.spawned
        )

    def _denial(self, reservation: Reservation) -> Denial:
        account = self.ledger.account(reservation.account.name)
        return Denial(account.name, account.ceiling or 0, account.spent, account.reserved, 0)

    def _exhausted(self, denial: Denial, reason: str) -> BudgetExhaustedError:
        error = BudgetExhaustedError(
            f"the budget of {denial.account!r} does not admit this call: ceiling {usd(denial.ceiling)} USD, spent "
            f"{usd(denial.spent)}, promised {usd(denial.reserved)}, {reason}",
            data=denial.to_wire(),
        )
        self.denied = error
        return error


class BudgetView:
    """``ctx.budget``: what was spent, and what is left."""

    __slots__ = ("_budget",)

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def spent(self) -> Spent:
        """Return what the run has spent so far."""
        return self._budget.spent()

    def remaining(self) -> Remaining:
        """Return what the run may still spend."""
        return self._budget.remaining()
