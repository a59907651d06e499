"""Scripted answers that a run does not ask for are told: they leave the run as it is."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from rulvar import Ctx, Input, MachineCtx, StateMachine, transition, workflow
from rulvar.errors import ConfigError
from rulvar.testing import UnusedAnswerWarning, queue, run_workflow


class Order(StateMachine):
    @transition(to="open")
    def begin(self, ctx: MachineCtx) -> None: ...

    @transition(from_="open", to="paid", wait=True)
    def pay(self, ctx: MachineCtx, input: Input) -> None: ...

    @transition(from_="open", to="end", wait=True)
    def cancel(self, ctx: MachineCtx, input: Input) -> None: ...

    @transition(from_="paid", to="end", wait=True)
    def ship(self, ctx: MachineCtx, input: Input) -> None: ...


@workflow
async def asks(ctx: Ctx, args: Any) -> Any:
    return await ctx.await_external("gate")


async def test_a_name_that_no_transition_has_is_told_with_what_the_run_asked_for() -> None:
    with pytest.warns(UnusedAnswerWarning) as told:
        run = await run_workflow(Order, answers={"pay": None, "shipp": None})
    assert (run.status, run.place) == ("waiting", "paid")
    assert "never asked for 'shipp'; did you mean 'ship'?" in str(told[0].message)
    assert "asked for 'pay', 'cancel', 'ship'" in str(told[0].message)
    assert told[0].filename == __file__


async def test_a_wrong_name_is_told_when_the_run_has_ended_too() -> None:
    with pytest.warns(UnusedAnswerWarning, match="'refund'"):
        run = await run_workflow(Order, answers={"pay": None, "ship": None, "refund": None})
    assert run.status == "completed"


async def test_a_key_that_a_waiting_workflow_does_not_ask_for_is_told() -> None:
    with pytest.warns(UnusedAnswerWarning, match=r"'gaet'; did you mean 'gate'\?"):
        run = await run_workflow(asks, answers={"gaet": 1})
    assert run.status == "waiting"


async def test_a_name_that_is_like_no_other_is_told_in_whole_sentences() -> None:
    with pytest.warns(UnusedAnswerWarning, match=r"never asked for 'x'; it asked for 'gate'$"):
        await run_workflow(asks, answers={"x": 1})


async def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="answers: 1 is no name"):
        await run_workflow(asks, answers={1: 1})  # type: ignore[dict-item]


async def test_an_answer_that_was_not_needed_is_warned_of_at_the_line_that_scripted_it() -> None:
    with pytest.warns(UnusedAnswerWarning, match="never asked for 'ship'") as told:
        run = await run_workflow(Order, answers={"cancel": None, "ship": None})
    assert run.status == "completed"
    assert told[0].filename == __file__


async def test_a_workflow_may_need_fewer_answers_than_there_are() -> None:
    with pytest.warns(UnusedAnswerWarning, match="'other'"):
        run = await run_workflow(asks, answers={"gate": 1, "other": 2})
    assert run.result == 1


async def test_values_that_a_queue_keeps_are_warned_of() -> None:
    with pytest.warns(UnusedAnswerWarning, match="1 queued value was not asked for"):
        await run_workflow(Order, answers={"pay": queue(None, None), "ship": None})


async def test_answers_that_were_all_asked_for_are_no_reason_to_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await run_workflow(Order, answers={"pay": None, "ship": None})
        waiting = await run_workflow(Order, answers={"pay": queue(None)})
        assert (await waiting.resume({"ship": None})).status == "completed"


async def test_a_resume_tells_of_a_wrong_name_too() -> None:
    waiting = await run_workflow(Order)
    with pytest.warns(UnusedAnswerWarning, match="'payy'"):
        assert (await waiting.resume({"payy": None})).status == "waiting"
