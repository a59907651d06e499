"""Failures of OpenAI's APIs that come inside a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.adapters.faults import provider_text
from rulvar.contracts.stream import WireError

__all__ = ["chunk_fault", "stream_fault"]

_RATE_LIMIT = "rate_limit_exceeded"
_PRIVATE = frozenset({"invalid_api_key", "authentication_error", "permission_error"})


def stream_fault(code: Any, message: Any) -> WireError:
    """Return the failure that an answer of the Responses API ends with.

    Only codes that are known to pass are tried again: an unknown one may be for ever, and every try is paid.
    """
    named = code if isinstance(code, str) and len(code) <= 64 else None
    limited = named == _RATE_LIMIT
    transient = named is not None and (named == "server_error" or named.endswith("_timeout"))
    said = None if named in _PRIVATE else provider_text(message)
    data: dict[str, Any] = {"kind": "rate-limit" if limited else "transport"}
    if named is not None:
        data["providerCode"] = named
    return WireError(
        code="agent",
        message=said or f"the provider ended the answer with {named or 'an error'}",
        retryable=limited or transient,
        data=data,
    )


def chunk_fault(error: Any) -> WireError:
    """Return the failure that a stream of chunks ends with: a broken stream, whatever its endpoint calls it.

    Endpoints share no codes, and a request that began to be answered was no wrong one.
    """
    facts: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    named = {facts.get(name) for name in ("code", "type") if isinstance(facts.get(name), str)}
    said = None if named & _PRIVATE else provider_text(facts.get("message"))
    return WireError(
        code="agent",
        message=said or "the provider ended the answer with an error",
        retryable=True,
        data={"kind": "transport"},
    )
