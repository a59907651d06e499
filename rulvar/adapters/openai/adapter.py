"""The Responses API of OpenAI behind the adapter seam."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from rulvar.adapters.acceptance import check_agent_shape
from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.catalogue import ModelFacts, facts_with, openai_facts
from rulvar.adapters.exchange import Exchange
from rulvar.adapters.identity import BoundModel, check_adapter_id, check_base_url
from rulvar.adapters.images import PDF
from rulvar.adapters.openai.decode import ResponsesDecoder
from rulvar.adapters.openai.encode import FAMILY, encode_request, is_downmapped
from rulvar.adapters.sdk import SdkClients, sdk_fault
from rulvar.contracts.capabilities import ModelCaps, ModelPricing
from rulvar.contracts.messages import ChatRequest, ToolContract
from rulvar.contracts.stream import ChatEvent, WireError
from rulvar.errors import ConfigError

__all__ = ["OpenAIAdapter"]


class OpenAIAdapter:
    """Models of OpenAI, over the official SDK. The engine owns retries: the SDK makes none.

    Args:
        api_key: default: the environment variable OPENAI_API_KEY.
        id: adapter id, when an engine has several of them.
        model: what an agent that is given this adapter uses; ``adapter.model("name")`` chooses another.
        pricing: prices of that model, over those of the catalogue.
        max_cost_micros: what one call may cost at most, in micro-USD; an agent promises that much per call.
        base_url: another endpoint of the same API.
        models: model to capabilities that replace or refine those of the catalogue.
        timeout_s: how long to wait for bytes, in seconds.
        headers: further request headers.
        transport: an async httpx transport that carries every request; for tests and proxies.
        client: a ready ``AsyncOpenAI`` to use instead of all of the above.

    Request options in ``provider_options={"openai": {...}}``: temperature, top_p, verbosity, reasoningEffort.

    Raises:
        ConfigError: an option is wrong, or the extra ``openai`` is not installed.
    """

    provider = FAMILY

    def __init__(
        self,
        *,
        api_key: str | None = None,
        id: str = "openai",
        model: str | None = None,
        pricing: ModelPricing | Mapping[str, Any] | None = None,
        max_cost_micros: int | None = None,
        base_url: str | None = None,
        models: Mapping[str, ModelCaps | Mapping[str, Any]] | None = None,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Any = None,
        client: Any = None,
    ) -> None:
        self.id = check_adapter_id(id)
        check_base_url(base_url)
        self.default_model, self.max_cost_micros = model, max_cost_micros
        self._models: dict[str, ModelFacts] = {
            name: facts_with(openai_facts(name), caps, f"models[{name!r}]")
            for name, caps in (models or {}).items()
        }
        if pricing is not None:
            if model is None:
                raise ConfigError("pricing: name the model that it is for: model=", data={"field": "pricing"})
            self._models[model] = facts_with(self.facts(model), {"pricing": pricing}, "pricing")
        self._ids = CallIds("call_")
        self._clients = SdkClients(
            "openai",
            lambda sdk: sdk.AsyncOpenAI,
            {
                "api_key": api_key,
                "base_url": base_url,
                "timeout": timeout_s,
                "default_headers": None if headers is None else dict(headers),
            },
            transport,
            client,
        )

    def model(self, name: str) -> BoundModel:
        """Return one of the adapter's models, for ``Agent(model=...)``."""
        return BoundModel(self, name)

    def facts(self, model: str) -> ModelFacts:
        """Return what is known of a model."""
        return self._models.get(model) or openai_facts(model)

    def caps(self, model: str) -> ModelCaps:
        """Return what a model can do."""
        return self.facts(model).caps

    def build_request(self, request: ChatRequest | Mapping[str, Any]) -> dict[str, Any]:
        """Return the body that a request is sent with. Nothing is sent.

        Raises:
            ConfigError: the request cannot be sent to this provider.
        """
        asked = request if isinstance(request, ChatRequest) else ChatRequest.from_wire(request)
        return encode_request(asked, self._ids, self.facts(asked.model))

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange."""
        decoder = ResponsesDecoder(self._ids, downmapped=is_downmapped(request, self.facts(request.model)))
        return Exchange(
            lambda: self.build_request(request),
            self._open,
            decoder,
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
        check_agent_shape(tools, output, media, ("image/", PDF))

    def credentials(self) -> list[str]:
        """Return the credentials that requests carry: no recording may hold them, whoever repeats them."""
        return self._clients.credentials()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        await self._clients.aclose()

    def _open(self, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        return self._clients.exchange(
            lambda client: client.responses.with_streaming_response.create(
                model=body["model"], input=[], stream=True, extra_body=dict(body)
            )
        )

    def _fault(self, error: BaseException) -> WireError | None:
        return sdk_fault(error, self._clients.secrets())
