"""Endpoints that speak OpenAI's Chat Completions dialect: Ollama, vLLM, gateways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from rulvar.adapters.catalogue import COMPATIBLE_CAPS, ModelFacts, facts_with, has_price
from rulvar.adapters.compatible.decode import ChatDecoder
from rulvar.adapters.compatible.encode import encode_request
from rulvar.adapters.identity import check_base_url
from rulvar.adapters.sdk_adapter import SUBSETS, SdkAdapter
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest

__all__ = ["CompatibleAdapter", "openai_compatible"]

NO_KEY = "rulvar-no-key"
Caps = ModelCaps | Mapping[str, Any]


class CompatibleAdapter(SdkAdapter):
    """One endpoint of the Chat Completions dialect, over OpenAI's SDK; made by :func:`openai_compatible`."""

    provider = "openai"
    usage_semantics = SUBSETS
    media = ("image/",)

    def __init__(
        self,
        id: str,
        base_url: str,
        *,
        api_key: str | None = None,
        caps: Caps | Callable[[str], Caps | None] | None = None,
        client: Any = None,
        **options: Any,
    ) -> None:
        if client is None:
            check_base_url(base_url or "")
        self._caps = caps
        if caps is not None and not callable(caps):
            facts_with(_LEAST, caps, "caps")
        super().__init__(
            id,
            sdk="openai",
            make=lambda sdk: sdk.AsyncOpenAI,
            id_prefix="call_",
            # the SDK wants a key even where the endpoint wants none; a ready client has its own address
            api_key=api_key or (NO_KEY if client is None else None),
            base_url=base_url if client is None else None,
            client=client,
            **options,
        )

    def caps(self, model: str) -> ModelCaps:
        """Return what a model can do: what was declared, over the least that an endpoint can do."""
        declared = self._caps(model) if callable(self._caps) else self._caps
        return facts_with(_LEAST, declared, "caps").caps

    def encode(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body that a request is sent with."""
        return encode_request(request, self._ids, self.caps(request.model), self.id)

    def decoder(self, request: ChatRequest) -> ChatDecoder:
        """Return what reads the answer to a request."""
        return ChatDecoder(self._ids, priced=has_price(self.caps(request.model)))

    def send(self, client: Any, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Send a body; it goes whole through ``extra_body``."""
        sent: AbstractAsyncContextManager[Any] = client.chat.completions.with_streaming_response.create(
            model=body["model"], messages=[], stream=True, extra_body=dict(body)
        )
        return sent


_LEAST = ModelFacts(caps=COMPATIBLE_CAPS)


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
