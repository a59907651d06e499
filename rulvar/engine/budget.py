"""Money of a run while it executes: admission of calls, the ledger, and what may still be spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import Msg
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.engine.past_spend import PastSpend
from rulvar.errors import BudgetExhaustedError
from rulvar.kernel.admission import Estimate, estimate, recorded_admissions
from rulvar.kernel.ledger import ROOT, Account, Denial, Ledger, Reservation, usd
from rulvar.runtime.history import rough_tokens
from rulvar.runtime.pricing import affordable_output_tokens

if TYPE_CHECKING:
    from rulvar.engine.branch import Place
    from rulvar.engine.run import Run

__all__ = ["Budget", "BudgetSnapshot", "BudgetView", "Remaining", "Spent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has spent so far, earlier segments included; children count among the agents that it has started."""

    usd: float
    usage: Usage
    agents_spawned: int

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"usd": self.usd, "usage": self.usage.to_wire(), "agentsSpawned": self.agents_spawned}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What a run may still spend, and how many agents and children it may still start.

    ``usd`` is the ceiling less what was spent, promises not counted; None without a ceiling.
    """

    usd: float | None
    spawns: int

    def to_wire(self) -> dict[str, Any] | None:
        """Return the JSON object, of the fields that ``Spent`` has; None without a ceiling."""
        if self.usd is None:
            return None
        return {"usd": self.usd, "usage": ZERO_USAGE.to_wire(), "agentsSpawned": self.spawns}


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
        self._admissions: Mapping[tuple[str, str], tuple[int, Mapping[str, Any]]] | None = None
        self._unbounded: set[str] = set()
        self.is_exhausted = False
        """Whether the run's own ceiling is reached, or refused a call: the run ends exhausted, whoever catches that."""

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

    def reserve(self, place: Place, amount: Estimate, *, admitted: bool = False) -> Reservation:
        """Promise an amount for a call at a place.

        The flat promise says nothing of the call: where its child workflow has less left, that is promised.

        Args:
            admitted: whether the journal holds the call: it was admitted once, and goes on.

        Raises:
            BudgetExhaustedError: an account of the chain does not admit it.
        """
        left = self.ledger.allowance(place.account) if amount.source == "default" else None
        usd_wanted = amount.reserve_usd if left is None else min(amount.reserve_usd, left)
        if admitted:
            verdict: Reservation | Denial = self.ledger.promise(place.account, usd_wanted)
        else:
            verdict = self.ledger.reserve(place.account, usd_wanted)
        if isinstance(verdict, Denial):
            origin = _ORIGINS.get(amount.source, "") if usd_wanted == amount.reserve_usd else ""
            raise self._exhausted(verdict, f"asked {usd(verdict.proposed)}{origin}")
        self.announce()
        return verdict

    @property
    def spawns_left(self) -> int:
        """How many agents and children the run may still start."""
        return max(0, self._defaults.max_spawns - self.spawned)

    def check_spawns(self) -> None:
        """Check that one more agent may start.

        Raises:
            BudgetExhaustedError: the run has started as many as it may.
        """
        if not self.spawns_left:
            self.is_exhausted = True
            raise BudgetExhaustedError(
                f"the run has started {self.spawned} agents and children, as many as it may "
                "(budget_defaults max_spawns)",
                data={"cap": self._defaults.max_spawns},
            )

    def count_spawn(self) -> None:
        """Count one more agent or child against the run's lifetime cap."""
        self.spawned += 1

    def settle(self, place: Place, cost_usd: float | None, *, may_exhaust: bool = True) -> None:
        """Book what an exchange cost.

        Args:
            may_exhaust: whether the run is exhausted once its ceiling is reached.
        """
        if cost_usd:
            self.ledger.spend(place.account, cost_usd)
            self.is_exhausted = self.is_exhausted or (may_exhaust and self.ledger.root.is_spent)

    def warn_of_price(self, reference: str) -> None:
        """Tell, once per model, that the run's ceiling does not bound a model that has no price."""
        if self.ceiling_usd is None or reference in self._unbounded:
            return
        self._unbounded.add(reference)
        msg = (
            f"{reference!r} has no price: what it costs is not known, and the run's ceiling of {self.ceiling_usd} USD "
            "does not bound it; give the engine a price for it: pricing="
        )
        self._run.bus.emit("log", self._run.root.span, None, {"level": "warn", "msg": msg})

    def release(self, reservation: Reservation) -> None:
        """Give a call's promise back."""
        self.ledger.release(reservation)
        self.announce()

    def child_bound(self, place: Place, share: float | None) -> float | None:
        """Return the ceiling in USD of a child that starts at a place; None where its parents' bound it alone.

        Args:
            share: the part of what is left that it gets; None is the engine's default.
        """
        fraction, left = self._fraction(share), self.ledger.account(place.account).remaining
        return None if left is None or fraction >= 1 else fraction * usd(left)

    def open_child(self, place: Place, scope: str, bound_usd: float | None) -> None:
        """Open the account of a child workflow."""
        self.ledger.open_bounded(scope, place.account, bound_usd)

    def reopen_child(
        self, place: Place, scope: str, admitted_at: int, bound_usd: float | None, share: float | None
    ) -> None:
        """Open the account of a child that the journal brought: what it got once is all that it gets.

        Args:
            admitted_at: seq of the decision that admitted it.
            bound_usd: the ceiling that the decision gave it; None where it tells none.
            share: the part of what was left that it would get by the ceiling that the run has by now.
        """
        if self._past is None:
            self._past = PastSpend(self._run.spend.past)
        spent = self._past.of(scope)
        if bound_usd is not None and not self.is_raised_since(admitted_at):
            self.ledger.open_bounded(scope, place.account, bound_usd, spent)
        else:
            before = self._past.of(place.account, admitted_at)
            self.ledger.reopen(scope, place.account, self._fraction(share), before, spent)

    def recorded_admissions(self) -> Mapping[tuple[str, str], tuple[int, Mapping[str, Any]]]:
        """Return the decisions on children that the journal brought, with their seqs; see the kernel's."""
        if self._admissions is None:
            self._admissions = recorded_admissions(self._run.index.decisions.get("spawn-admission", ()))
        return self._admissions

    def is_raised_since(self, seq: int) -> bool:
        """Whether the run was given another ceiling after an entry."""
        request = self._run.request
        if request.resumed and request.budget_usd is not None:
            return True
        overrides = self._run.index.decisions.get("run_budget_override", ())
        return any(entry.seq > seq for entry in overrides)

    def _fraction(self, share: float | None) -> float:
        return self._defaults.child_fraction if share is None else share

    def check_spent(self, reservation: Reservation) -> None:
        """Check that no ceiling is reached yet where a call would send its next turn, though that may cost nothing.

        Raises:
            BudgetExhaustedError: one is.
        """
        account = reservation.account
        if account.ceiling is None and account.parent is None:
            return  # most runs have no ceiling
        spent = self.ledger.first(account.name, lambda account: account.is_spent)
        if spent is not None:
            raise self._exhausted(self._denial(spent), "and it is spent")

    def output_bound(
        self, reservation: Reservation, reference: str, caps: ModelCaps, messages: Sequence[Msg]
    ) -> int | None:
        """Return how many output tokens the rest of the budget buys; None is no bound.

        Raises:
            BudgetExhaustedError: the rest does not buy one useful turn.
        """
        rest = self.ledger.affordable(reservation)
        pricing = None if rest is None else self._run.models.price_of(reference)
        if rest is None or pricing is None:
            return None
        tokens = affordable_output_tokens(pricing, rest, rough_tokens(messages))
        if math.isinf(tokens) or tokens >= caps.max_output_tokens:
            return None
        least = max(1, caps.min_output_tokens_per_turn or 1)
        if tokens < least:
            raise self._exhausted(self._denial(reservation.account), "and the rest buys no further turn")
        return int(tokens)

    def affords(self, reservation: Reservation, cost_usd: float | None) -> bool:
        """Whether every account of a call's chain pays for what an exchange has cost so far."""
        rest = self.ledger.affordable(reservation)
        return rest is None or not cost_usd or cost_usd <= rest

    def exhausted_call(
        self, place: Place, entry_ref: int, refusal: BudgetExhaustedError | None
    ) -> BudgetExhaustedError:
        """Return the error of an agent that had begun, and that the money did not reach for.

        Args:
            entry_ref: seq of the entry that holds its end.
            refusal: what the budget said, where it said it.
        """
        root = self.ledger.root
        full = self.ledger.first(place.account, lambda account: account.is_full)
        data: dict[str, Any] = {
            **(self._denial(full or root).to_wire() if refusal is None else refusal.data),
            "scope": place.scope,
            "entryRef": entry_ref,
            "source": "root" if full is None or full is root else "child-account",
            "rootSpentUsd": self._run.spend.spent_usd,
        }
        if self.ceiling_usd is not None:
            data["rootCeilingUsd"] = self.ceiling_usd
        if full is not None:
            data |= {
                "crossedScope": full.name,
                "crossedCeilingUsd": usd(full.ceiling or 0),
                "crossedSpentUsd": self._run.spend.spent_usd if full is root else usd(full.spent),
                "crossedCommittedReserveUsd": usd(full.reserved),
                "crossedFinalizeReserveUsd": 0,
            }
        text = refusal.message if refusal is not None else "the run's budget is used up"
        return BudgetExhaustedError(f"{text}; the agent ended there", data=data)

    def announce(self) -> None:
        """Emit the state of the run's account."""
        run, ceiling = self._run, self.ceiling_usd
        spent = run.spend.spent_usd
        facts = {
            "spentUsd": spent,
            "remainingUsd": None if ceiling is None else max(0, ceiling - spent),
            "committedReserveUsd": usd(self.ledger.root.reserved),
        }
        run.bus.emit("budget:update", run.root.span, None, facts)

    def view(self) -> BudgetView:
        """Return what a workflow sees of its budget."""
        return BudgetView(self)

    def spent(self) -> Spent:
        """Return what the run has spent."""
        spend = self._run.spend
        return Spent(usd=spend.spent_usd, usage=spend.usage, agents_spawned=self.spawned)

    def remaining(self) -> Remaining:
        """Return what the run may still spend."""
        return Remaining(usd=self._left_usd, spawns=self.spawns_left)

    @property
    def _left_usd(self) -> float | None:
        return None if self.ceiling_usd is None else max(0, self.ceiling_usd - self._run.spend.spent_usd)

    def _denial(self, account: Account) -> Denial:
        return Denial(account.name, account.ceiling or 0, account.spent, account.reserved, 0)

    def _exhausted(self, denial: Denial, reason: str) -> BudgetExhaustedError:
        self.is_exhausted = self.is_exhausted or denial.account == ROOT
        return BudgetExhaustedError(
            f"the budget of {denial.account!r} does not admit this call: ceiling {usd(denial.ceiling)} USD, spent "
            f"{usd(denial.spent)}, promised {usd(denial.reserved)}, {reason}",
            data=denial.to_wire(),
        )


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
