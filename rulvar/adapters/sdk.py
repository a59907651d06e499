"""The official SDKs: loaded when they are needed, one client per event loop, retries off."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import re
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from rulvar.adapters.faults import broken_stream, connection_fault, status_fault
from rulvar.adapters.transport import bridged
from rulvar.contracts.stream import WireError
from rulvar.errors import ConfigError

__all__ = ["SdkClients", "load_sdk", "sdk_fault"]

_DEEPEST_CAUSE = 12
_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


def load_sdk(name: str) -> Any:
    """Return an SDK's module.

    Raises:
        ConfigError: it is not installed; names the extra.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise missing_sdk(name) from None


def missing_sdk(name: str) -> ConfigError:
    """Return the error of an SDK that is not installed."""
    return ConfigError(
        f"the {name} adapter needs its SDK: pip install 'rulvar[{name}]'", data={"extra": name}
    )


def require_sdk(name: str) -> None:
    """Check that an SDK is installed, without loading it.

    Raises:
        ConfigError: it is not; names the extra.
    """
    if importlib.util.find_spec(name) is None:
        raise missing_sdk(name)


class SdkClients:
    """Makes and keeps an SDK's client: one per event loop, since connections belong to a loop.

    Args:
        sdk: name of the SDK's module.
        make: makes a client of the SDK's module and options: ``http_client``, ``max_retries`` and more.
        options: keyword arguments of the client.
        transport: an async httpx or httpx2 transport that carries every request, or None for the network.
        client: a ready client to use instead; its retries are switched off.
    """

    def __init__(
        self,
        sdk: str,
        make: Callable[[Any], Callable[..., Any]],
        options: Mapping[str, Any],
        transport: Any = None,
        client: Any = None,
    ) -> None:
        if client is None:
            require_sdk(sdk)
        self._sdk = sdk
        self._make = make
        self._options = {name: value for name, value in options.items() if value is not None}
        self._transport = transport
        self._given = None if client is None else client.with_options(max_retries=0)
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()
        self._busy: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()

    @property
    def is_given(self) -> bool:
        """Whether a ready client is used."""
        return self._given is not None

    def omitted(self) -> Any:
        """Return what leaves out a header that the SDK sends by itself."""
        return load_sdk(self._sdk).Omit()

    def client(self) -> Any:
        """Return the client of the running loop.

        Raises:
            ConfigError: the SDK refuses its options, for instance because there is no API key.
        """
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._new_client()
        return client

    def _new_client(self) -> Any:
        module = load_sdk(self._sdk)
        http: dict[str, Any] = {"follow_redirects": False}
        if self._transport is not None:
            http["transport"] = bridged(self._transport, module.DefaultAsyncHttpxClient)
        try:
            http_client = module.DefaultAsyncHttpxClient(**http)
        except Exception as error:  # its text may hold the password of a proxy
            raise ConfigError(
                f"the HTTP client of the {self._sdk} SDK cannot be made ({type(error).__name__}): check the proxies "
                "and certificates that the environment names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE)",
                data={"field": "environment"},
            ) from None
        try:
            return self._make(module)(http_client=http_client, max_retries=0, **self._options)
        except Exception as error:
            raise ConfigError(
                f"the {self._sdk} client cannot be made ({type(error).__name__}); set "
                f"{self._sdk.upper()}_API_KEY, or pass api_key to the adapter",
                data={"field": "api_key"},
            ) from None

    @asynccontextmanager
    async def exchange(self, send: Callable[[Any], AbstractAsyncContextManager[Any]]) -> AsyncIterator[Any]:
        """Send a request with the running loop's client; its connections stay open that long."""
        loop = asyncio.get_running_loop()
        client = self.client()
        self._busy[loop] = self._busy.get(loop, 0) + 1
        try:
            async with send(client) as answer:
                yield answer
        finally:
            self._busy[loop] -= 1

    def secrets(self) -> list[str]:
        """Return the texts that must not be shown."""
        headers = self._options.get("default_headers") or {}
        return _with_bearers([*self._keys(), *headers.values()])

    def _keys(self) -> list[str]:
        held = (
            getattr(holder, name, None)
            for holder in (self._given, *self._clients.values())
            for name in ("api_key", "auth_token", "admin_api_key", "webhook_secret")
        )
        return [value for value in held if isinstance(value, str) and value]

    def credentials(self) -> list[str]:
        """Return the texts that are credentials for sure: keys, and headers that are named like one."""
        given = self._options.get("api_key")
        headers = self._options.get("default_headers") or {}
        named = [value for name, value in headers.items() if _CREDENTIAL.search(name)]
        found = [*self._keys(), given, *named]
        return _with_bearers(found)

    async def aclose(self) -> None:
        """Close the running loop's connections, unless they are in use; the next request opens new ones."""
        loop = asyncio.get_running_loop()
        if not self._busy.get(loop) and (client := self._clients.pop(loop, None)) is not None:
            await client.close()


