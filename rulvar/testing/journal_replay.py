"""Strict replay of a journal: zero live calls, or a loud miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.outcome import Outcome, Preview
from rulvar.contracts.stream import WireError
from rulvar.engine.engine import Engine
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError, JournalMissError
from rulvar.runtime.agent import AgentProfile
from rulvar.stores.bundle import Bundle
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.engine import fake_routing
from rulvar.testing.fake import FakeAdapter
from rulvar.testing.recorded_run import Journal, kept_args, recorded_run, transcripts_of
from rulvar.testing.recorded_texts import MissWatch, recorded_differences, told_differences
from rulvar.testing.wrapped import check_adapters

__all__ = ["Replay", "replay_engine", "replay_run"]


@dataclass(frozen=True, slots=True)
class Replay:
    """What a strict replay came to."""

    outcome: Outcome
    preview: Preview


async def replay_run(
    wf: Workflow[Any],
    args: Any = None,
    *,
    journal: Journal,
    profiles: Mapping[str, AgentProfile | Mapping[str, Any]] | None = None,
    routing: Mapping[str, Any] | None = None,
    adapters: Iterable[Any] | None = None,
    mode: str = "strict",
    **options: Any,
) -> Replay:
    """Run a workflow against a journal; any call that would go live raises.

    Args:
        args: of the recorded run; may be left out where they are kept with it.
        journal: entries (or their JSON objects), ``(store, run_id)``, the path of a journal file
            (``.jsonl``), or an exported run: its path, its JSON object or a Bundle.
        profiles, routing, adapters: what the recorded run resolved its models with; routing is part
            of a call's identity. Default: the test engine's fake routing.
        mode: ``"strict"``; there is no other.
        options: the other options of :class:`~rulvar.Engine`.

    Raises:
        JournalMissError: the first call that is not in the journal; names call site, scope and what
            differs. The workflow cannot swallow it.
        ConfigError: an option is wrong, the file is no journal, or the arguments are not those of the run.
        JournalCompatibilityError: an entry is none that can be replayed, or of another version.
        JournalOrderViolation: the journal is damaged. Both name the run or file, and the entry or line.
    """
    if mode != "strict":
        raise ConfigError(f"replay_run mode={mode!r}: use 'strict'", data={"field": "mode"})
    run = await recorded_run(journal)
    given = kept_args(run) if args is None else args
    async with replay_engine(profiles=profiles, routing=routing, adapters=adapters, **options) as engine:
        store = engine.store
        await store.append(run.run_id, run.entries)
        await store.save_meta(run.run_id, _meta(run, given))
        watch = MissWatch()
        engine.observers = (*engine.observers, watch)
        resumed = engine.resume(run.run_id, wf, args=given, dry_run=True)
        outcome = await resumed.result()
        if outcome.error is not None and outcome.error.code == JournalMissError.code:
            raise await _miss(outcome.error, watch, run, journal)
        return Replay(outcome, await resumed.preview())


async def _miss(error: WireError, watch: MissWatch, run: Bundle, journal: Journal) -> JournalMissError:
    """Return the error of a miss, which shows what was recorded beside what was asked for."""
    data = dict(error.data or {})
    transcripts = await transcripts_of(run, journal)
    data["differences"] = await recorded_differences(data, watch.missed, run.entries, transcripts)
    lines = [error.message, *told_differences(data["differences"])]
    return JournalMissError("\n  ".join(lines), data=data)


def replay_engine(
    *,
    profiles: Mapping[str, AgentProfile | Mapping[str, Any]] | None = None,
    routing: Mapping[str, Any] | None = None,
    adapters: Iterable[Any] | None = None,
    **options: Any,
) -> Engine:
    """Return an engine that replays: an empty store, and fake routing unless told otherwise."""
    given = [FakeAdapter(agents={})] if adapters is None else list(check_adapters(adapters, "replay_run"))
    if routing is not None and not isinstance(routing, Mapping):
        raise ConfigError(
            f"routing: expected role: model pairs, got {type(routing).__name__}", data={"field": "routing"}
        )
    has_fake = any(getattr(adapter, "id", None) == FakeAdapter().id for adapter in given)
    return Engine(
        adapters=given,
        journal=InMemoryStore(),
        profiles=profiles,
        routing={**(fake_routing() if has_fake else {}), **(routing or {})},
        **options,
    )


def _meta(run: Bundle, args: Any) -> dict[str, Any]:
    """Return what of a meta row bears on a replay: its ceiling, and what tells other arguments."""
    return {
        name: value
        for name, value in run.meta.items()
        if name == "budgetUsd" or (args is not None and name.startswith("args"))
    }
