"""Failures of OpenAI's APIs that come inside a stream."""

from __future__ import annotations

from typing import Any

from rulvar.adapters.faults import provider_text
from rulvar.contracts.stream import WireError

__all__ = ["stream_fault"]

_RATE_LIMITS = frozenset({"rate_limit_exceeded", "rate_limit_error"})
_PRIVATE = frozenset({"invalid_api_key", "authentication_error", "permission_error"})
_TRANSIENT = frozenset({"server_error", "overloaded_error", "internal_error", "service_unavailable"})


def stream_fault(code: Any, message: Any) -> WireError:
    """Return the failure that a stream tells of.

    Only codes that are known to pass are tried again: an unknown one may be for ever, and every try is paid.
    """
    named = code if isinstance(code, str) and len(code) <= 64 else None
    limited = named in _RATE_LIMITS
    transient = named is not None and (named in _TRANSIENT or named.endswith("_timeout"))
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
