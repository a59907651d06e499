"""Strict replay of a journal: zero live calls, or a loud miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.entries import JournalEntry, as_entries
from rulvar.contracts.outcome import Outcome, Preview
from rulvar.contracts.ports.store import JournalStore
from rulvar.engine.engine import Engine
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError, JournalMissError
from rulvar.runtime.agent import AgentProfile
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.engine import fake_routing
from rulvar.testing.fake import FakeAdapter

__all__ = ["Replay", "replay_run"]

_RUN_ID = "replay"


@dataclass(frozen=True, slots=True)
class Replay:
    """What a strict replay came to."""

    outcome: Outcome
    preview: Preview


async def replay_run(
    wf: Workflow[Any],
    args: Any = None,
    *,
    journal: Iterable[JournalEntry | Mapping[str, Any]] | tuple[JournalStore, str],
    profiles: Mapping[str, AgentProfile | Mapping[str, Any]] | None = None,
    routing: Mapping[str, Any] | None = None,
    adapters: Iterable[Any] | None = None,
    mode: str = "strict",
    **options: Any,
) -> Replay:
    """Run a workflow against a journal; any call that would go live raises.

    Args:
        journal: entries (or their JSON objects), or ``(store, run_id)``.
        profiles, routing, adapters: what the recorded run resolved its models with; routing is part
            of a call's identity. Default: the test engine's fake routing.
        mode: ``"strict"``; there is no other.
        options: the other options of :class:`~rulvar.Engine`.

    Raises:
        JournalMissError: the first call that is not in the journal; names call site, scope and what
            differs. The workflow cannot swallow it.
        ConfigError: an option is wrong.
    """
    if mode != "strict":
        raise ConfigError(f"replay_run mode={mode!r}: use 'strict'", data={"field": "mode"})
    entries = await _entries(journal)
    store = InMemoryStore()
    store.append_now(_RUN_ID, entries)
    async with Engine(
        adapters=[FakeAdapter(agents={})] if adapters is None else adapters,
        journal=store,
        profiles=profiles,
        routing={**fake_routing(), **(routing or {})},
        **options,
    ) as engine:
        resumed = engine.resume(_RUN_ID, wf, args=args, dry_run=True)
        outcome = await resumed.result()
        if outcome.error is not None and outcome.error.code == JournalMissError.code:
            raise JournalMissError(outcome.error.message, data=outcome.error.data)
        return Replay(outcome, await resumed.preview())


async def _entries(journal: Any) -> list[JournalEntry]:
    if isinstance(journal, tuple) and len(journal) == 2 and isinstance(journal[1], str):
        store, run_id = journal
        entries: list[JournalEntry] = await store.load(run_id)
        if not entries:
            raise ConfigError(
                f"journal: the store has no entries of run {run_id!r}", data={"field": "journal"}
            )
        return entries
    if isinstance(journal, (str, bytes, Mapping)):
        raise ConfigError("journal: expected entries or (store, run_id)", data={"field": "journal"})
    return as_entries(journal)
