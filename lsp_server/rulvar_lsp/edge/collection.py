"""The cyclic garbage collector, held back until nobody waits.

Each look at a file leaves a syntax tree and what was found in it behind, which have cycles. Python's own timing
collects in the middle of the next look and makes it half as long again.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

# Containers made and not yet looked at. Where a look at a thousand lines leaves its 20,000 in cycles (3 MiB), they are
# collected in 13 ms, which fits between two strokes of a key. What a large file leaves does not, and waits for a pause.
FEW = 10_000
MANY = 60_000
TOO_MANY = 150_000
SOON_SECONDS = 0.005
LATER_SECONDS = 1.0


def hold_back() -> None:
    """Leave what start-up made out of every collection, and collect by itself only what has piled up."""
    gc.freeze()
    gc.set_threshold(TOO_MANY, 1, 1)  # nothing that is dropped grows old: no generation is worth keeping
    gc.enable()


class Collector:
    """Collects after work, once no more work follows. `run` does something in the worker thread."""

    def __init__(self, run: Callable[[Callable[[], object]], object]) -> None:
        self._run = run
        self._timer: asyncio.TimerHandle | None = None
        self._pays = True  # whether the last collection found much

    def worked(self) -> None:
        """Work has ended: collect in a moment, or after a pause where that takes long or hardly pays."""
        self.wait()
        soon = self._pays and FEW <= gc.get_count()[0] <= MANY
        delay = SOON_SECONDS if soon else LATER_SECONDS
        self._timer = asyncio.get_running_loop().call_later(delay, self._run, self._collect)

    def wait(self) -> None:
        """Work begins: not now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _collect(self) -> None:
        self._pays = gc.collect() >= FEW
