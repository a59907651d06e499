"""The gate: the ordered decision before a tool acts.

Deny rules come first, then ask rules, then allow rules (which also clear a tool that needs
approval), then the default: a tool that needs approval asks, any other gets the default verdict. A rule is a tool's name, or a name with ``*`` as a wildcard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from rulvar.errors import ConfigError
from rulvar.tools.tool import Tool

__all__ = ["Decision", "Permissions", "decide"]

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Rules of the gate; an unlisted tool gets the default."""

    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    default: Verdict = "allow"

    @classmethod
    def of(cls, rules: Permissions | Mapping[str, Any] | None) -> Permissions:
        """Return permissions from a mapping with ``deny``, ``ask``, ``allow`` and ``default``.

        Raises:
            ConfigError: an unknown field, or a value of the wrong type.
        """
        if rules is None:
            return cls()
        if isinstance(rules, Permissions):
            return rules
        unknown = sorted(set(rules) - {"deny", "ask", "allow", "default"})
        if unknown:
            raise ConfigError(
                f"permissions.{unknown[0]}: unknown field; use deny, ask, allow, default",
                data={"field": f"permissions.{unknown[0]}"},
            )
        default = rules.get("default", "allow")
        if default not in ("allow", "ask", "deny"):
            raise ConfigError(
                "permissions.default: use allow, ask or deny", data={"field": "permissions.default"}
            )
        return cls(
            deny=_names(rules, "deny"),
            ask=_names(rules, "ask"),
            allow=_names(rules, "allow"),
            default=default,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate says, and which of its rules said it."""

    verdict: Verdict
    decided_by: str
    reason: str | None = None


def decide(permissions: Permissions, tool: Tool) -> Decision:
    """Return the gate's decision on a call of a tool."""
    if rule := _match(permissions.deny, tool.name):
        return Decision("deny", "deny", f"denied by rule {rule!r}")
    if _match(permissions.ask, tool.name):
        return Decision("ask", "ask")
    if _match(permissions.allow, tool.name):
        return Decision("allow", "allow")
    if tool.needs_approval:
        return Decision("ask", "default")
    return Decision(permissions.default, "default")


def _match(rules: Sequence[str], name: str) -> str | None:
    return next((rule for rule in rules if fnmatchcase(name, rule)), None)


def _names(rules: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = rules.get(field, ())
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise ConfigError(
            f"permissions.{field}: expected a list of tool names", data={"field": f"permissions.{field}"}
        )
    return tuple(value)
