"""The Responses API of OpenAI behind the adapter seam."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from rulvar.adapters.catalogue import KnownModels, has_price, openai_facts
from rulvar.adapters.identity import check_base_url
from rulvar.adapters.images import PDF
from rulvar.adapters.namespace import own_options
from rulvar.adapters.openai.decode import ResponsesDecoder
from rulvar.adapters.openai.encode import FAMILY, encode_request, is_downmapped
from rulvar.adapters.sdk_adapter import SUBSETS, SdkAdapter
from rulvar.contracts.capabilities import ModelCaps, ModelPricing
from rulvar.contracts.messages import ChatRequest

__all__ = ["OpenAIAdapter"]


class OpenAIAdapter(SdkAdapter):
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

    Request options in ``provider_options={"openai": {...}}``, or under the adapter's own id: temperature,
    top_p, verbosity, reasoningEffort.

    Raises:
        ConfigError: an option is wrong, or the extra ``openai`` is not installed.
    """

    provider = FAMILY
    usage_semantics = SUBSETS
    media = ("image/", PDF)

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
        check_base_url(base_url)
        self.facts = KnownModels(openai_facts, models, model, pricing)
        super().__init__(
            id,
            sdk="openai",
            make=lambda sdk: sdk.AsyncOpenAI,
            id_prefix="call_",
            model=model,
            max_cost_micros=max_cost_micros,
            api_key=api_key,
            base_url=base_url,
            timeout_s=timeout_s,
            headers=headers,
            transport=transport,
            client=client,
        )

    def caps(self, model: str) -> ModelCaps:
        """Return what a model can do."""
        return self.facts(model).caps

    def encode(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body that a request is sent with."""
        return encode_request(request, self._ids, self.facts(request.model), self._options(request))

    def decoder(self, request: ChatRequest) -> ResponsesDecoder:
        """Return what reads the answer to a request."""
        facts = self.facts(request.model)
        downmapped = is_downmapped(request, facts, self._options(request))
        return ResponsesDecoder(self._ids, downmapped=downmapped, priced=has_price(facts.caps))

    def send(self, client: Any, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Send a body; it goes whole through ``extra_body``."""
        sent: AbstractAsyncContextManager[Any] = client.responses.with_streaming_response.create(
            model=body["model"], input=[], stream=True, extra_body=dict(body)
        )
        return sent

    def _options(self, request: ChatRequest) -> Mapping[str, Any]:
        return own_options(request, self.id, FAMILY)
