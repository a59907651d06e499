"""Model turns in a tool fixture: ``replay_tools=["model"]`` makes the models the boundary."""

from __future__ import annotations

from typing import Any

__all__ = ["bound_models"]


def bound_models(adapters: list[Any], plan: Any) -> list[Any]:
    return adapters
