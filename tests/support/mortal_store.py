"""A store that kills its process right before or right after one of its durable writes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from rulvar.contracts.entries import JournalEntry


class MortalStore:
    """Passes everything through; every write has a name and is told to ``trace`` before and after.

    Args:
        inner: the store that does the work.
        trace: called with ``("before" | "after", name)``.
        victim: ``(when, name)`` of the write at which the process kills itself with SIGKILL.
    """

    def __init__(
        self, inner: Any, trace: Callable[[str, str], None], victim: tuple[str, str] | None = None
    ) -> None:
        self._inner = inner
        self._trace = trace
        self._victim = victim
        self._counts: dict[str, int] = {}
        self.transcripts = _MortalTranscripts(self, inner.transcripts)
        self.immediate = getattr(inner, "immediate", True) and hasattr(inner, "append_now")

    def name(self, what: str) -> str:
        """Return a write's name: what it is, and the how manieth of its kind."""
        self._counts[what] = self._counts.get(what, 0) + 1
        return f"{what} #{self._counts[what]}"

    def tell(self, when: str, name: str) -> None:
        """Trace a write, and die when it is the victim."""
        self._trace(when, name)
        if self._victim == (when, name):
            os.kill(os.getpid(), signal.SIGKILL)

    async def write(self, what: str, call: Callable[[], Any]) -> Any:
        """Do a write by its name."""
        name = self.name(what)
        self.tell("before", name)
        result = await call()
        self.tell("after", name)
        return result

    def append_now(self, run_id: str, entries: Any) -> None:
        name = self.name(append_name(entries))
        self.tell("before", name)
        self._inner.append_now(run_id, entries)
        self._acknowledged(entries)
        self.tell("after", name)

    async def append(self, run_id: str, entries: Any, **lease: Any) -> None:
        async def append() -> None:
            await self._inner.append(run_id, entries, **lease)
            self._acknowledged(entries)

        await self.write(append_name(entries), append)

    def _acknowledged(self, entries: Any) -> None:
        self._trace("acknowledged", " ".join(str(entry.seq) for entry in entries))

    async def save_meta(self, run_id: str, meta: Any, **lease: Any) -> None:
        await self.write(f"meta {meta['status']}", lambda: self._inner.save_meta(run_id, meta, **lease))

    async def acquire_lease(self, run_id: str, owner: str, ttl_s: float) -> Any:
        return await self.write("acquire", lambda: self._inner.acquire_lease(run_id, owner, ttl_s))

    async def renew_lease(self, lease: Any) -> None:
        await self.write("renew", lambda: self._inner.renew_lease(lease))

    async def release_lease(self, lease: Any) -> None:
        await self.write("release", lambda: self._inner.release_lease(lease))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _MortalTranscripts:
    def __init__(self, store: MortalStore, inner: Any) -> None:
        self._store = store
        self._inner = inner

    async def put(self, ref: str, data: bytes, **lease: Any) -> None:
        kind = "checkpoint" if "/ckpt/" in ref else "transcript"
        await self._store.write(kind, lambda: self._inner.put(ref, data, **lease))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def append_name(entries: tuple[JournalEntry, ...]) -> str:
    """Return what an append stores, by its last entry."""
    last = entries[-1]
    if last.kind == "decision":
        value = last.value
        return f"{value['decisionType']}"
    return f"{last.kind} {last.status}"
