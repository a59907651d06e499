"""The live adapters that a recorder or a replayer stands in front of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterable, Iterator
from typing import Any

from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.stream import ChatEvent
from rulvar.errors import ConfigError

__all__ = ["check_adapters", "start_stream"]


def check_adapters(adapters: Iterable[Any], caller: str) -> Iterator[Adapter]:
    """Yield adapters after a look at their shape.

    Raises:
        ConfigError: an item is no adapter, or there is no list of them.
    """
    if not isinstance(adapters, Iterable) or isinstance(adapters, (str, Adapter)):
        raise ConfigError(
            f"{caller}: adapters: expected a list of adapters, got {type(adapters).__name__}; write [adapter], also "
            "for one",
            data={"field": "adapters"},
        )
    for index, adapter in enumerate(adapters):
        if not isinstance(adapter, Adapter) or not isinstance(adapter.id, str) or not adapter.id:
            raise ConfigError(
                f"{caller}: adapters[{index}] is no adapter (id, caps, stream): {type(adapter).__name__}"
            )
        yield adapter


def start_stream(
    adapter: Adapter, request: ChatRequest, signal: asyncio.Event | None
) -> AsyncIterator[ChatEvent]:
    """Start one exchange of a wrapped adapter.

    Raises:
        ConfigError: its ``stream`` does not return an async iterator.
    """
    stream = adapter.stream(request, signal)
    if not isinstance(stream, AsyncIterable):
        if isinstance(stream, Coroutine):
            stream.close()
        raise ConfigError(
            f'adapter "{adapter.id}": stream() must return an async iterator at once, not wait; '
            f"got {type(stream).__name__}"
        )
    return aiter(stream)
