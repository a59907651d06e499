"""How the cases of a store suite run, and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from rulvar.contracts.entries import JournalEntry
from rulvar.errors import RulvarError

__all__ = ["StoreSuite", "close", "entry", "meta", "refused", "seqs"]

E = TypeVar("E", bound=BaseException)
Case = Callable[[Any], Awaitable[None]]
CaseOfTwo = Callable[[Any, Any], Awaitable[None]]


class StoreSuite:
    """What a subclass says about its store, and how a case gets one."""

    def make_store(self) -> Any:
        """Return an empty store; called once per case."""
        raise NotImplementedError("make_store: return the store under test")

    def reopen(self, store: Any) -> Any:
        """Return another store over the same data, as another process would open it.

        None when the data lives with the object.
        """
        return None

    def check(self, case: Case, *, needs: str = "load") -> None:
        """Run one case against a new store that has a member ``needs``, in an event loop of its own."""

        async def run() -> None:
            store = self.make_store()
            try:
                if hasattr(store, needs):
                    await case(store)
            finally:
                await close(store)

        asyncio.run(run())

    def check_two(self, case: CaseOfTwo, *, needs: str = "load", is_shared: bool = False) -> None:
        """Run one case against two stores over the same data; ``is_shared``: only if there can be two."""

        async def run() -> None:
            one = self.make_store()
            other = self.reopen(one)
            try:
                if hasattr(one, needs) and (other is not None or not is_shared):
                    await case(one, one if other is None else other)
            finally:
                await close(one)
                if other is not None:
                    await close(other)

        asyncio.run(run())


def entry(seq: int, **fields: Any) -> JournalEntry:
    """Return an entry as the engine writes one."""
    wire = {
        "hashVersion": 2, "seq": seq, "scope": "", "key": f"key-{seq}", "ordinal": 0, "kind": "step", "status": "ok",
        "spanId": "s0", "startedAt": "2026-11-30T10:00:00.000Z", **fields,
    }  # fmt: skip
    return JournalEntry.from_wire(wire)


def meta(run_id: str, **fields: Any) -> dict[str, Any]:
    """Return a meta row as the engine writes one."""
    row = {"runId": run_id, "status": "running", "segments": 1, "updatedAt": "2026-11-30T10:00:00.000Z"}
    return {**row, "workflowName": "wf", "argsProvided": False, **fields}


def seqs(entries: Iterable[JournalEntry]) -> list[int]:
    """Return the seqs of entries."""
    return [item.seq for item in entries]


async def refused(kind: type[E], attempt: Awaitable[Any], what: str = "it") -> E:
    """Return the error with which an attempt is refused; anything else fails the test."""
    try:
        result = await attempt
    except kind as error:
        if isinstance(error, RulvarError):
            assert error.message, "a refusal says why"
        return error
    raise AssertionError(f"expected {kind.__name__}, but the store accepted {what} and returned {result!r}")


async def close(store: Any) -> None:
    """Close a store, whether its ``close`` is a plain function, an async one or not there."""
    outcome = getattr(store, "close", lambda: None)()
    if asyncio.iscoroutine(outcome):
        await outcome
