"""Who is asked: the id of an adapter, the part of a model reference before the first colon; where; and one of its models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["BoundModel", "check_adapter_id", "check_base_url"]


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


def check_base_url(address: object) -> None:
    """Check the address of an endpoint; None is the provider's own.

    Raises:
        ConfigError: it is no http address.
    """
    if address is not None and not str(address).lower().startswith(("http://", "https://")):
        raise ConfigError(
            "base_url: expected an address that begins with http:// or https://, for instance "
            "'http://localhost:11434/v1'",
            data={"field": "base_url"},
        )
