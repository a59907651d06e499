"""The ledger: what a run may spend, what it has promised, what it has spent.

Money is integer micro-USD. Accounts form a tree: the run, and below it one per child workflow. A
reservation is promised on every account up to the root, so that no branch can spend what another was
promised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

__all__ = ["MICRO", "ROOT", "Account", "Denial", "Ledger", "Reservation", "micro_usd", "usd"]

MICRO = 1_000_000
ROOT = "run"


def micro_usd(amount_usd: float) -> int:
    """Return an amount in micro-USD, rounded up: a fraction is never given away."""
    scaled = amount_usd * MICRO
    if scaled == inf:  # a ceiling that stands for none
        return int(amount_usd) * MICRO
    nearest = round(scaled)
    return nearest if abs(scaled - nearest) < 1e-6 else int(-(-scaled // 1))


def usd(micro: int) -> float:
    """Return an amount in USD."""
    return micro / MICRO


@dataclass(slots=True)
class Account:
    """One account: amounts in micro-USD; without a ceiling it admits everything."""

    name: str
    parent: Account | None
    ceiling: int | None
    spent: int = 0
    reserved: int = 0

    @property
    def remaining(self) -> int | None:
        """What may still be promised; None without a ceiling. Never below zero."""
        return None if self.ceiling is None else max(0, self.ceiling - self.spent - self.reserved)

    @property
    def is_spent(self) -> bool:
        """Whether its ceiling is reached by what was spent alone."""
        return self.ceiling is not None and self.spent >= self.ceiling

    @property
    def is_full(self) -> bool:
        """Whether its ceiling is reached by what was spent and promised."""
        return self.ceiling is not None and self.spent + self.reserved >= self.ceiling


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a reservation was refused: the account that is too small, and its amounts (micro-USD)."""

    account: str
    ceiling: int
    spent: int
    reserved: int
    proposed: int

    @property
    def bound(self) -> str:
        """What the ceiling is that somebody would have to raise, in words."""
        scope, agent, agent_id = self.account.partition("#")
        if agent:
            return f"limits.max_cost_micros of agent {agent_id}"
        return "the run's budget" if scope == ROOT else f"the budget of child {scope!r}"

    def to_wire(self) -> dict[str, object]:
        """Return the JSON object that the error carries."""
        return {
            "account": self.account,
            "spentUsd": usd(self.spent),
            "committedReserveUsd": usd(self.reserved),
            "finalizeReserveUsd": 0,
            "synthesisReserveUsd": 0,
            "convergenceReserveUsd": 0,
            "repairReserveUsd": 0,
            "proposedReserveUsd": usd(self.proposed),
            "ceilingUsd": usd(self.ceiling),
        }


@dataclass(slots=True)
class Reservation:
    """A promise that is open until it is released."""

    account: Account
    amount: int
    released: bool = False


