"""Which rows of the cassettes the tests of a run used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rulvar.testing.report import TestReport

__all__ = ["RowUse", "row_use"]


@dataclass(slots=True)
class RowUse:
    """What became of the rows of one cassette.

    Attributes:
        rows: the lines of all its rows.
        used: the lines that a test was served, or recorded itself.
        hashes: line to the hash of the request that it served or recorded.
        failed: the tests that opened it and did not pass: they may have stopped before the rest of it.
    """

    rows: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)
    hashes: dict[int, str] = field(default_factory=dict)
    failed: list[TestReport] = field(default_factory=list)

    @property
    def unused(self) -> list[int]:
        """The lines that no test used, in file order."""
        return sorted(self.rows - self.used)


def row_use(tests: Iterable[TestReport]) -> dict[str, RowUse]:
    """Return what the tests used, by the path of the cassette as reports hold it."""
    uses: dict[str, RowUse] = {}
    for test in tests:
        for cassette in test.cassettes:
            use = uses.setdefault(cassette.path, RowUse())
            use.used.update(cassette.served)
            use.rows.update(cassette.served, cassette.unused)
            if test.outcome != "passed":
                use.failed.append(test)
        for call in test.calls:
            if call.cassette is None or call.row is None:
                continue
            use = uses.setdefault(call.cassette, RowUse())
            use.used.add(call.row)
            use.rows.add(call.row)
            if call.request_hash is not None:
                use.hashes[call.row] = call.request_hash
    return uses
