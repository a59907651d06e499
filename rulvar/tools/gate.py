"""The gate: the ordered decision before a tool acts.

Hooks come first, then deny, ask and allow rules, then ``can_use_tool``, then the default: a tool that
needs approval asks, any other gets the default verdict.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from rulvar.errors import ConfigError
from rulvar.tools.permissions import Decider, Decision, Permissions, Rule, ToolRequest
from rulvar.tools.shell import Segment, judge_segment, lex_shell
from rulvar.tools.tool import Tool

__all__ = ["decide", "evaluate_permission"]

_VERDICTS = ("allow", "ask", "deny")


async def evaluate_permission(
    permissions: Permissions | Mapping[str, Any] | str | None,
    tool: Tool,
    args: Any = None,
    *,
    agent_type: str = "",
) -> Decision:
    """Return what the gate would decide on a call; the tool does not run.

    Hooks and ``can_use_tool`` are asked, with ``dry_run`` set on their request.

    Raises:
        ConfigError: permissions that are not; names the field.
    """
    request = ToolRequest(tool, {} if args is None else args, agent_type=agent_type, dry_run=True)
    return await decide(Permissions.of(permissions), request)


async def decide(permissions: Permissions, request: ToolRequest) -> Decision:
    """Return the gate's decision on a call. A decider that raises denies it."""
    for hook in permissions.hooks:
        if (decision := await _asked(hook, request, "hook")) is not None:
            return decision
    decision = _by_rules(permissions, request)
    if decision is None and permissions.can_use_tool is not None:
        decision = await _asked(permissions.can_use_tool, request, "can_use_tool")
    if decision is not None:
        return decision
    if request.tool.needs_approval and permissions.default == "allow":
        return Decision("ask", "default")
    return Decision(permissions.default, "default", _denied("default", permissions.default))


async def _asked(decider: Decider, request: ToolRequest, name: str) -> Decision | None:
    given = ToolRequest(
        request.tool, copy.deepcopy(request.args), request.run_id, request.agent_type, request.dry_run
    )
    try:
        answer: Any = decider(given)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception:
        return Decision("deny", name, "the permission check failed")
    if answer is None:
        return None
    if isinstance(answer, Decision) and answer.verdict in _VERDICTS:
        return Decision(answer.verdict, name, answer.reason)
    if isinstance(answer, str) and answer in _VERDICTS:
        return Decision(answer, name)  # type: ignore[arg-type]
    return Decision("deny", name, "the permission check gave no verdict")


def _by_rules(permissions: Permissions, request: ToolRequest) -> Decision | None:
    tool = request.tool
    named: dict[str, Rule] = {}
    argv: dict[str, list[str]] = {"deny": [], "ask": [], "allow": []}
    for verdict in _VERDICTS:
        for rule in getattr(permissions, verdict):
            if not rule.covers(tool) or (verdict == "allow" and not rule.clears(tool)):
                continue
            if rule.argv is None:
                named.setdefault(verdict, rule)
            else:
                argv[verdict].append(rule.argv)
    if "deny" in named:
        return Decision("deny", "deny", f"denied by rule {str(named['deny'])!r}")
    if any(argv.values()) and (decision := _by_line(_segments(request), argv)) is not None:
        return decision
    if "ask" in named:
        return Decision("ask", "ask")
    return Decision("allow", "allow") if "allow" in named else None


def _by_line(segments: Sequence[Segment], argv: Mapping[str, Sequence[str]]) -> Decision | None:
    """Return what the rules for command lines say; None where they leave a line to the rest of the rules.

    They are closer to the call than a rule for the tool: they lift the tool's ask, and where some lines
    are allowed by name, one that is left open is not let through by the tool's allow.
    """
    settled = [judge_segment(segment, argv) for segment in segments]
    if "deny" in settled:
        return Decision("deny", "deny", "denied by a rule for its command line")
    if "ask" in settled:
        return Decision("ask", "ask")
    if not argv["allow"]:
        return None
    is_allowed = bool(settled) and None not in settled
    return Decision("allow", "allow") if is_allowed else Decision("ask", "ask")


def _segments(request: ToolRequest) -> Sequence[Segment]:
    args = request.args
    name = request.tool.command
    command = args.get(name) if isinstance(args, Mapping) else None
    if isinstance(command, str):
        return lex_shell(command)
    if isinstance(command, (list, tuple)) and all(isinstance(word, str) for word in command):
        return (Segment(tuple(command)),)
    declared = request.tool.parameters.canonical
    if isinstance(declared, Mapping) and name in (declared.get("properties") or {}):
        return (Segment((), opaque=True),)  # the model's arguments do not fit; the pipeline says so
    raise ConfigError(
        f"permissions: a rule for command lines covers the tool {request.tool.name}, but its argument "
        f"{name!r} holds none; name the argument with @tool(command=...)",
        data={"field": "permissions"},
    )


def _denied(step: str, verdict: str) -> str | None:
    return f"denied by {step}" if verdict == "deny" else None
