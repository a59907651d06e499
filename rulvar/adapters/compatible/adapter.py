"""Endpoints that speak OpenAI's Chat Completions dialect: Ollama, vLLM, gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from rulvar.adapters.acceptance import check_agent_shape
from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.catalogue import COMPATIBLE_CAPS, ModelFacts, facts_with
from rulvar.adapters.compatible.decode import ChatDecoder
from rulvar.adapters.compatible.encode import encode_request
from rulvar.adapters.exchange import Exchange
from rulvar.adapters.identity import BoundModel, check_adapter_id, check_base_url
from rulvar.adapters.sdk import SdkClients, sdk_fault
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest, ToolContract
from rulvar.contracts.stream import ChatEvent, WireError

__all__ = ["CompatibleAdapter", "openai_compatible"]

NO_KEY = "rulvar-no-key"
Caps = ModelCaps | Mapping[str, Any]


class CompatibleAdapter:
    """One endpoint of the Chat Completions dialect, over OpenAI's SDK; made by :func:`openai_compatible`."""

    provider = "openai"

    def __init__(
        self,
        id: str,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        max_cost_micros: int | None = None,
        caps: Caps | Callable[[str], Caps | None] | None = None,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Any = None,
        client: Any = None,
    ) -> None:
        self.id = check_adapter_id(id)
        if client is None:
            check_base_url(base_url or "")
        self.default_model, self.max_cost_micros = model, max_cost_micros
        self._caps = caps
        if caps is not None and not callable(caps):
            facts_with(_LEAST, caps, "caps")
        self._ids = CallIds("call_")
        self._clients = SdkClients(
            "openai",
            lambda sdk: sdk.AsyncOpenAI,
            {
                "api_key": api_key or NO_KEY,  # the SDK wants one even where the endpoint wants none
                "base_url": base_url,
                "timeout": timeout_s,
                "default_headers": None if headers is None else dict(headers),
            },
            transport,
            client,
        )

    def model(self, name: str) -> BoundModel:
        """Return one of the endpoint's models, for ``Agent(model=...)``."""
        return BoundModel(self, name)

    def caps(self, model: str) -> ModelCaps:
        """Return what a model can do: what was declared, over the least that an endpoint can do."""
        declared = self._caps(model) if callable(self._caps) else self._caps
        return facts_with(_LEAST, declared, "caps").caps

    def build_request(self, request: ChatRequest | Mapping[str, Any]) -> dict[str, Any]:
        """Return the body that a request is sent with. Nothing is sent.

        Raises:
            ConfigError: the request cannot be sent to this endpoint.
        """
        asked = request if isinstance(request, ChatRequest) else ChatRequest.from_wire(request)
        return encode_request(asked, self._ids, self.caps(asked.model), self.id)

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange."""
        decoder = ChatDecoder(self._ids, priced=_has_price(self.caps(request.model)))
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
        """Check that the endpoint takes an agent's tools, answer and media. Nothing is sent.

        Raises:
            ConfigError: it does not; names the tool and the field.
        """
        check_agent_shape(tools, output, media, ("image/",))

    def credentials(self) -> list[str]:
        """Return the credentials that requests carry: no recording may hold them, whoever repeats them."""
        return self._clients.credentials()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        await self._clients.aclose()

    def _open(self, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        return self._clients.exchange(
            lambda client: client.chat.completions.with_streaming_response.create(
                model=body["model"], messages=[], stream=True, extra_body=dict(body)
            )
        )

    def _fault(self, error: BaseException) -> WireError | None:
        return sdk_fault(error, self._clients.secrets())


_LEAST = ModelFacts(caps=COMPATIBLE_CAPS)


def _has_price(caps: ModelCaps) -> bool:
    pricing = caps.pricing
    return pricing is not None and (pricing.input_usd_per_m_tok > 0 or pricing.output_usd_per_m_tok > 0)


def openai_compatible(
    id: str,
    base_url: str,
    *,
    api_key: str | None = None,
    model: str | None = None,
    max_cost_micros: int | None = None,
    caps: Caps | Callable[[str], Caps | None] | None = None,
    timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    transport: Any = None,
    client: Any = None,
) -> CompatibleAdapter:
    """Return an adapter for an endpoint that speaks the Chat Completions dialect.

    Args:
        id: adapter id; several endpoints may stand in one engine. It is also the namespace of the
            request options temperature, top_p, seed, frequency_penalty and presence_penalty.
        base_url: address of the endpoint, up to and with ``/v1``.
        api_key: for endpoints that want one.
        model, max_cost_micros: as in ``OpenAIAdapter``.
        caps: what its models can do, for all of them or by model; single fields refine the least that
            an endpoint can do (answers by prompt, one tool at a time, a window of 8,192 tokens).
        timeout_s, headers, transport, client: as in ``OpenAIAdapter``.

    Raises:
        ConfigError: an option is wrong, or the extra ``openai`` is not installed.
    """
    return CompatibleAdapter(
        id,
        base_url,
        api_key=api_key,
        model=model,
        max_cost_micros=max_cost_micros,
        caps=caps,
        timeout_s=timeout_s,
        headers=headers,
        transport=transport,
        client=client,
    )
