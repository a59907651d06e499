"""Agents that other agents call, and tools that look before they leap."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rulvar.agents.execution import agent_workflow
from rulvar.agents.limits import Limits
from rulvar.contracts.schema import SchemaContract
from rulvar.contracts.strictness import closed_schema
from rulvar.errors import ConfigError, RulvarError, ToolFailedError
from rulvar.tools.grants import check_grants
from rulvar.tools.pending import ChildOutcome, from_child
from rulvar.tools.tool import Tool, ToolRefusal

if TYPE_CHECKING:
    from rulvar.agents.agent import Agent

__all__ = ["agent_as_tool", "with_preflight"]


def agent_as_tool(
    agent: Agent[Any],
    *,
    id: str | None = None,
    description: str | None = None,
    grants: Iterable[str] | None = None,
    limits: Limits | Mapping[str, Any] | None = None,
) -> Tool:
    """Return a tool that runs an agent as a child of the agent that calls it.

    The child sees nothing of its caller's conversation. It shares the caller's money and counters, and
    may use what both of them may. When it fails its caller fails with the same code. The tool needs the
    grant ``agent:delegate``.

    Args:
        id: the tool's id; the agent's unless given.
        description: what the calling model reads; the agent's unless given.
        grants: what the child may use of what its caller may; all of it unless given.
        limits: lower limits for the child.

    Raises:
        ConfigError: no agent, a limit is higher than the agent's own, or a part is wrong.
    """
    if not isinstance(getattr(agent, "limits", None), Limits):
        told = f"the class {agent.__qualname__}" if isinstance(agent, type) else type(agent).__name__
        raise ConfigError(f"agent_as_tool: expected an Agent, got {told}", data={"field": "agent"})
    tool_id = id or agent.id
    lowered = agent.limits.lowered_by(limits, f"agent_as_tool({agent.id!r}) limits")
    workflow = agent_workflow(agent, limits=lowered, grants=check_grants(grants))
    parameters, unwrap = _parameters(agent)

    def delegate(args: Any) -> Any:
        return from_child(workflow, args["input"] if unwrap else args, complete=_complete)

    delegate.adapters = workflow.adapters  # type: ignore[attr-defined]
    delegate.__workflow__ = workflow  # type: ignore[attr-defined]
    return Tool(
        name="".join(char if char.isalnum() or char in "_-" else "_" for char in tool_id)[:64],
        id=tool_id,
        description=description or agent.description or f"Ask the agent {agent.id}.",
        parameters=parameters,
        function=delegate,
        version=agent.version,
        capabilities=("agent:delegate",),
        timeout=None,
        result=agent.output_contract,
        takes_object=True,
    )


def _parameters(agent: Agent[Any]) -> tuple[SchemaContract, bool]:
    """Return the contract of the tool's arguments, and whether they wrap the agent's input."""
    schema = {"type": "string"} if agent.input_contract is None else closed_schema(agent.input_contract.json)
    if isinstance(schema, Mapping) and schema.get("type") == "object":
        return SchemaContract(dict(schema)), False
    wrapped = {
        "type": "object",
        "properties": {"input": schema},
        "required": ["input"],
        "additionalProperties": False,
    }
    return SchemaContract(wrapped), True


def _complete(outcome: ChildOutcome) -> Any:
    if outcome.status == "completed":
        return outcome.data
    if isinstance(outcome.error, RulvarError):
        raise outcome.error
    raise ToolFailedError("the child agent failed")


def with_preflight(
    tool: Tool,
    check: Callable[..., Any],
    *,
    extra_timeout: float = 0.0,
    description: str | None = None,
) -> Tool:
    """Return a tool with a check in front that may refuse a call before it has any effect.

    Args:
        check: takes what the tool's function takes, sync or async. ``False`` or a text refuses, and so does
            a ToolRefusal; any other exception refuses too, without its text.
        extra_timeout: seconds that the check may take beside the tool's own time.
        description: what the model reads; the tool's unless given.
    """

    if not isinstance(tool, Tool):
        raise ConfigError(
            f"with_preflight: expected a tool made by @tool, got {type(tool).__name__}",
            data={"field": "tool"},
        )

    async def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            verdict: Any = check(*args, **kwargs)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except ToolRefusal:
            raise
        except Exception as error:
            raise ToolRefusal(f"the check before {tool.id} failed") from error
        if verdict is False or isinstance(verdict, str):
            raise ToolRefusal(verdict or f"the check before {tool.id} refused the call")
        value = tool.function(*args, **kwargs)
        return await value if inspect.isawaitable(value) else value

    checked.__wrapped__ = tool.function  # type: ignore[attr-defined]
    return replace(
        tool,
        function=checked,
        timeout=None if tool.timeout is None else tool.timeout + extra_timeout,
        description=description or tool.description,
    )
