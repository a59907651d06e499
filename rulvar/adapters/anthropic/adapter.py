"""The Messages API of Anthropic behind the adapter seam."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from rulvar.adapters.anthropic.decode import DEFAULT_PAUSES, MessagesDecoder
from rulvar.adapters.anthropic.encode import FAMILY, encode_request
from rulvar.adapters.catalogue import KnownModels, anthropic_facts, has_price
from rulvar.adapters.identity import check_base_url
from rulvar.adapters.images import PDF
from rulvar.adapters.namespace import own_options
from rulvar.adapters.sdk_adapter import ADDITIVE, SdkAdapter
from rulvar.contracts.capabilities import ModelCaps, ModelPricing
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.usage import is_token_count
from rulvar.errors import ConfigError

__all__ = ["AnthropicAdapter"]

_VERSION = "2023-06-01"
"""The API that requests are written for and answers are read as, whatever a later SDK asks for by itself."""
_SENT = frozenset({"anthropic-version", "x-api-key", "authorization"})


class AnthropicAdapter(SdkAdapter):
    """Models of Anthropic, over the official SDK. The engine owns retries: the SDK makes none.

    Args:
        api_key: default: the environment variable ANTHROPIC_API_KEY.
        id: adapter id, when an engine has several of them.
        model: what an agent that is given this adapter uses; ``adapter.model("name")`` chooses another.
        pricing: prices of that model, over those of the catalogue.
        max_cost_micros: what one call may cost at most, in micro-USD; an agent promises that much per call.
        base_url: another endpoint of the same API.
        models: model to capabilities that replace or refine those of the catalogue.
        timeout_s: how long to wait for bytes, in seconds.
        headers: further request headers; a version or a credential among them replaces the adapter's own.
        transport: an async httpx transport that carries every request; for tests and proxies.
        client: a ready ``AsyncAnthropic`` to use instead of all of the above.

    Request options in ``provider_options={"anthropic": {...}}``, or under the adapter's own id: temperature,
    top_p, top_k, thinking, thinkingDisplay, task_budget, pauseTurnMaxContinuations.

    Raises:
        ConfigError: an option is wrong, or the extra ``anthropic`` is not installed.
    """

    provider = FAMILY
    usage_semantics = ADDITIVE
    media = ("image/", PDF)

    def __init__(
        self,
        *,
        api_key: str | None = None,
        id: str = "anthropic",
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
        self.facts = KnownModels(anthropic_facts, models, model, pricing)
        own = {name.lower() for name in headers or ()}
        self._is_plain = client is None and own.isdisjoint(_SENT)
        super().__init__(
            id,
            sdk="anthropic",
            make=lambda sdk: sdk.AsyncAnthropic,
            id_prefix="toolu_",
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

    def decoder(self, request: ChatRequest) -> MessagesDecoder:
        """Return what reads the answer to a request, with its continuations after a pause.

        Raises:
            ConfigError: how often it may be continued is no count.
        """
        return MessagesDecoder(
            self._ids, _pauses(self._options(request)), priced=has_price(self.caps(request.model))
        )

    def send(self, client: Any, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Send a body."""
        # the body goes whole through extra_body; the SDK warns of models that are near their end, which
        # must not end a run where warnings are errors, and only clients of other clouds need the name
        named = body["model"] if self._clients.is_given else ""
        sent: AbstractAsyncContextManager[Any] = client.messages.with_streaming_response.create(
            model=named,
            max_tokens=body["max_tokens"],
            messages=[],
            stream=True,
            extra_body=dict(body),
            extra_headers=self._headers(client),
        )
        return sent

    async def count_tokens(self, request: ChatRequest) -> int:
        """Return how many input tokens a request has, as the provider counts them."""
        body = self.build_request(request)
        kept = {name: body[name] for name in ("messages", "system", "tools") if name in body}
        client = self._clients.client()
        counted = await client.messages.count_tokens(
            model=body["model"], messages=[], extra_body=kept, extra_headers=self._headers(client)
        )
        return int(counted.input_tokens)

    def _options(self, request: ChatRequest) -> Mapping[str, Any]:
        return own_options(request, self.id, FAMILY)

    def _headers(self, client: Any) -> dict[str, Any]:
        """Return the version of the API, and the key as that version takes it."""
        if not self._is_plain:
            return {}
        key, token = client.api_key, client.auth_token
        if not key or token:
            return {"anthropic-version": _VERSION}
        return {"anthropic-version": _VERSION, "X-Api-Key": key, "Authorization": self._clients.omitted()}


def _pauses(options: Mapping[str, Any]) -> int:
    """Return how often an answer may be continued: every continuation is a paid request."""
    pauses = options.get("pauseTurnMaxContinuations")
    if pauses is None:
        return DEFAULT_PAUSES
    if not is_token_count(pauses):
        raise ConfigError(
            f"providerOptions.anthropic.pauseTurnMaxContinuations: expected a whole number from 0, got {pauses!r}",
            data={"field": "providerOptions.anthropic.pauseTurnMaxContinuations"},
        )
    return int(pauses)
