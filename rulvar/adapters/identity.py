"""Who is asked: the id of an adapter, the part of a model reference before the first colon; and one of its models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["BoundModel", "check_adapter_id"]


@dataclass(frozen=True, slots=True)
class BoundModel:
    """One model of an adapter."""

    adapter: Any
    name: str

    @property
    def reference(self) -> str:
        """``adapter:model``."""
        return f"{self.adapter.id}:{self.name}"


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
