"""What a tool's function is called with: values of the types that its parameters are annotated with."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, TypedDict

import pydantic
import pytest

from rulvar import Ctx, define_workflow, tool
from rulvar.errors import ConfigError
from rulvar.testing import create_test_engine, fake_tool_calls


class Order(pydantic.BaseModel):
    item: str
    count: int = pydantic.Field(1, ge=1)


@dataclass
class Place:
    city: str
    code: int = 0


class Colour(enum.Enum):
    RED = "red"


class Note(TypedDict):
    text: str


class Point(NamedTuple):
    x: int
    y: int


Small = Annotated[int, pydantic.Field(lt=10)]


async def called(made: Any, args: Any) -> Any:
    async def body(ctx: Ctx) -> Any:
        return await ctx.call_tool(made, args)

    return await create_test_engine().run(define_workflow("calls", body)).result()


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Order, {"item": "tea"}, Order(item="tea")),
        (list[Order], [{"item": "tea"}], [Order(item="tea")]),
        (Order | None, None, None),
        (dict[str, Order], {"a": {"item": "tea"}}, {"a": Order(item="tea")}),
        (Place, {"city": "Rome"}, Place("Rome")),
        (list[Place], [{"city": "Rome", "code": 1}], [Place("Rome", 1)]),
        (date, "2026-11-30", date(2026, 11, 30)),
        (Colour, "red", Colour.RED),
        (set[int], [1, 2], {1, 2}),
        (Point, [1, 2], Point(1, 2)),
        (Note, {"text": "t"}, {"text": "t"}),
        (float, 3, 3.0),
        (Small, 9, 9),
        (dict, {"a": 1}, {"a": 1}),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
)
async def test_a_parameter_gets_a_value_of_its_type(kind: Any, given: Any, expected: Any) -> None:
    seen = []

    def look(what, beside="x"):  # type: ignore[no-untyped-def]
        seen.append((what, beside))

    look.__annotations__ = {"what": kind, "beside": str}
    outcome = await called(tool(look), {"what": given})
    assert outcome.status == "ok", outcome.error
    assert seen == [(expected, "x")]
    assert type(seen[0][0]) is type(expected)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Order, {"item": "tea", "count": 0}),
        (list[Order], [{"item": 3}]),
        (Small, 10),
        (date, "today"),
        (Colour, "blue"),
        (Place, {"code": 1}),
    ],
)
async def test_what_does_not_fit_the_type_is_told_to_the_model_and_the_tool_does_not_run(
    kind: Any, given: Any
) -> None:
    def look(what):  # type: ignore[no-untyped-def]
        raise AssertionError("it must not run")

    look.__annotations__ = {"what": kind}
    made = tool(look)
    told = []

    def model(call: Any) -> Any:
        results = [
            part for message in call.req.messages for part in message.parts if part.type == "tool-result"
        ]
        told.extend(results)
        return "sorry" if results else fake_tool_calls(name="look", args={"what": given})

    async def body(ctx: Ctx) -> Any:
        return await ctx.agent("look", tools=[made])

    outcome = await create_test_engine(agents={"*": model}).run(define_workflow("asks", body)).result()
    assert outcome.value == "sorry"
    assert "do not fit" in str(told[0].result)


async def test_the_journal_keeps_what_was_given_and_not_what_was_made_of_it() -> None:
    @tool
    def look(order: Order) -> str:
        """Look at an order."""
        return f"{order.item} {order.count}"

    async def body(ctx: Ctx) -> Any:
        return await ctx.call_tool(look, {"order": {"item": "tea"}})

    wf = define_workflow("looks", body)
    engine = create_test_engine()
    first = await engine.run(wf, run_id="r").result()
    again = engine.resume("r", wf)
    assert (first.value, (await again.result()).value) == ("tea 1", "tea 1")
    assert (await again.preview()).misses == 0


async def test_an_object_that_is_declared_as_a_type_arrives_as_one_where_the_function_asks_for_it() -> None:
    @tool(parameters=Order)
    def typed(order: Order) -> str:
        return order.item

    @tool(parameters=Order)
    def plain(order: dict[str, Any]) -> str:
        return str(order["item"])

    assert (await called(typed, {"item": "tea"})).value == "tea"
    assert (await called(plain, {"item": "tea"})).value == "tea"


def test_two_classes_of_one_name_keep_their_own_schemas() -> None:
    here = SimpleNamespace(Inner=dataclass(type("Inner", (), {"__annotations__": {"a": int}})))
    there = SimpleNamespace(Inner=dataclass(type("Inner", (), {"__annotations__": {"b": str}})))

    def look(one, other):  # type: ignore[no-untyped-def]
        return None

    look.__annotations__ = {"one": list[here.Inner], "other": list[there.Inner]}  # type: ignore[name-defined]
    properties = tool(look).parameters.canonical["properties"]
    assert properties["one"]["items"]["properties"] == {"a": {"type": "integer"}}
    assert properties["other"]["items"]["properties"] == {"b": {"type": "string"}}


def test_a_type_that_json_cannot_carry_is_named() -> None:
    def look(what):  # type: ignore[no-untyped-def]
        return None

    look.__annotations__ = {"what": list[memoryview | Order]}
    with pytest.raises(ConfigError, match="tool 'look': parameter 'what' has a type that JSON cannot carry"):
        tool(look)
