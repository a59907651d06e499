"""A run is not even begun without an argument that its workflow needs, or with one that it does not take."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
