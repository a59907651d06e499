"""Grants: a flat list of what may be used; with grants in force, what is not listed is refused."""

from __future__ import annotations

from collections.abc import Iterable

from rulvar.errors import ConfigError
from rulvar.tools.tool import Tool

__all__ = ["check_grants", "missing_grant", "narrow_grants", "tool_grants"]

_MOST, _LONGEST = 4096, 256


def tool_grants(tool: Tool) -> list[str]:
    """Return the grants that a call of a tool needs: the tool's own, its capabilities, its effects."""
    effects = [] if tool.effects == "none" else [f"effect:{tool.effects}"]
    return [f"tool:{tool.id}", *tool.capabilities, *effects]


def missing_grant(grants: frozenset[str] | None, tool: Tool) -> str | None:
    """Return the first grant that a call lacks; None when nothing lacks, or no grants are in force."""
    if grants is None:
        return None
    return next((grant for grant in tool_grants(tool) if grant not in grants), None)


def narrow_grants(outer: frozenset[str] | None, inner: frozenset[str] | None) -> frozenset[str] | None:
    """Return what is granted by both; None grants everything."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    return outer & inner


def check_grants(grants: Iterable[str] | None) -> frozenset[str] | None:
    """Return a list of grants as a set.

    Raises:
        ConfigError: not a list of texts, too many, or one that is too long.
    """
    if grants is None:
        return None
    if isinstance(grants, str) or not isinstance(grants, Iterable):
        told = "one text" if isinstance(grants, str) else type(grants).__name__
        raise ConfigError(f"grants: expected a list of texts, got {told}", data={"field": "grants"})
    given = list(grants)
    if len(given) > _MOST:
        raise ConfigError(f"grants: {len(given)} are more than {_MOST}", data={"field": "grants"})
    for number, grant in enumerate(given):
        if not isinstance(grant, str) or not 0 < len(grant) <= _LONGEST:
            raise ConfigError(
                f"grants[{number}]: expected a text of 1 to {_LONGEST} characters, got {grant!r}",
                data={"field": f"grants[{number}]"},
            )
    return frozenset(given)
