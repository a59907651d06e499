"""The options that tests of machines and tools share: what they may be, and what is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rulvar.errors import ConfigError
from rulvar.machines.app import App

__all__ = ["read_adapters", "read_apps", "read_overrides", "read_scope"]


def read_apps(apps: Any) -> tuple[App, ...]:
    """Return apps as a tuple; one alone may be given as it is.

    Raises:
        ConfigError: something that is no app; names it.
    """
    given = (apps,) if isinstance(apps, App) else apps
    if isinstance(given, (str, type)) or not isinstance(given, Iterable):
        raise ConfigError(f"apps: expected a list of apps, got {_told(apps)}", data={"field": "apps"})
    found = tuple(given)
    for number, app in enumerate(found):
        if not isinstance(app, App):
            raise ConfigError(
                f"apps[{number}]: expected an App, got {_told(app)}; machines and documents are listed in "
                "App(name, machines=[...], documents=[...])",
                data={"field": f"apps[{number}]"},
            )
    return found


def read_overrides(overrides: Any) -> Mapping[Any, Any]:
    """Return overrides by token; a list of ``(token, value)`` pairs may be given too.

    Raises:
        ConfigError: neither.
    """
    if overrides is None or isinstance(overrides, Mapping):
        return overrides or {}
    pairs: list[Any] = list(overrides) if isinstance(overrides, (list, tuple)) else [None]
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ConfigError(
            f"overrides: expected a mapping of tokens to values, got {_told(overrides)}",
            data={"field": "overrides"},
        )
    return dict(pairs)


def read_adapters(models: Any) -> list[Any]:
    """Return adapters as a list; one alone may be given as it is.

    Raises:
        ConfigError: something that is no adapter.
    """
    if callable(getattr(models, "stream", None)):
        return [models]
    if isinstance(models, (str, Mapping)) or not isinstance(models, Iterable):
        raise ConfigError(
            f"models: expected an adapter, or a list of adapters, got {_told(models)}",
            data={"field": "models"},
        )
    return list(models)


def read_scope(scope: Any) -> Mapping[str, Any] | None:
    """Return a scope as it is.

    Raises:
        ConfigError: it is no mapping.
    """
    if scope is not None and not isinstance(scope, Mapping):
        raise ConfigError(f"scope: expected a mapping, got {_told(scope)}", data={"field": "scope"})
    return scope


def _told(value: Any) -> str:
    return f"the class {value.__qualname__}" if isinstance(value, type) else type(value).__name__
