"""What each account of a run had spent by an entry of its journal: a child's ceiling is made again of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from rulvar.kernel.ledger import ROOT
from rulvar.kernel.scope import scopes_around

__all__ = ["PastSpend"]


class PastSpend:
    """Sums over the ends that a journal brought.

    Args:
        ends: the seq, the scope and the cost in USD of each, in journal order.
    """

    def __init__(self, ends: Iterable[tuple[int, str, float]]) -> None:
        self._books: dict[str, tuple[list[int], list[float]]] = {}
        for seq, scope, amount in ends:
            for name in (ROOT, *scopes_around(scope)):
                seqs, sums = self._books.setdefault(name, ([], [0.0]))
                seqs.append(seq)
                sums.append(sums[-1] + amount)

    def of(self, account: str, before: int | None = None) -> float:
        """Return what an account, the run's or that of a scope, has spent; in entries before a seq, if one is given."""
        seqs, sums = self._books.get(account, ([], [0.0]))
        return sums[len(seqs) if before is None else bisect_left(seqs, before)]
