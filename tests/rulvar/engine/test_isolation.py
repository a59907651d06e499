"""An isolation is part of a call's identity, and "readonly" keeps tools that change things from running."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, define_workflow, tool
from rulvar.testing import create_test_engine, fake_tool_calls


@pytest.mark.parametrize(
    ("risk", "isolation", "profile", "runs"),
    [
        ("write", "readonly", None, False),
        ("destructive", "readonly", None, False),
        ("write", None, "readonly", False),
        ("write", "none", "readonly", True),
        ("write", "other", None, True),
        ("read", "readonly", None, True),
        ("network", "readonly", None, True),
        (None, "readonly", None, True),
    ],
)
async def test_readonly_denies_tools_that_write_or_destroy(
    risk: Any, isolation: Any, profile: Any, runs: bool
) -> None:
    ran = []

    @tool(risk=risk)
    def act() -> str:
        """Act."""
        ran.append(1)
        return "done"

    def model(call: Any) -> Any:
        return "end" if call.req.messages[-1].role == "tool" else fake_tool_calls(name="act", args={})

    options = {} if profile is None else {"isolation": profile}
    engine = create_test_engine(agents={"*": model}, profiles={"p": options}, permissions={"allow": ["*"]})

    async def body(ctx: Ctx, args: Any) -> Any:
        given = {} if isolation is None else {"isolation": isolation}
        return await ctx.agent("go", agent_type="p", tools=[act], **given)

    async with engine:
        outcome = await engine.run(define_workflow("w", body), run_id="r").result()
        begun = next(entry for entry in await engine.store.load("r") if entry.kind == "agent")
    assert outcome.value == "end"
    assert bool(ran) is runs
    told = isolation or profile or "none"
    assert (begun.value or {}).get("isolation", "none") == told
