"""A stand-in for a tool: it is called instead of the tool and of its whole pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rulvar.contracts.envelope import Receipt, ToolEnvelope, decode_envelope
from rulvar.contracts.jsonable import journal_value
from rulvar.errors import RulvarError, ToolFailedError
from rulvar.tools.pipeline import ToolRun
from rulvar.tools.tool import Tool

__all__ = ["call_double"]

_ENVELOPE = frozenset({"data", "error", "metadata", "type", "documents"})


async def call_double(double: Any, tool: Tool, args: Any, config: Any, call_id: str) -> ToolRun:
    """Call a stand-in with the arguments object; no check, interceptor or schema sees the call.

    It returns an envelope (``{"data": ...}`` or ``{"error": ...}``) or plain data. What it raises is the
    test's own, so that the text of a RulvarError is told.
    """
    try:
        value = double(args) if config is None else double(args, config=config)
        if inspect.isawaitable(value):
            value = await value
        envelope = _envelope(value, tool)
    except RulvarError as error:
        return ToolRun(receipt=_receipt(tool, call_id, "failed"), error=error, exception=error)
    except Exception as error:
        told = ToolFailedError(f"tool {tool.id} failed", data={"tool": tool.id})
        return ToolRun(receipt=_receipt(tool, call_id, "failed"), error=told, exception=error)
    if envelope.error is not None:
        told = ToolFailedError(envelope.error, data={"tool": tool.id})
        return ToolRun(receipt=_receipt(tool, call_id, "failed"), error=told, raw=envelope)
    return ToolRun(receipt=_receipt(tool, call_id, "succeeded"), envelope=envelope, raw=envelope)


def _envelope(value: Any, tool: Tool) -> ToolEnvelope:
    if isinstance(value, ToolEnvelope):
        return value
    what = f"the stand-in for tool {tool.id}"
    if isinstance(value, Mapping) and value and set(value) <= _ENVELOPE:
        return decode_envelope(journal_value(value, what), what)
    return ToolEnvelope(data=journal_value(value, what))


def _receipt(tool: Tool, call_id: str, execution: Any) -> Receipt:
    disclosure: Any = "released" if execution == "succeeded" else "withheld"
    return Receipt(call_id=call_id, tool_id=tool.id, execution=execution, disclosure=disclosure)
