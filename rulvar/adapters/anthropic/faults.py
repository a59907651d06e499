"""Failures of the Messages API that come inside a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.adapters.faults import provider_text
from rulvar.contracts.stream import WireError

__all__ = ["stream_fault"]

_FINAL = frozenset(
    {
        "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
        "request_too_large", "billing_error",
    }
)  # fmt: skip
_PRIVATE = frozenset({"authentication_error", "permission_error"})


def stream_fault(error: Any) -> WireError:
    """Return the failure that an error event tells of; only what cannot change is final."""
    facts: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    kind = facts.get("type")
    said = None if kind in _PRIVATE else provider_text(facts.get("message"))
    named = kind if isinstance(kind, str) and len(kind) <= 64 else "error"
    return WireError(
        code="agent",
        message=said or f"the provider ended the answer with {named}",
        retryable=kind not in _FINAL,
        data={"kind": "rate-limit" if kind == "rate_limit_error" else "transport"},
    )
