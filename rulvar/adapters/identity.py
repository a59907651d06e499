"""Adapter ids: the part of a model reference before the first colon."""

from __future__ import annotations

from rulvar.errors import ConfigError

__all__ = ["check_adapter_id"]


def check_adapter_id(adapter_id: object) -> str:
    """Return an adapter id.

    Raises:
        ConfigError: not a nonempty text without a colon.
    """
    if isinstance(adapter_id, str) and adapter_id and ":" not in adapter_id:
        return adapter_id
    raise ConfigError(
        f"id: expected a nonempty text without a colon, got {adapter_id!r}", data={"field": "id"}
    )
