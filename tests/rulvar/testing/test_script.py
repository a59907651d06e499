"""A scripted model never answers with what was not meant as an answer."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from rulvar import Agent, Engine
from rulvar.errors import ConfigError
from rulvar.testing import fake_tool_calls, final, scripted_model, tool_calls

REPLY = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}


@pytest.mark.parametrize("steps", [{"type": "final", "output": 1}, "hello", b"hello", 5, None])
def test_steps_are_a_list(steps: Any) -> None:
    with pytest.raises(ConfigError, match="steps: expected a list of steps"):
        scripted_model(steps)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (None, r"steps\[1\]: None is no answer"),
        ({"type": "finall", "output": 1}, r"steps\[1\].type: 'finall' is no kind of answer"),
        ({"type": "tool-calls", "calls": []}, r"steps\[1\].type: 'tool-calls' is no kind of answer"),
    ],
)
def test_what_was_meant_as_an_answer_and_is_none_is_refused_where_it_is_written(step: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scripted_model([final("x"), step])


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (final({"a": {1}}), r"steps\[1\].output is no JSON.*\$\.a is of type set"),
        ({"a": float("nan")}, r"steps\[1\] is no JSON.*\$\.a is nan"),
        (object(), r"steps\[1\] is no JSON.*\$ is of type object"),
        (
            tool_calls({"tool_id": "t", "input": {"a": [b"x"]}}),
            r"calls\[0\].input is no JSON.*\$\.a\[0\] is of type bytes",
        ),
    ],
)
async def test_a_step_that_json_cannot_hold_is_refused_where_it_is_written(step: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scripted_model([final("x"), step])
    agent = Agent(id="a", model=scripted_model([lambda request: step]))
    async with Engine(grants={"model:scripted"}) as engine:
        outcome = await engine.run(agent, "x").outcome
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("error", "model_failed")
    assert "is no JSON" in outcome.error.message


def test_a_json_value_may_have_a_type_of_its_own() -> None:
    assert scripted_model([{"type": "circle", "radius": 1}]).remaining == 1


@pytest.mark.parametrize(
    ("returned", "told"), [(None, "None is no answer"), ({"type": "done", "output": 1}, "'done' is no kind")]
)
async def test_a_function_that_returns_no_answer_fails_the_model(returned: Any, told: str) -> None:
    agent = Agent(id="a", model=scripted_model([lambda request: returned]), output=REPLY)
    async with Engine(grants={"model:scripted"}) as engine:
        outcome = await engine.run(agent, "x").outcome
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("error", "model_failed")
    assert told in outcome.error.message


def test_arguments_that_no_model_could_send_are_refused_where_they_are_written() -> None:
    when = datetime.datetime(2026, 11, 30)
    with pytest.raises(ConfigError, match=r"args of 'book' .* \$\.nights\[0\] is of type datetime"):
        fake_tool_calls(name="book", args={"nights": [when]})
    with pytest.raises(ConfigError, match=r"args of 'book' .* \$ is of type set"):
        fake_tool_calls({"name": "book", "args": {1, 2}})
    fake_tool_calls(name="book", args='{"cut off')  # a model can send that
