"""Intake of an engine's options: each is checked before anything starts, and named when it is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.jsonable import journal_value
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.ports.store import JournalStore
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.errors import ConfigError
from rulvar.runtime.router import ROLES, check_layer
from rulvar.stores.memory import InMemoryTranscripts

__all__ = [
    "adapters_by_id",
    "check_interceptors",
    "check_journal",
    "check_routing",
    "check_seams",
    "check_text",
    "deadline_ms",
    "list_of",
    "mapping_of",
    "price_table",
    "run_tags",
    "running_loop",
    "scope_value",
    "transcripts_of",
]


_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, after which no datetime can be told."""


def deadline_ms(deadline: datetime | float | None) -> int | None:
    """Return a deadline in epoch milliseconds.

    Raises:
        ConfigError: a naive datetime, something that is no time, or a time out of range.
    """
    if deadline is None:
        return None
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise ConfigError(
                "deadline_at: expected an aware datetime, got a naive one", data={"field": "deadline_at"}
            )
        return int(deadline.timestamp() * 1000)
    number = isinstance(deadline, (int, float)) and not isinstance(deadline, bool)
    if not number or not 0 <= deadline <= _LAST_SECOND:
        raise ConfigError(
            f"deadline_at: expected an aware datetime or epoch seconds from 0 to {_LAST_SECOND} (the end of the "
            f"year 9999), got {_told(deadline)}",
            data={"field": "deadline_at"},
        )
    return int(deadline * 1000)


def _told(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than may be printed
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_text(value: Any, field: str) -> str | None:
    """Return an option that is a text or None."""
    if value is None or isinstance(value, str):
        return value
    raise ConfigError(f"{field}: expected a text, got {_told(value)}", data={"field": field})


def list_of(value: Any, field: str, item: str) -> tuple[Any, ...]:
    """Return an option that lists things; one text is no list."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ConfigError(
            f"{field}: expected a list of {item}, got {_told(value)}; write {field}=[...]",
            data={"field": field},
        )
    return tuple(value)


def run_tags(tags: Any) -> tuple[str, ...]:
    """Return a run's tags."""
    listed = list_of(tags, "tags", "texts")
    for number, tag in enumerate(listed):
        if not isinstance(tag, str):
            raise ConfigError(f"tags[{number}]: expected a text, got {_told(tag)}", data={"field": "tags"})
    return listed


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that a run starts on."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError("engine.run needs a running event loop: call it from async code") from None


def scope_value(scope: Any) -> Any:
    """Return what a run belongs to, in its journal form."""
    if scope is None:
        return None
    if not isinstance(scope, Mapping):
        raise ConfigError(
            f'scope: expected a mapping, got {_told(scope)}; write scope={{"tenant": "acme"}}',
            data={"field": "scope"},
        )
    return journal_value(dict(scope), "run scope")


_SEAMS = {
    "transcripts": ("put", "get"),
    "clock": ("now_ms", "sleep"),
    "entropy": ("random", "uuid4"),
    "queue": ("submit",),
    "limiter": ("slot",),
}


def check_seams(**seams: Any) -> None:
    """Check that what was passed for the seams of an engine has their methods; None was not passed."""
    for field, value in seams.items():
        if value is not None:
            _check_methods(value, field, _SEAMS[field])


def check_interceptors(value: Any) -> tuple[Any, ...]:
    """Return an engine's interceptors after a look at whether they are some."""
    interceptors = list_of(value, "interceptors", "interceptors")
    for number, interceptor in enumerate(interceptors):
        _check_methods(interceptor, f"interceptors[{number}]", ("intercept",))
    return interceptors


def _check_methods(value: Any, field: str, methods: tuple[str, ...]) -> None:
    if isinstance(value, type) or not all(callable(getattr(value, name, None)) for name in methods):
        raise ConfigError(
            f"{field}: {_told(value)} is none; it needs {', '.join(f'{name}()' for name in methods)}",
            data={"field": field},
        )


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


def check_routing(value: Any, adapter_ids: Collection[str]) -> dict[str, Any]:
    """Return the models of an engine's roles, each of an adapter that there is."""
    routing = mapping_of(value, "routing", '{"loop": "anthropic:MODEL"}')
    for role in routing:
        if role not in ROLES:
            raise ConfigError(
                f"routing: no role {role!r}; the roles are {', '.join(ROLES)}",
                data={"field": f"routing.{role}"},
            )
    check_layer("engine", None, None, routing)
    for role, named in routing.items():
        reference = named["model"] if isinstance(named, Mapping) else named
        if named is not None and reference.partition(":")[0] not in adapter_ids:
            known = ", ".join(map(repr, sorted(adapter_ids))) or "none"
            raise ConfigError(
                f"routing: {role!r} names {reference!r}, and the engine has no adapter "
                f"{reference.partition(':')[0]!r}; it has: {known}; write adapters=[...]",
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
    where = f"pricing[{reference!r}]"
    if not isinstance(reference, str) or not all(reference.partition(":")):
        raise ConfigError(f"{where}: expected a model 'adapter:model' as the key", data={"field": "pricing"})
    try:
        table = pricing if isinstance(pricing, ModelPricing) else ModelPricing.from_wire(pricing)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", data={"field": "pricing"}) from None
    amounts = dict(table.to_wire())
    amounts.update(
        (f"tiers[{n}].{name}", value)
        for n, tier in enumerate(amounts.pop("tiers", None) or ())
        for name, value in tier.items()
    )
    for name, value in amounts.items():
        if value is not None and not 0 <= value < float("inf"):
            raise ConfigError(
                f"{where}.{name}={value!r}: expected a finite number from 0 up",
                data={"field": f"{where}.{name}"},
            )
    return table
