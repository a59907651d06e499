"""What an eval came to: verdicts, cases, and a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["CaseResult", "EvalReport", "Verdict"]

_LONGEST_NOTE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer meets one criterion, and who says so."""

    criterion: str
    met: bool
    source: Literal["judge", "expected", "check", "status"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case.

    Attributes:
        status: ``passed``, ``failed``, or ``error`` when there is nothing to judge or no judgement.
        value: the answer.
        cost_usd: of the run and of its judge.
    """

    name: str
    status: Literal["passed", "failed", "error"]
    verdicts: tuple[Verdict, ...] = ()
    value: Any = None
    error: str | None = None
    cost_usd: float = 0.0

    @property
    def score(self) -> float:
        """The part of the criteria that is met; 0 where nothing was judged."""
        if not self.verdicts:
            return 0.0
        return sum(verdict.met for verdict in self.verdicts) / len(self.verdicts)

    @property
    def unmet(self) -> tuple[Verdict, ...]:
        """The criteria that are not met."""
        return tuple(verdict for verdict in self.verdicts if not verdict.met)

    @property
    def note(self) -> str:
        """What stands in the table of a case that did not pass to the full."""
        if self.error is not None:
            return self.error
        return "; ".join(
            f"{verdict.criterion}: {verdict.reason}" if verdict.reason else verdict.criterion
            for verdict in self.unmet
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """Every case of an eval.

    Attributes:
        threshold: what part of its criteria a case had to meet.
        pass_rate: what part of the cases had to pass.
        served: what served the model calls: ``live``, ``hit``, ``miss``, ``fake`` and the like, with their number.
    """

    results: tuple[CaseResult, ...]
    threshold: float
    pass_rate: float
    served: Mapping[str, int]

    @property
    def score(self) -> float:
        """The mean score of the cases."""
        return sum(result.score for result in self.results) / len(self.results)

    @property
    def passed(self) -> bool:
        """Whether enough cases passed."""
        number = sum(result.status == "passed" for result in self.results)
        return number >= self.pass_rate * len(self.results)

    @property
    def cost_usd(self) -> float:
        """What the cases and their judge cost."""
        return sum(result.cost_usd for result in self.results)

    @property
    def live_calls(self) -> int:
        """How many model calls were live."""
        return sum(self.served.get(how, 0) for how in ("live", "passthrough"))

    def require(self) -> None:
        """Raise an AssertionError that shows the table, unless enough cases passed."""
        if not self.passed:
            raise AssertionError(f"the eval did not pass\n{self.table()}")

    def table(self) -> str:
        """Return the cases as lines of text, and a line that sums them up."""
        rows = [("case", "result", "score", "cost USD", "why")]
        for result in self.results:
            note = " ".join(result.note.split())
            if len(note) > _LONGEST_NOTE:
                note = f"{note[: _LONGEST_NOTE - 1]}…"
            rows.append((result.name, result.status, f"{result.score:.2f}", f"{result.cost_usd:.4f}", note))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            "  ".join(
                (*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4])
            ).rstrip()
            for row in rows
        ]
        return "\n".join((*lines, self._sum()))

    def _sum(self) -> str:
        passed = sum(result.status == "passed" for result in self.results)
        calls = ", ".join(f"{number} {how}" for how, number in sorted(self.served.items())) or "none"
        return (
            f"{passed} of {len(self.results)} cases passed, mean score {self.score:.2f} "
            f"(threshold {self.threshold:.2f}), {self.cost_usd:.4f} USD; model calls: {calls}"
        )

    def to_wire(self) -> dict[str, Any]:
        """Return the report as JSON; answers are left out."""
        return {
            "passed": self.passed,
            "score": self.score,
            "threshold": self.threshold,
            "passRate": self.pass_rate,
            "costUsd": self.cost_usd,
            "served": dict(self.served),
            "cases": [
                {
                    "name": result.name,
                    "status": result.status,
                    "score": result.score,
                    "costUsd": result.cost_usd,
                    "error": result.error,
                    "verdicts": [asdict(verdict) for verdict in result.verdicts],
                }
                for result in self.results
            ],
        }
