"""The reference tools of the scenarios: each counts how often its own body ran."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rulvar import Tool, ToolRefusal, tool


class Orders:
    """The tools of an order desk, with counters."""

    def __init__(self) -> None:
        self.executions: Counter[str] = Counter()
        self.broken = True

        @tool(id="orders.lookup", effects="read", result_schema=_object(status="string"))
        def lookup(order_id: str) -> dict[str, str]:
            """Look an order up by its id."""
            self.executions["orders.lookup"] += 1
            return {"status": "shipped" if order_id == "A1" else "unknown"}

        @tool(id="orders.refund", effects="write", capabilities=("payments:refund",), cost_micros=10)
        def refund(order_id: str, amount: int) -> dict[str, bool]:
            """Refund an order."""
            self.executions["orders.refund"] += 1
            if order_id == "A0":
                raise ToolRefusal("nothing to refund")
            if order_id == "ERR" and self.broken:
                raise RuntimeError("PRIVATE row 7")
            return {"ok": True}

        @tool(id="orders.peek", effects="read", cost_micros=4)
        def peek(order_id: str) -> dict[str, bool]:
            """Look whether an order is there."""
            self.executions["orders.peek"] += 1
            if order_id == "ERR":
                raise RuntimeError("PRIVATE row 8")
            return {"seen": True}

        self.lookup: Tool = lookup
        self.refund: Tool = refund
        self.peek: Tool = peek


def _object(**names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in names.items()},
        "required": list(names),
        "additionalProperties": False,
    }


REPLY = _object(reply="string")
"""The shape of the support agent's answer."""
