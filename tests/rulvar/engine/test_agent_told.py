"""What is told of a call beside its turns: what is left out of a request, a second try, a refusal, a tool that is none."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, define_workflow, tool
from rulvar.testing import create_test_engine, fake_tool_calls


async def events(
    answer: Any, *, engine: dict[str, Any] | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Return the events of one call."""
    made = create_test_engine(agents={"*": answer}, **(engine or {}))

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", **options)

    async with made:
        run = made.run(define_workflow("w", body))
        await run.result()
        return list(run.events_seen())


def of(seen: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in seen if event["type"] == kind]


async def test_what_a_model_does_not_take_is_told_when_it_is_left_out() -> None:
    caps = {"reasoning_efforts": ("low",), "supports_temperature": False}
    model = {"model": "fake:m", "effort": "max", "provider_options": {"fake": {"top_p": 1, "seed": 2}}}
    told = of(await events("ok", engine={"caps_overrides": caps}, model=model), "log")
    assert [event["level"] for event in told] == ["warn", "warn"]
    assert "effort 'max'" in told[0]["msg"]
    assert "top_p" in told[1]["msg"]
    assert of(await events("ok", engine={"caps_overrides": caps}, effort="low"), "log") == []


async def test_a_second_try_with_another_model_is_told() -> None:
    def model(call: Any) -> Any:
        if call.req.model == "backup":
            return "ok"
        raise RuntimeError("down")

    [told] = of(await events(model, fallback="fake:backup"), "log")
    assert (told["level"], "fake:backup" in told["msg"]) == ("warn", True)


async def test_a_tool_that_an_agent_does_not_have_never_came_before_the_gate() -> None:
    @tool
    def known() -> str:
        """Be there."""
        return ""

    def model(call: Any) -> Any:
        return "end" if call.req.messages[-1].role == "tool" else fake_tool_calls(name="unknown", args={})

    [ended] = of(await events(model, tools=[known]), "tool:end")
    assert ended["outcome"] == "error"
    assert not {"verdict", "decidedBy"} & set(ended)


@pytest.mark.parametrize(
    ("permissions", "told"),
    [
        ({"deny": ["known"]}, ("deny", "deny-rule")),
        ({"can_use_tool": lambda request: "deny"}, ("deny", "canUseTool")),
        ({"hooks": [lambda request: "allow"]}, ("allow", "hook")),
        (None, ("allow", "default")),
    ],
)
async def test_who_decided_on_a_tool_is_told_in_the_words_of_the_stream(permissions: Any, told: Any) -> None:
    @tool
    def known() -> str:
        """Be there."""
        return ""

    def model(call: Any) -> Any:
        return "end" if call.req.messages[-1].role == "tool" else fake_tool_calls(name="known", args={})

    [ended] = of(await events(model, engine={"permissions": permissions}, tools=[known]), "tool:end")
    assert (ended["verdict"], ended["decidedBy"]) == told
