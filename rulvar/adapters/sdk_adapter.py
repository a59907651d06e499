"""What adapters over official SDKs have in common: everything but a provider's own words."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from rulvar.adapters.acceptance import check_agent_shape
from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.exchange import AnswerDecoder, Exchange
from rulvar.adapters.identity import BoundModel, check_adapter_id
from rulvar.adapters.sdk import SdkClients, sdk_fault
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest, ToolContract
from rulvar.contracts.stream import ChatEvent, WireError
from rulvar.errors import ConfigError

__all__ = ["ADDITIVE", "SUBSETS", "SdkAdapter"]

ADDITIVE = "anthropic-cache-additive-v1"
"""The provider counts cache reads and writes beside its input; they were added to it."""
SUBSETS = "openai-cache-subsets-v2"
"""The provider's input is the whole prompt; cache reads and writes are parts of it."""


class SdkAdapter(ABC):
    """An adapter over an SDK. The engine owns retries: the SDK makes none.

    A provider's own adapter says how a request is written (``encode``), sent (``send``) and its answer
    read (``decoder``), what its models can do (``caps``), and which media it takes.

    Args:
        sdk: name of the SDK's module.
        make: returns the class of its client, of that module.
        id_prefix: what the provider's own ids of tool calls begin with.
    """

    provider: ClassVar[str]
    usage_semantics: ClassVar[str]
    """How the provider's counts were read; kept with every usage that is journaled or recorded."""
    media: ClassVar[tuple[str, ...]]
    """Media types that a message may carry, or what they begin with."""

    def __init__(
        self,
        id: str,
        *,
        sdk: str,
        make: Callable[[Any], Callable[..., Any]],
        id_prefix: str,
        model: str | None = None,
        max_cost_micros: int | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Any = None,
        client: Any = None,
    ) -> None:
        self.id = check_adapter_id(id)
        self.default_model, self.max_cost_micros = model, max_cost_micros
        self._ids = CallIds(id_prefix)
        options = {
            "api_key": api_key,
            "base_url": base_url,
            "timeout": timeout_s,
            "default_headers": None if headers is None else dict(headers),
        }
        if client is not None:
            _refuse_beside_client({**options, "transport": transport})
        self._clients = SdkClients(sdk, make, options, transport, client)

    @abstractmethod
    def caps(self, model: str) -> ModelCaps:
        """Return what a model can do."""

    @abstractmethod
    def encode(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body that a request is sent with.

        Raises:
            ConfigError: the request cannot be sent to this provider.
        """

    @abstractmethod
    def decoder(self, request: ChatRequest) -> AnswerDecoder:
        """Return what reads the answer to a request."""

    @abstractmethod
    def send(self, client: Any, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Send a body with a client of the SDK; its streaming response is entered by whoever asks."""

    def model(self, name: str) -> BoundModel:
        """Return one of the adapter's models, for ``Agent(model=...)``."""
        return BoundModel(self, name)

    def build_request(self, request: ChatRequest | Mapping[str, Any]) -> dict[str, Any]:
        """Return the body that a request is sent with. Nothing is sent.

        Raises:
            ConfigError: the request cannot be sent to this provider.
        """
        return self.encode(request if isinstance(request, ChatRequest) else ChatRequest.from_wire(request))

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange; an answer that pauses is continued until it is whole."""
        return Exchange(
            lambda: self.build_request(request),
            lambda body: self._clients.exchange(lambda client: self.send(client, body)),
            self.decoder(request),
            self._fault,
            signal,
            self._clients.secrets,
        )

    def check_agent(
        self,
        tools: tuple[ToolContract, ...],
        output: Any,
        model: str | None = None,
        media: tuple[str, ...] = (),
    ) -> None:
        """Check that the provider takes an agent's tools, answer and media. Nothing is sent.

        Raises:
            ConfigError: it does not; names the tool and the field.
        """
        check_agent_shape(tools, output, media, self.media)

    def credentials(self) -> list[str]:
        """Return the credentials that requests carry: no recording may hold them, whoever repeats them."""
        return self._clients.credentials()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        await self._clients.aclose()

    def _fault(self, error: BaseException) -> WireError | None:
        return sdk_fault(error, self._clients.secrets())


def _refuse_beside_client(options: Mapping[str, Any]) -> None:
    """Check that nothing is given that a ready client would not heed.

    Raises:
        ConfigError: something is; names it.
    """
    words = {"timeout": "timeout_s", "default_headers": "headers"}
    beside = [words.get(name, name) for name, value in options.items() if value is not None]
    if beside:
        raise ConfigError(
            f"client: a ready client is used as it is, and {' and '.join(f'{name}=' for name in beside)} would not "
            "reach it: set that on the client, or leave the client out",
            data={"field": beside[0]},
        )
