"""A body that asks for its arguments as a dataclass or a model gets them so, live and on resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from rulvar import Ctx, Engine, workflow
from rulvar.testing import create_test_engine


@dataclass
class Order:
    item: str
    count: int = 1


class Ticket(pydantic.BaseModel):
    title: str


@workflow
async def order(ctx: Ctx, args: Order) -> Any:
    return await ctx.step("s", lambda: [args.item, args.count])


@workflow
async def ticket(ctx: Ctx, args: Ticket) -> Any:
    return await ctx.step("s", lambda: args.title)


@workflow
async def tickets(ctx: Ctx, args: list[Ticket]) -> Any:
    return await ctx.step("s", lambda: [one.title for one in args])


@workflow
async def maybe(ctx: Ctx, args: Ticket | None) -> Any:
    return await ctx.step("s", lambda: None if args is None else args.title)


@workflow
async def parent(ctx: Ctx, args: Any) -> Any:
    return await ctx.workflow(order, {"item": "tea", "count": 2})


@pytest.mark.parametrize(
    ("flow", "args", "value"),
    [
        (order, {"item": "tea"}, ["tea", 1]),
        (order, Order("tea", 3), ["tea", 3]),
        (ticket, {"title": "t"}, "t"),
        (ticket, Ticket(title="t"), "t"),
        (tickets, [{"title": "t"}, {"title": "u"}], ["t", "u"]),
        (maybe, None, None),
        (maybe, {"title": "t"}, "t"),
        (parent, None, ["tea", 2]),
    ],
)
async def test_plain_and_typed_arguments_arrive_as_the_annotation_says(
    flow: Any, args: Any, value: Any
) -> None:
    engine = create_test_engine(agents={})
    assert (await engine.run(flow, args, run_id="r").result()).value == value
    assert (await engine.resume("r", flow, args=args).result()).value == value


async def test_arguments_that_do_not_fit_the_annotation_are_refused_by_name() -> None:
    outcome = await create_test_engine(agents={}).run(order, {"item": "tea", "count": "many"}).result()
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("error", "config")
    assert "count" in outcome.error.message


async def test_an_annotation_that_cannot_be_resolved_changes_nothing() -> None:
    async def body(ctx: Ctx, args: Nowhere) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return args["x"]

    assert (await create_test_engine(agents={}).run(workflow(name="w")(body), {"x": 1}).result()).value == 1


@dataclass
class Size:
    width: int = 4


class Title(pydantic.BaseModel):
    text: str
    size: int = 1


async def test_no_arguments_are_none_of_the_fields_where_each_has_a_default() -> None:
    @workflow
    async def measure(ctx: Ctx, args: Size) -> int:
        return args.width

    async with Engine() as engine:
        for given in (None, {}, {"width": 4}):
            assert (await engine.run(measure, given).outcome).value == 4


async def test_a_field_that_is_missing_is_named_also_when_there_are_no_arguments_at_all() -> None:
    @workflow
    async def write(ctx: Ctx, args: Title) -> str:
        return args.text

    async with Engine() as engine:
        outcome = await engine.run(write).outcome
    assert outcome.error is not None
    assert '"text"' in outcome.error.message
    assert "no arguments were given" in outcome.error.message
