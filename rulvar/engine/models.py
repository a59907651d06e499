"""The models that a run may call: those that its workflows bring, and the engine's."""

from __future__ import annotations

from collections.abc import Iterable

from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.ports.provider import Adapter
from rulvar.engine.registries import Registries

__all__ = ["RunModels"]


class RunModels:
    """Finds adapters and prices for one run; what its workflow brings wins over the engine's."""

    def __init__(self, registries: Registries, adapters: Iterable[Adapter] = ()) -> None:
        self._registries = registries
        self._own: dict[str, Adapter] = {}
        self._prices: dict[str, ModelPricing] = {}
        self.bring(adapters)

    def bring(self, adapters: Iterable[Adapter]) -> None:
        """Add the adapters of a child workflow, behind those that are there."""
        for adapter in adapters:
            if adapter.id not in self._own:
                self._own[adapter.id] = self._registries.wrap_adapter(adapter)

    def adapter(self, adapter_id: str) -> Adapter:
        """Return an adapter by id.

        Raises:
            ConfigError: no adapter has that id.
        """
        return self._own.get(adapter_id) or self._registries.adapter(adapter_id)

    def price_of(self, reference: str) -> ModelPricing | None:
        """Return the price of a model reference, or None when nothing knows one; a run is billed at one price."""
        price = self._prices.get(reference)
        if price is None:
            adapter_id, _, model = reference.partition(":")
            own = self._own.get(adapter_id)
            price = self._registries.price_of(reference) if own is None else own.caps(model).pricing
            if price is not None:
                self._prices[reference] = price
        return price
