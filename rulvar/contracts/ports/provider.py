"""The seam behind which models live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.stream import ChatEvent

__all__ = [
    "LIVE",
    "Adapter",
    "FieldDifference",
    "NearestRow",
    "Served",
    "ServedHow",
    "provider_family",
    "served_by",
]

ServedHow = Literal["hit", "miss", "exhausted", "passthrough", "live", "fake", "journal"]


@runtime_checkable
class Adapter(Protocol):
    """A provider of models.

    ``stream`` is a plain method that returns an async iterator at once; it must not wait. An abort
    (``signal`` set) ends the iterator promptly with no terminal event. Optional attributes:
    ``provider`` (str), ``usage_semantics`` (str) and ``count_tokens(request) -> awaitable int``.
    """

    @property
    def id(self) -> str:
        """The part of a model reference before the first colon."""

    def caps(self, model: str) -> ModelCaps:
        """Return what a model can do."""

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange and return its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """One field that differs: its path in the request, and both sides shortened and redacted."""

    path: str
    recorded: str | None
    actual: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestRow:
    """The recorded row that is nearest to a request that missed."""

    cassette: str
    row: int
    request_hash: str
    distance: float
    differences: tuple[FieldDifference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What answered one exchange. A stream may carry it in its attribute ``served``.

    ``row`` is the line in the cassette file; ``occurrence`` k (0-based) of ``occurrences`` n.
    """

    how: ServedHow
    request_hash: str | None = None
    cassette: str | None = None
    row: int | None = None
    occurrence: int | None = None
    occurrences: int | None = None
    nearest: NearestRow | None = None
    message: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


LIVE = Served(how="live")
"""A live provider."""


def served_by(stream: object) -> Served:
    """Return what answered an exchange; a stream that says nothing came from a live provider."""
    served = getattr(stream, "served", None)
    return served if isinstance(served, Served) else LIVE


def provider_family(adapter: Adapter) -> str:
    """Return whose models an adapter serves: its ``provider`` where it tells one, its id otherwise."""
    family = getattr(adapter, "provider", None)
    return family if isinstance(family, str) else adapter.id
