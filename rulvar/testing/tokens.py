"""Tokens of a test's options: those that nothing in the run asks for are refused."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rulvar.errors import ConfigError
from rulvar.tools.tool import Tool

__all__ = ["check_tokens"]


def check_tokens(
    named: Iterable[tuple[str, Any]], tools: Mapping[str, Tool], tokens: Collection[Any]
) -> None:
    """Check what options name.

    Args:
        named: option and token: a tool, the id or name of one, or what ``inject`` asks for.
        tools: the tools that the run may call, by id.
        tokens: what ``inject`` asks for in them and in the machines.

    Raises:
        ConfigError: nothing asks for a token; names it, and lists what there is.
    """
    names = {*tools, *(item.name for item in tools.values())}
    for option, token in named:
        if token in tokens or (token.id in tools if isinstance(token, Tool) else token in names):
            continue
        told = _told(token)
        if isinstance(token, (str, Tool)):
            problem = f"no tool of the run is named {told!r}"
        else:
            problem = f"nothing in the run asks for {told}"
        near = difflib.get_close_matches(told, sorted(names), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        asked = ", ".join(sorted(map(_told, tokens)))
        services = f"; services: {asked}" if asked else ""
        raise ConfigError(
            f"{option}: {problem}; tools: {', '.join(sorted(tools)) or 'none'}{services}{hint}",
            data={"field": option, "token": told},
        )


def _told(token: Any) -> str:
    if isinstance(token, Tool):
        return token.id
    return token if isinstance(token, str) else getattr(token, "__qualname__", repr(token))
