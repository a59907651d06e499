"""What the tools and machines of an engine are provided with: services, and stand-ins for tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rulvar.errors import ConfigError
from rulvar.tools.tool import Tool

__all__ = ["Providers"]


class Providers:
    """Values by token: a class, a tool, an id, or any object.

    Args:
        items: a mapping of tokens to values, or a list of instances (each is provided under its class and
            the classes it derives from), tools (under their ids) and ``(token, value)`` pairs.
        overrides: wins over ``items``, everywhere in the run tree.

    Raises:
        ConfigError: an item that is none of these.
    """

    def __init__(
        self, items: Mapping[Any, Any] | Iterable[Any] = (), overrides: Mapping[Any, Any] | None = None
    ) -> None:
        self._values: dict[Any, Any] = {}
        self._tools: dict[str, Tool] = {}
        self.asked: set[Any] = set()
        if isinstance(items, Mapping):
            self._values.update(items)
        elif isinstance(items, str) or not isinstance(items, Iterable):
            raise ConfigError(
                f"providers: expected a mapping or a list, got {type(items).__name__}",
                data={"field": "providers"},
            )
        else:
            for number, item in enumerate(items):
                self._add(item, number)
        self._values.update(overrides or {})
        self._doubles = {token.id: value for token, value in self._values.items() if isinstance(token, Tool)}

    def provide(self, token: Any) -> Any:
        """Return the value of a token.

        Raises:
            ConfigError: nothing is provided under it; lists what is.
        """
        self.asked.add(token)
        if token in self._values:
            return self._values[token]
        known = ", ".join(sorted(_name(item) for item in self._values)) or "none"
        raise ConfigError(
            f"nothing is provided for {_name(token)}; providers: {known}", data={"field": "providers"}
        )

    def double(self, tool: Tool) -> Any:
        """Return what stands in for a tool, or None."""
        if not self._values:
            return None
        for token in (tool, tool.id, tool.name):
            if token in self._values:
                self.asked.add(token)
                return self._values[token]
        return self._doubles.get(tool.id)  # the same tool under another name, or with a check in front

    def tool(self, name: str) -> Tool:
        """Return a tool by id or name.

        Raises:
            ConfigError: no such tool is provided.
        """
        found = self._tools.get(name)
        if found is None:
            known = ", ".join(sorted(self._tools)) or "none"
            raise ConfigError(f"no tool named {name!r} is provided; tools: {known}", data={"field": "tool"})
        return found

    def tools(self) -> list[Tool]:
        """Return the tools that are provided, each once."""
        return list({id(item): item for item in self._tools.values()}.values())

    def _add(self, item: Any, number: int) -> None:
        if isinstance(item, Tool):
            self._tools[item.id] = self._tools[item.name] = item
        elif isinstance(item, tuple) and len(item) == 2:
            self._values[item[0]] = item[1]
        elif hasattr(item, "__workflow__"):
            pass  # a machine needs no provider; it may be listed beside what it uses
        elif isinstance(item, type) or item is None:
            raise ConfigError(
                f"providers[{number}]: pass an instance, a tool or a (token, value) pair, not {item!r}",
                data={"field": f"providers[{number}]"},
            )
        else:
            for kind in type(item).__mro__[:-1]:
                self._values.setdefault(kind, item)


def _name(token: Any) -> str:
    if isinstance(token, Tool):
        return token.id
    return token.__name__ if isinstance(token, type) else str(token)
