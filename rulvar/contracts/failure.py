"""Why a provider did not answer, in one word of a closed set."""

from __future__ import annotations

from typing import Any

__all__ = ["failure_reason"]

_REASONS = {
    401: "authentication",
    402: "rate_limited",
    403: "authentication",
    408: "unavailable",
    429: "rate_limited",
}
_NAMED_REASONS = frozenset({"configuration", "invalid_response", "timeout"})


def failure_reason(error: Any) -> str:
    """Return why a provider did not answer, from an error or its data.

    One of ``authentication``, ``rate_limited``, ``unavailable``, ``timeout``, ``rejected``, ``refused``,
    ``invalid_response`` and ``configuration``.
    """
    data: dict[str, Any] = getattr(error, "data", None) or {}
    status, named = data.get("status"), data.get("reason")
    if isinstance(status, int):
        return _REASONS.get(status) or ("unavailable" if status >= 500 else "rejected")
    if data.get("timeout"):
        return "timeout"
    if named in _NAMED_REASONS:
        return str(named)
    if named in ("refusal", "context-window-exceeded") or data.get("refusal"):
        return "refused"
    if data.get("kind") == "rate-limit":
        return "rate_limited"
    return "unavailable" if data.get("kind") == "transport" else "invalid_response"
