"""Intake of an engine's options: each is checked before anything starts, and named when it is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.ports.store import JournalStore
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.errors import ConfigError
from rulvar.runtime.router import ROLES
from rulvar.stores.memory import InMemoryTranscripts

__all__ = [
    "adapters_by_id",
    "call_slots",
    "check_journal",
    "check_routing",
    "deadline_ms",
    "mapping_of",
    "price_table",
    "transcripts_of",
]


def deadline_ms(deadline: datetime | float | None) -> int | None:
    if deadline is None:
        return None
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise ConfigError(
                "deadline_at: expected an aware datetime, got a naive one", data={"field": "deadline_at"}
            )
        return int(deadline.timestamp() * 1000)
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or deadline - deadline != 0:
        raise ConfigError(
            "deadline_at: expected an aware datetime or epoch seconds", data={"field": "deadline_at"}
        )
    return int(deadline * 1000)


def transcripts_of(store: JournalStore) -> TranscriptStore:
    beside: TranscriptStore | None = getattr(store, "transcripts", None)
    return InMemoryTranscripts() if beside is None else beside


def check_journal(store: Any) -> JournalStore:
    """Return a store after a look at whether it is one."""
    if isinstance(store, type) or not callable(getattr(store, "load", None)):
        told = repr(store) if isinstance(store, (str, type)) else type(store).__name__
        raise ConfigError(
            f"journal: {told} is no store; write journal=JsonlFileStore('runs'), or another store",
            data={"field": "journal"},
        )
    return cast("JournalStore", store)


def mapping_of(value: Any, field: str, example: str) -> Mapping[str, Any]:
    """Return an option that maps names to something."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{field}: expected a mapping, got {type(value).__name__}; write {field}={example}",
            data={"field": field},
        )
    return value


def check_routing(value: Any) -> dict[str, Any]:
    """Return the models of an engine's roles."""
    routing = mapping_of(value, "routing", '{"loop": "anthropic:MODEL"}')
    for role in routing:
        if role not in ROLES:
            raise ConfigError(
                f"routing: no role {role!r}; the roles are {', '.join(ROLES)}",
                data={"field": f"routing.{role}"},
            )
    return dict(routing)


def adapters_by_id(adapters: Iterable[Adapter]) -> dict[str, Adapter]:
    if isinstance(adapters, (str, Mapping)) or not isinstance(adapters, Iterable):
        raise ConfigError(
            f"adapters: expected a list of adapters, got {type(adapters).__name__}; write adapters=[...]",
            data={"field": "adapters"},
        )
    by_id: dict[str, Adapter] = {}
    for number, adapter in enumerate(adapters):
        if not callable(getattr(adapter, "stream", None)) or not isinstance(
            getattr(adapter, "id", None), str
        ):
            raise ConfigError(
                f"adapters[{number}]: {type(adapter).__name__} is no adapter; it needs id, caps() and stream()",
                data={"field": f"adapters[{number}]"},
            )
        if adapter.id in by_id:
            raise ConfigError(
                f"adapters[{number}]: two adapters have the id {adapter.id!r}", data={"field": "adapters"}
            )
        by_id[adapter.id] = adapter
    return by_id


def price_table(reference: str, pricing: ModelPricing | Mapping[str, Any]) -> ModelPricing:
    if isinstance(pricing, ModelPricing):
        return pricing
    try:
        return ModelPricing.from_wire(pricing)
    except ConfigError as error:
        raise ConfigError(f"pricing[{reference!r}]: {error.message}", data={"field": "pricing"}) from None


def call_slots(concurrency: int | None) -> asyncio.Semaphore | None:
    if concurrency is None:
        return None
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise ConfigError(
            f"concurrency={concurrency!r}: expected an integer from 1 up, or None",
            data={"field": "concurrency"},
        )
    return asyncio.Semaphore(concurrency)
