"""The part of a request that is meant for one adapter alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.contracts.messages import ChatRequest
from rulvar.errors import ConfigError

__all__ = ["own_options"]


def own_options(request: ChatRequest, *names: str) -> Mapping[str, Any]:
    """Return the options under the first of an adapter's names that has any.

    Args:
        names: the adapter's id, and its family where adapters of one family share their options.

    Raises:
        ConfigError: what stands there is no object; names it.
    """
    given = request.provider_options or {}
    for name in names:
        options = given.get(name)
        if options is None:
            continue
        if not isinstance(options, Mapping):
            raise ConfigError(
                f"providerOptions.{name}: expected an object, got {type(options).__name__}",
                data={"field": f"providerOptions.{name}"},
            )
        return options
    return {}
