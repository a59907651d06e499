"""A run is not even begun without an argument that its workflow needs, or with one that it does not take."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pytest

from rulvar import define_workflow
from rulvar.cli.wanted_args import wanted_args
from rulvar.errors import ConfigError

Rulvar = Callable[..., Any]
NEEDS = """
    from dataclasses import dataclass
    from rulvar import workflow

    @dataclass
    class Order:
        item: str
        count: int = 1

    @workflow(name="order")
    async def order(ctx, args: Order):
        return [args.item, args.count]

    @dataclass
    class Options:
        loud: bool = False

    @workflow(name="defaults")
    async def defaults(ctx, args: Options):
        return args.loud

    @workflow(name="bare")
    async def bare(ctx, args):
        name = await ctx.step("name", lambda: "n")
        return [name, args["version"]]

    @workflow(name="sometimes")
    async def sometimes(ctx, args):
        if ctx.now():
            return args["version"] + args.get("suffix", "")

    @workflow(name="nothing")
    async def nothing(ctx):
        return 1
"""


@pytest.fixture
def needs(rulvar: Rulvar, project: Path) -> Rulvar:
    (project / "needs.py").write_text(textwrap.dedent(NEEDS))
    return rulvar


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["order"], "'order' needs argument 'item': --arg item=VALUE or --args JSON"),
        (["order", "--arg", "itme=x"], "did you mean 'item' by 'itme'?"),
        (["order", "--arg", "item=x", "--arg", "coutn=2"], "has no argument 'coutn'; did you mean 'count'?"),
        (["order", "--args", "[1]"], "takes named arguments, not a list: --arg item=VALUE"),
        (["bare"], "needs argument 'version': --arg version=VALUE or --args JSON (needs.py:"),
        (["bare", "--arg", "versoin=1"], "did you mean 'version' by 'versoin'?"),
        (["nothing", "--arg", "a=1"], "takes no arguments"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(needs: Rulvar, words: list[str], told: str) -> None:
    workflow, *rest = words
    done = needs("run", f"needs.py:{workflow}", *rest)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert needs("runs", "ls").out == ""
    assert needs("run", f"needs.py:{workflow}", *rest, "--json").json["error"]["code"] == "config"


def test_a_workflow_whose_arguments_all_have_defaults_needs_none(needs: Rulvar) -> None:
    assert needs("run", "needs.py:defaults", "--json").json["value"] is False


def test_a_run_that_turns_out_to_lack_an_argument_says_which(needs: Rulvar) -> None:
    nothing = needs("run", "needs.py:sometimes")
    assert nothing.code == 1
    assert (
        "hint     the run was started without arguments, and it reads arguments 'suffix', 'version'"
        in nothing.out
    )
    other = needs("run", "needs.py:sometimes", "--arg", "suffix=x")
    assert "hint     the run was started without argument 'version': --arg version=VALUE" in other.out


def test_an_argument_that_nothing_reads_is_warned_of(needs: Rulvar) -> None:
    done = needs("run", "needs.py:bare", "--arg", "version=1.2.0", "--arg", "verbose=true")
    assert done.code == 0
    assert "warning: workflow 'bare' does not read argument 'verbose'" in done.err


async def guarded(ctx: Any, args: Any) -> Any:
    args = args or {"a": 1}
    return args["a"]


async def leaves_early(ctx: Any, args: Any) -> Any:
    if not args:
        return None
    return args["a"]


async def may_skip(ctx: Any, args: Any) -> Any:
    return [args["a"] if ctx else 1, ctx and args["b"], [args["c"] for _ in ctx], lambda: args["d"]]


async def catches(ctx: Any, args: Any) -> Any:
    try:
        return args["a"]
    except TypeError:
        return None


async def passes_on(ctx: Any, args: Any) -> Any:
    return dict(args or {})


@pytest.mark.parametrize("body", [guarded, leaves_early, may_skip, catches, passes_on])
def test_what_a_body_may_not_need_is_not_asked_for(body: Any) -> None:
    assert wanted_args(define_workflow("w", body), None) == (None, None)


async def reads(ctx: Any, args: Any) -> Any:
    async with ctx.phase(args["phase"]):
        pass
    for _ in args["items"]:
        pass
    return f"{args['name']!r}"


def test_what_a_body_always_reads_is_needed() -> None:
    with pytest.raises(ConfigError, match="needs arguments 'phase', 'items', 'name'"):
        wanted_args(define_workflow("w", reads), None)
    given = {"phase": 1, "items": [], "name": ""}
    assert wanted_args(define_workflow("w", reads), given) == (given, None)


def with_defaults(body: Any) -> Any:
    @functools.wraps(body)
    async def filled(ctx: Any, args: Any = None) -> Any:
        return await body(ctx, {"x": 1, **(args or {})})

    return filled


@with_defaults
async def wrapped(ctx: Any, args: Any) -> Any:
    return args["x"]


async def sets_a_default(ctx: Any, args: Any) -> Any:
    args.setdefault("x", 1)
    return args["x"]


async def puts_a_key(ctx: Any, args: Any) -> Any:
    args["x"] = args.get("x", 1)
    return args["x"]


async def hands_on(ctx: Any, args: Any) -> Any:
    print(args)
    return args["x"]


async def hands_on_in_the_same_line(ctx: Any, args: Any) -> Any:
    return [args.update(x=1), args["x"]]


async def has_another_name(ctx: Any, args: Any) -> Any:
    same = args
    same.setdefault("x", 1)
    return args["x"]


async def has_a_helper(ctx: Any, args: Any) -> Any:
    def fill() -> None:
        args.update(x=1)

    fill()
    return args["x"]


@pytest.mark.parametrize(
    "body",
    [
        wrapped,
        sets_a_default,
        puts_a_key,
        hands_on,
        hands_on_in_the_same_line,
        has_another_name,
        has_a_helper,
    ],
)
def test_a_key_that_the_body_may_have_put_in_itself_is_not_asked_for(body: Any) -> None:
    assert wanted_args(define_workflow("w", body), {}) == ({}, None)


async def looks_first(ctx: Any, args: Any) -> Any:
    wanted = args["x"] if not args else args["y"]
    return [wanted, args["z"]]


def test_a_key_is_asked_for_where_the_arguments_are_only_looked_at() -> None:
    with pytest.raises(ConfigError, match="needs argument 'z'"):
        wanted_args(define_workflow("w", looks_first), {"x": 1})


class Titled(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)

    own_name: str = pydantic.Field("", alias="ownName")
    title: str = pydantic.Field("", validation_alias=pydantic.AliasChoices("title", "heading"))


@pytest.mark.parametrize("name", ["own_name", "ownName", "title", "heading"])
def test_every_name_that_a_model_takes_for_a_field_is_taken(name: str) -> None:
    async def body(ctx: Any, args: Titled) -> None: ...

    assert wanted_args(define_workflow("w", body, args=Titled), {name: "t"}) == ({name: "t"}, None)
    with pytest.raises(ConfigError, match="has no argument 'ownname'"):
        wanted_args(define_workflow("w", body, args=Titled), {"ownname": "t", name: "t"})


def test_a_json_schema_that_leaves_names_open_does_so_here_too() -> None:
    async def body(ctx: Any, args: Any) -> None: ...

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert wanted_args(define_workflow("w", body, args=schema), {"y": 1}) == ({"y": 1}, None)
    closed = {**schema, "additionalProperties": False}
    with pytest.raises(ConfigError, match="has no argument 'y'"):
        wanted_args(define_workflow("w", body, args=closed), {"y": 1})