def _with_bearers(texts: Iterable[Any]) -> list[str]:
    """Return the texts, and of those that name their scheme what follows it too."""
    found = [text for text in texts if isinstance(text, str) and text]
    schemes = ("bearer ", "basic ", "token ")
    return [*found, *(text.partition(" ")[2] for text in found if text.lower().startswith(schemes))]


def _where(error: BaseException) -> str:
    """Return which host was not reached and what the system says of that; never a whole address, which may hold a key."""
    url = getattr(getattr(error, "_request", None) or getattr(error, "request", None), "url", None)
    host, port = getattr(url, "host", None), getattr(url, "port", None)
    told = [f"{host}:{port}" if port else str(host)] if host else []
    cause: BaseException | None = error
    for _ in range(_DEEPEST_CAUSE):
        if cause is None:
            break
        if isinstance(cause, OSError) and cause.strerror:
            # asyncio puts the address into the words of the system
            number = cause.errno if isinstance(cause, ConnectionError) else None
            told.append(os.strerror(number) if number else cause.strerror)
            break
        cause = cause.__cause__ or cause.__context__
    return ": ".join(told)


def sdk_fault(error: BaseException, secrets: list[str]) -> WireError | None:
    """Return what an exception of an SDK or its HTTP client means, None when it is none of theirs."""
    status = getattr(error, "status_code", None)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(status, int):
        response = getattr(error, "response", None)
        headers = {str(k).lower(): str(v) for k, v in dict(getattr(response, "headers", {})).items()}
        return status_fault(status, headers, _said(getattr(error, "body", None)), secrets)
    if kinds & {"APITimeoutError", "TimeoutException"} or isinstance(error, TimeoutError):
        return connection_fault(timed_out=True, where=_where(error))
    if kinds & {"APIConnectionError", "ConnectError", "UnsupportedProtocol"}:
        return connection_fault(where=_where(error))
    if kinds & {"TransportError", "HTTPError", "StreamError", "DecodingError"} or isinstance(error, OSError):
        return broken_stream("the connection was lost")
    if isinstance(error, UnicodeEncodeError):
        raise ConfigError(
            "the request holds a lone surrogate, which no provider takes: clean the text"
        ) from None
    if kinds & {"APIError", "AnthropicError", "OpenAIError"} or isinstance(error, TypeError):
        # an SDK refuses to send: no credentials, an option it does not know
        raise ConfigError(
            f"the provider's SDK refused the request ({type(error).__name__}): check api_key and the options",
            data={"field": "api_key"},
        ) from None
    return None


def _said(body: Any) -> str | None:
    """Return a provider's own words in an error body."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, str):
            return inner
        said = inner.get("message") if isinstance(inner, Mapping) else None
        return said if isinstance(said, str) and said else None
    if isinstance(body, str) and "<" not in body:
        return body.strip() or None
    return None
