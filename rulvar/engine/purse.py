"""Pays for tool calls out of a run's ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulvar.errors import BudgetExceededError
from rulvar.kernel.ledger import Denial, Reservation, usd

if TYPE_CHECKING:
    from rulvar.engine.branch import Place
    from rulvar.engine.run import Run

__all__ = ["RunPurse"]


class RunPurse:
    """Pays for one tool call at a place; amounts are micro-USD."""

    def __init__(self, run: Run, place: Place) -> None:
        self._run = run
        self._place = place
        self._reservation: Reservation | None = None

    def reserve(self, micros: int) -> None:
        """Promise what the call may cost.

        Raises:
            BudgetExceededError: an account of the chain does not admit it.
        """
        verdict = self._run.budget.ledger.reserve(self._place.account, usd(micros))
        if isinstance(verdict, Denial):
            left = max(0, verdict.ceiling - verdict.spent - verdict.reserved)
            raise BudgetExceededError(
                f"the call may cost {micros} micro-USD, and {left} are left of the ceiling of {verdict.ceiling}: raise "
                f"{verdict.bound}",
                data=verdict.to_wire(),
            )
        self._reservation = verdict
        self._run.budget.announce()

    def settle(self, spent: int, held: int) -> None:
        """Book what was spent, keep what is uncertain, and give the rest of the promise back."""
        if self._reservation is None:
            return
        run, account = self._run, self._place.account
        run.budget.ledger.release(self._reservation)
        self._reservation = None
        if spent:
            run.budget.ledger.spend(account, usd(spent))
        if held:
            run.budget.ledger.hold(account, usd(held))
        run.spend.add_tool(spent, held, self._place.scope)
        run.budget.announce()
