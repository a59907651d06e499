"""A named set of tools, and its identity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rulvar.contracts.messages import ToolContract
from rulvar.errors import ConfigError
from rulvar.tools.tool import Tool

__all__ = ["Toolset"]


class Toolset:
    """Tools by name, in the order in which the model is told of them.

    Raises:
        ConfigError: two tools of one name, or something that is not a tool.
    """

    __slots__ = ("_tools", "contracts")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            if not isinstance(item, Tool):
                raise ConfigError(
                    f"tools: expected a tool made by @tool, got {type(item).__name__}",
                    data={"field": "tools"},
                )
            if item.name in self._tools:
                raise ConfigError(f"tools: two tools are named {item.name!r}", data={"field": "tools"})
            self._tools[item.name] = item
        self.contracts: tuple[ToolContract, ...] = tuple(item.contract for item in self._tools.values())

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name."""
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)
