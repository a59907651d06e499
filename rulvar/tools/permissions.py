"""The rules of the gate, as data."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from rulvar.errors import ConfigError
from rulvar.tools.tool import Risk, Tool

__all__ = ["PRESETS", "Decision", "Permissions", "Rule", "ToolRequest", "Verdict", "read_only"]

Verdict = Literal["allow", "ask", "deny"]
_VERDICTS = get_args(Verdict)
_RISKS = (*get_args(Risk), "undeclared")
_RULE = re.compile(r"([^()\s]+)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call that the gate decides on.

    Attributes:
        tool: what the model calls.
        args: the arguments, a copy.
        run_id: the run; empty in a dry run outside one.
        agent_type: who calls.
        dry_run: whether nobody is going to act on the decision.
    """

    tool: Tool
    args: Any
    run_id: str = ""
    agent_type: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate says, which of its steps said it, and why.

    Attributes:
        verdict: ``allow``, ``ask`` (a human decides) or ``deny``.
        decided_by: ``hook``, ``deny``, ``ask``, ``allow``, ``can_use_tool`` or ``default``.
        reason: told to the model when the call is denied.
    """

    verdict: Verdict
    decided_by: str
    reason: str | None = None


Decider = Callable[[ToolRequest], "Verdict | Decision | Awaitable[Verdict | Decision | None] | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Which calls a rule is about.

    Written ``name`` (``*`` in it stands for any text), ``name(git log *)`` for the command lines that
    the call runs, or ``{"tool": ..., "argv": ..., "risk": ...}``.

    Attributes:
        tool: pattern of the tool's name.
        argv: pattern of the words of a command; see ``rulvar.tools.shell.match_argv``.
        risk: the tool's declared risk; ``undeclared`` is that of a tool that declares none.
    """

    tool: str = "*"
    argv: str | None = None
    risk: Risk | Literal["undeclared"] | None = None

    def __post_init__(self) -> None:
        if self.risk == "exec":
            object.__setattr__(self, "risk", "execute")

    def covers(self, tool: Tool) -> bool:
        """Whether the rule is about the tool, whatever it is called with."""
        return fnmatchcase(tool.name, self.tool) and self.risk in (None, tool.risk or "undeclared")

    def clears(self, tool: Tool) -> bool:
        """Whether the rule, as one that allows, lets the tool run: its own need of approval outlasts a risk."""
        return self.risk is None or not tool.needs_approval

    def __str__(self) -> str:
        risk = f"[{self.risk}]" if self.risk else ""
        return f"{self.tool}{risk}" + ("" if self.argv is None else f"({self.argv})")

    @classmethod
    def of(cls, value: Any, where: str) -> Rule:
        """Return the rule that a configuration value means.

        Raises:
            ConfigError: it means none; names the field.
        """
        if isinstance(value, Rule):
            return value
        if isinstance(value, str) and (match := _RULE.fullmatch(value.strip())):
            return cls(match[1], match[2])
        if isinstance(value, Mapping) and value and set(value) <= {"tool", "argv", "risk"}:
            rule = cls(value.get("tool", "*"), value.get("argv"), value.get("risk"))
            if rule.risk is not None and rule.risk not in _RISKS:
                raise _refused(f"{where}.risk", f"use one of {', '.join(_RISKS)}")
            if isinstance(rule.tool, str) and isinstance(rule.argv, (str, type(None))):
                return rule
        raise _refused(where, "expected 'tool', 'tool(argv pattern)' or {tool, argv, risk}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Rules of the gate, asked in this order: hooks, deny, ask, allow, can_use_tool, default.

    Attributes:
        deny: what is refused.
        ask: what a human decides.
        allow: what runs, also when the tool needs approval, unless the rule goes by the risk.
        default: what happens to the rest.
        hooks: functions that may decide before any rule; None leaves it to the rules. One that
            raises denies the call.
        can_use_tool: a function that may decide what no rule decides; one that raises denies the call.
    """

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    default: Verdict = "allow"
    hooks: tuple[Decider, ...] = field(default=())
    can_use_tool: Decider | None = None

    def __post_init__(self) -> None:
        for name in ("deny", "ask", "allow"):
            object.__setattr__(self, name, _rules(getattr(self, name), f"permissions.{name}"))
        if self.default not in _VERDICTS:
            raise _refused("permissions.default", "use allow, ask or deny")
        if isinstance(self.hooks, str) or not all(callable(hook) for hook in self.hooks):
            raise _refused("permissions.hooks", "expected functions")
        object.__setattr__(self, "hooks", tuple(self.hooks))
        if self.can_use_tool is not None and not callable(self.can_use_tool):
            raise _refused("permissions.can_use_tool", "expected a function")

    @classmethod
    def of(cls, rules: Permissions | Mapping[str, Any] | str | None) -> Permissions:
        """Return permissions from a preset's name, or from a mapping of the attributes.

        A mapping may name a preset to start from in ``preset``; its own rules come before the
        preset's.

        Raises:
            ConfigError: an unknown preset or field, or a value of the wrong type; names the field.
        """
        if rules is None:
            return cls()
        if isinstance(rules, Permissions):
            return rules
        if isinstance(rules, str):
            return _preset(rules)
        if not isinstance(rules, Mapping):
            raise _refused("permissions", "expected a preset's name or a mapping")
        known = ("preset", "deny", "ask", "allow", "default", "hooks", "can_use_tool")
        unknown = sorted(str(name) for name in rules if name not in known)
        if unknown:
            raise _refused(f"permissions.{unknown[0]}", f"unknown field; use {', '.join(known)}")
        fields = {name: value for name, value in rules.items() if name != "preset"}
        if "preset" not in rules:
            return cls(**fields)
        base, own = _preset(rules["preset"]), cls(**fields)
        return replace(
            own,
            deny=own.deny + base.deny,
            ask=own.ask + base.ask,
            allow=own.allow + base.allow,
            default=own.default if "default" in rules else base.default,
        )


def read_only(permissions: Permissions) -> Permissions:
    """Return permissions that also deny what writes and what destroys."""
    return replace(permissions, deny=(*permissions.deny, Rule(risk="write"), Rule(risk="destructive")))


def _rules(value: Any, where: str) -> tuple[Rule, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise _refused(where, "expected a list of rules")
    return tuple(Rule.of(item, f"{where}[{index}]") for index, item in enumerate(value))


def _preset(name: Any) -> Permissions:
    if name not in PRESETS:
        raise _refused("permissions.preset", f"use one of {', '.join(PRESETS)}")
    return PRESETS[name]


def _refused(field_name: str, text: str) -> ConfigError:
    return ConfigError(f"{field_name}: {text}", data={"field": field_name})


# strict: reading runs, the rest is asked for, what destroys is refused.
# standard: what reads and writes runs, what reaches further or does not say is asked for.
PRESETS: Mapping[str, Permissions] = {
    "strict": Permissions(deny=(Rule(risk="destructive"),), allow=(Rule(risk="read"),), default="ask"),
    "standard": Permissions(
        ask=tuple(Rule(risk=risk) for risk in ("network", "execute", "destructive", "undeclared"))
    ),
    "open": Permissions(),
}
