"""A tool call that waits for a human: suspended durably, and continued at the same turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.contracts.jsonable import journal_value
from rulvar.engine.branch import Place
from rulvar.engine.calls import Opened
from rulvar.engine.primitives.external import suspend_entry, wait_open
from rulvar.engine.run import Run
from rulvar.engine.waits import resolved_value
from rulvar.kernel.keys import content_key
from rulvar.kernel.matching import Operation
from rulvar.kernel.scope import agent_scope
from rulvar.tools.tool import Tool

__all__ = ["wait_approval"]


async def wait_approval(run: Run, place: Place, opened: Opened, tool: Tool, args: Any) -> Mapping[str, Any]:
    """Return a human's answer to a tool call: ``{"decision": "allow" | "deny", "reason"?}``."""
    scope = agent_scope(opened.scope, opened.root)
    plain = journal_value(args, f"tool {tool.name} args")
    key = content_key({"kind": "approval", "toolName": tool.name, "input": plain})
    assert key is not None
    operation = run.index.take(scope, key)
    is_recorded = operation is not None
    if operation is None:
        value: dict[str, Any] = {"toolName": tool.name, "input": plain, "flavor": "approval"}
        if tool.risk is not None:
            value["risk"] = tool.risk
        operation = Operation(await suspend_entry(run, place, "approval", scope, key, value))
    else:
        run.accounting.hits += 1
    if operation.resolution is not None:
        return _answer(resolved_value(operation))
    facts = {"toolName": tool.name, "entryRef": operation.first.seq}
    run.bus.emit("approval:pending", opened.span, place.span, facts, is_recorded)
    place.branch.busy(-1)  # the agent makes no progress by itself while a human thinks
    try:
        return _answer(await wait_open(run, place, operation))
    finally:
        place.branch.busy(1)


def _answer(value: Any) -> Mapping[str, Any]:
    return (
        value if isinstance(value, Mapping) else {"decision": "deny", "reason": "the answer is not an object"}
    )
