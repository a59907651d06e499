"""What a workflow gets is what a replay gives it: results go through their journal form first."""

from __future__ import annotations

import datetime
import enum
import importlib
import re
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest

from rulvar import Ctx, Engine, define_workflow
from rulvar.errors import RulvarError


@dataclass
class Point:
    x: int
    y: int


class Model(pydantic.BaseModel):
    name: str
    size: int = 1


class Typed(TypedDict):
    a: int


async def test_a_step_returns_what_json_makes_of_its_result(bench: Any) -> None:
    seen: list[Any] = []

    async def body(ctx: Ctx, args: Any) -> Any:
        seen.append(await ctx.step("s", lambda: {"pair": (1, 2)}))
        return seen[-1]

    await bench.run(body)
    await bench.resume()
    assert seen == [{"pair": [1, 2]}, {"pair": [1, 2]}]


async def test_changing_a_result_does_not_change_the_journal(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        rows = await ctx.step("rows", lambda: [1])
        rows.append(2)
        return await ctx.step("again", lambda: rows)

    assert (await bench.run(body)).value == [1, 2]
    assert (await bench.resume()).value == [1, 2]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Point, Point(1, 2)), (Model, Model(name="n")), (Typed, {"a": 1}), (list[int], [1, 2])],
)
async def test_a_typed_step_result_is_the_same_live_and_on_replay(bench: Any, kind: Any, value: Any) -> None:
    seen: list[Any] = []

    async def body(ctx: Ctx, args: Any) -> None:
        seen.append(await ctx.step("s", lambda: value, returns=kind))

    assert (await bench.run(body)).status == "ok"
    assert (await bench.resume()).status == "ok"
    assert seen == [value, value]
    assert type(seen[0]) is type(seen[1]) is type(value)


async def test_a_typed_answer_is_the_same_live_and_on_replay(make_bench: Any) -> None:
    bench = make_bench(agents={"*": {"name": "n", "size": 3}})
    seen: list[Any] = []

    async def body(ctx: Ctx, args: Any) -> Any:
        seen.append(await ctx.agent("make one", schema=Model))
        return seen[-1]

    outcome = await bench.run(body)
    assert outcome.value == {"name": "n", "size": 3}
    await bench.resume()
    assert seen == [Model(name="n", size=3)] * 2


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": {1, 2}}, ".a"),
        ({"when": [datetime.datetime(2026, 1, 1)]}, ".when[0]"),
        ([b"bytes"], "[0]"),
        (memoryview(b"x"), ""),
        ({"x": float("nan")}, ".x"),
        ({"x": [float("inf")]}, ".x[0]"),
        ({1: "int key"}, ""),
        ({"f": print}, ".f"),
        ({"odd key": {1}}, '["odd key"]'),
    ],
)
@pytest.mark.parametrize("where", ["step", "return", "args"])
async def test_what_json_cannot_hold_is_refused_with_the_path_of_the_field(
    bench: Any, where: str, value: Any, path: str
) -> None:
    async def from_step(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("load", lambda: value)

    async def from_body(ctx: Ctx, args: Any) -> Any:
        return value

    async def from_child(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("s", lambda: 1, deps=[value])

    body = {"step": from_step, "return": from_body, "args": from_child}[where]
    outcome = await bench.run(body)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.code == "non_serializable_value"
    place = {"step": "ctx.step('load')", "return": "workflow 'w' returned", "args": "ctx.step('s').deps[0]"}
    assert outcome.error.data == {"path": place[where] + path}


async def test_lone_surrogates_and_big_numbers_survive(bench: Any) -> None:
    value = {"s": "\ud83d", "n": 2**70, "f": 1e22, "z": -0.0}

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("s", lambda: value)

    assert (await bench.run(body)).value == value
    assert (await bench.resume()).value == value


async def test_a_body_that_returns_what_json_cannot_hold_is_told_where_it_is_written(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return {"a": [1, {2}]}

    async def around(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(define_workflow("inner", body))

    line = body.__code__.co_firstlineno
    told = [(await bench.run(each, run_id=each.__name__)).error.message for each in (body, around)]
    assert re.search(
        rf"test_values\.py:{line}: workflow 'w' returned\.a\[1\] is of type set; .*sorted", told[0]
    )
    assert f"test_values.py:{line}: workflow 'inner' returned.a[1] is of type set" in told[1]


def test_a_hash_is_that_of_the_text_also_where_two_texts_make_equal_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    text = "async def body(ctx, args):\n    # {}\n    return 1\n"
    path = tmp_path / "flow_of_two_texts.py"
    hashes = []
    for comment in ("one", "another"):
        path.write_text(text.format(comment))
        importlib.invalidate_caches()
        sys.modules.pop(path.stem, None)
        module = importlib.import_module(path.stem)
        hashes.append(define_workflow("w", module.body).source_hash)
    sys.modules.pop(path.stem)
    assert hashes == [sha256(text.format(word).encode()).hexdigest() for word in ("one", "another")]


@pytest.mark.parametrize(
    ("args", "inner", "place"),
    [
        ({"n": 10**400}, None, r"run of 'w': args\.n is inf"),
        (None, {"n": 10**400}, r"ctx\.workflow\('kid'\)\.args\.n is inf"),
    ],
)
async def test_a_number_that_no_double_holds_is_named_where_it_stands(
    args: Any, inner: Any, place: str
) -> None:
    async def kid(ctx: Ctx, args: Any) -> Any:
        return 1

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(define_workflow("kid", kid), inner)

    async with Engine() as engine:
        with pytest.raises(RulvarError, match=place):
            (await engine.run(define_workflow("w", body), args).result()).unwrap()


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "hint"), [(Path("/etc"), "pass str(...)"), (Colour.RED, "pass its value")], ids=["path", "enum"]
)
async def test_what_json_cannot_hold_is_refused_with_what_to_pass(bench: Any, value: Any, hint: str) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("s", lambda: value)

    assert (await bench.run(body)).error.message.endswith(hint)
