"""HTTP transports of one client library, carried by another.

The SDKs of different years stand on httpx or on its successor httpx2. A transport of either may be
injected whatever the installed SDK stands on.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["bridged"]


def bridged(transport: Any, client_class: type) -> Any:
    """Return a transport that a client class can use.

    Raises:
        ConfigError: it is no async transport.
    """
    if not callable(getattr(transport, "handle_async_request", None)):
        raise ConfigError(
            f"transport: expected an async httpx transport, got {type(transport).__name__}",
            data={"field": "transport"},
        )
    native = _library(client_class, "AsyncClient")
    foreign = _library(type(transport), "AsyncBaseTransport")
    if native is None or foreign is None or native is foreign:
        return transport
    return _bridge(transport, native, foreign)


def _library(kind: type, name: str) -> Any:
    """Return the HTTP library whose class of that name a class derives from."""
    for above in kind.__mro__:
        if above.__name__ == name:
            return importlib.import_module(above.__module__.partition(".")[0])
    return None


def _bridge(transport: Any, native: Any, foreign: Any) -> Any:
    class Body(native.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, response: Any) -> None:
            self._response = response

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._response.stream:
                    yield chunk
            except foreign.TransportError as error:
                # the same failure in the words of the other library
                kind = getattr(native, type(error).__name__, native.ReadError)
                raise kind(str(error)) from None

        async def aclose(self) -> None:
            await self._response.stream.aclose()

    class Bridge(native.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            sent = foreign.Request(
                request.method,
                str(request.url),
                headers=list(request.headers.raw),
                content=await request.aread(),
                extensions=dict(request.extensions),
            )
            try:
                response = await transport.handle_async_request(sent)
            except foreign.TransportError as error:
                kind = getattr(native, type(error).__name__, native.ConnectError)
                raise kind(str(error), request=request) from None
            return native.Response(
                response.status_code, headers=list(response.headers.raw), stream=Body(response)
            )

        async def aclose(self) -> None:
            await transport.aclose()

    return Bridge()