class Ledger:
    """The accounts of one run.

    Args:
        ceiling_usd: what the run may spend; None is no bound.
        spent_usd: what earlier segments spent.
    """

    def __init__(self, ceiling_usd: float | None, spent_usd: float = 0.0) -> None:
        ceiling = None if ceiling_usd is None else micro_usd(ceiling_usd)
        self._accounts = {ROOT: Account(ROOT, None, ceiling, spent=micro_usd(spent_usd))}

    @property
    def root(self) -> Account:
        """The run's own account."""
        return self._accounts[ROOT]

    def account(self, name: str) -> Account:
        """Return an account by name."""
        return self._accounts[name]

    def open(
        self, name: str, parent: str, fraction: float, most: int | None = None, spent_usd: float = 0.0
    ) -> Account:
        """Open a child account; its ceiling is a fraction of what its parent has left, and at most ``most``.

        Args:
            spent_usd: what it has spent before, which its parent has booked already.
        """
        spent = micro_usd(spent_usd)
        left = self._accounts[parent].remaining
        # with all that its parent has left it is bounded by its parent alone
        ceiling = None if left is None or fraction >= 1 else spent + int(left * fraction)
        if most is not None:
            ceiling = most if ceiling is None else min(ceiling, most)
        return self._opened(name, parent, ceiling, spent)

    def open_bounded(
        self, name: str, parent: str, ceiling_usd: float | None, spent_usd: float = 0.0
    ) -> Account:
        """Open a child account with the ceiling that it was given when it was admitted.

        Args:
            spent_usd: what it has spent since, which its parent has booked already.
        """
        ceiling = None if ceiling_usd is None else micro_usd(ceiling_usd)
        return self._opened(name, parent, ceiling, micro_usd(spent_usd))

    def reopen(self, name: str, parent: str, fraction: float, before_usd: float, spent_usd: float) -> Account:
        """Open a child account that an earlier segment had opened, with the ceiling that it has by now.

        Args:
            before_usd: what its parent had spent when it was opened.
            spent_usd: what it has spent since, which its parent has booked already.
        """
        above = self._accounts[parent]
        left = None if above.ceiling is None else max(0, above.ceiling - micro_usd(before_usd))
        ceiling = None if left is None or fraction >= 1 else int(left * fraction)
        return self._opened(name, parent, ceiling, micro_usd(spent_usd))

    def _opened(self, name: str, parent: str, ceiling: int | None, spent: int) -> Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Account(name, self._accounts[parent], ceiling, spent=spent)
        return account

    def reserve(self, name: str, amount_usd: float) -> Reservation | Denial:
        """Promise an amount on an account and everything above it, or say which account refuses.

        An account refuses when the promise would take it past its ceiling, and when nothing is left.
        """
        amount = micro_usd(amount_usd)
        chain = list(self._chain(name))
        for account in chain:
            if account.ceiling is None:
                continue
            committed = account.spent + account.reserved
            if committed + amount > account.ceiling or committed >= account.ceiling:
                return Denial(account.name, account.ceiling, account.spent, account.reserved, amount)
        for account in chain:
            account.reserved += amount
        return Reservation(chain[0], amount)

    def promise(self, name: str, amount_usd: float) -> Reservation:
        """Promise for a call that was admitted before: no account refuses it, and none promises more than it has left."""
        chain = list(self._chain(name))
        left = [account.remaining for account in chain if account.remaining is not None]
        amount = min([micro_usd(amount_usd), *left])
        for account in chain:
            account.reserved += amount
        return Reservation(chain[0], amount)

    def allowance(self, name: str) -> float | None:
        """Return what is left, in USD, of the tightest ceiling that a child workflow around an account was given.

        A child cannot spend more than that, whatever is expected of its calls. None where no child has a ceiling.
        """
        left = [
            account.remaining
            for account in self._chain(name)
            if account.parent is not None and account.remaining is not None and "#" not in account.name
        ]
        return usd(min(left)) if left else None

    def first(self, name: str, is_meant: Callable[[Account], bool]) -> Account | None:
        """Return the first account, from one up to the root, of which something holds."""
        return next((account for account in self._chain(name) if is_meant(account)), None)

    def release(self, reservation: Reservation) -> None:
        """Give a promise back; a second time does nothing."""
        if not reservation.released:
            reservation.released = True
            for account in self._chain(reservation.account.name):
                account.reserved -= reservation.amount

    def hold(self, name: str, amount_usd: float) -> None:
        """Keep an amount reserved for good, on an account and everything above it: nobody knows if it was spent."""
        amount = micro_usd(amount_usd)
        for account in self._chain(name):
            account.reserved += amount

    def spend(self, name: str, amount_usd: float) -> None:
        """Book what was spent, on an account and everything above it."""
        amount = micro_usd(amount_usd)
        for account in self._chain(name):
            account.spent += amount

    def affordable(self, reservation: Reservation) -> float | None:
        """Return what a call may still spend in USD, its own promise included; None is no bound."""
        bounds = [
            max(0, account.ceiling - account.spent - (account.reserved - reservation.amount))
            for account in self._chain(reservation.account.name)
            if account.ceiling is not None
        ]
        return usd(min(bounds)) if bounds else None

    def _chain(self, name: str) -> list[Account]:
        chain: list[Account] = []
        account: Account | None = self._accounts[name]
        while account is not None:
            chain.append(account)
            account = account.parent
        return chain
