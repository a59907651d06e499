"""Rules of the page `context`: how ctx is awaited, scheduled and passed on."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

RULES: Final = (
    RuleInfo(
        code="RLV301",
        name="missing-await",
        severity="error",
        fix="safe",
        family="context",
        summary="A journaled call is not awaited.",
        advice="await it",
        why=(
            "Nothing happens until the coroutine is awaited; formatted into a text it is a "
            "memory address, and in a condition it is always true. Coroutines that are "
            "awaited later, returned from a lambda or handed to `ctx.parallel` are not reported."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    ctx.agent(f"Notify {args['user']}")  # RLV301
    return "sent"
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    await ctx.agent(f"Notify {args['user']}")
    return "sent"
""",
        suppress="Never.",
    ),
    RuleInfo(
        code="RLV302",
        name="asyncio-over-ctx",
        severity="error",
        fix="unsafe",
        family="context",
        summary="asyncio, anyio or trio schedules journaled work.",
        advice="use `ctx.parallel([...])`",
        why=(
            "Sites and branches are numbered in execution order. A combinator of its own "
            "decides that order, so branches swap places between the run and its replay. "
            "`ctx.parallel` gives each branch its own scope."
        ),
        bad="""\
import asyncio

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await asyncio.gather(ctx.agent("Summarise"), ctx.agent("Criticise"))  # RLV302
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.parallel([lambda: ctx.agent("Summarise"), lambda: ctx.agent("Criticise")])
""",
        suppress="Never over calls that can run at the same time.",
    ),
    RuleInfo(
        code="RLV303",
        name="timeout-over-ctx",
        severity="error",
        fix="none",
        family="context",
        summary="A timer cancels journaled work.",
        advice="set a deadline on the run or limits on the call",
        why=(
            "Whether the timer fires depends on the attempt: a replay is fast and takes the "
            "other path, and a cancelled suspension is lost."
        ),
        bad="""\
import asyncio

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    async with asyncio.timeout(30):  # RLV303
        return await ctx.agent("Answer quickly")
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent("Answer quickly", limits={"seconds": 30})
""",
        suppress="Never around `ctx.await_external`.",
    ),
    RuleInfo(
        code="RLV304",
        name="ctx-escape",
        severity="error",
        fix="none",
        family="context",
        summary="ctx is kept where it outlives the run.",
        advice="keep ctx in the workflow and pass it as an argument",
        why=(
            "ctx belongs to one attempt of one run. In a module, a class, a thread or a "
            "tool it is used by another run, or after the run has ended."
        ),
        bad="""\
from rulvar import Ctx, workflow


CURRENT = {}


@workflow
async def flow(ctx: Ctx, args: dict):
    CURRENT["ctx"] = ctx  # RLV304
    return await ctx.agent("Do the task")
""",
        good="""\
from rulvar import Ctx, workflow


async def helper(ctx: Ctx) -> str:
    return await ctx.agent("Do the task")


@workflow
async def flow(ctx: Ctx, args: dict):
    return await helper(ctx)
""",
        suppress="Never.",
    ),
    RuleInfo(
        code="RLV305",
        name="nested-ctx-in-step",
        severity="error",
        fix="none",
        family="context",
        summary="A step body makes a journaled call.",
        advice="move it out of the step",
        why=(
            "When the step is replayed its body does not run, so the calls inside are "
            "skipped and everything behind them shifts. `ctx.log` and `ctx.budget` are allowed."
        ),
        bad="""\
from app.sources import load_raw

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    async def body():
        return await ctx.agent(f"Clean {load_raw(args['source'])}")  # RLV305

    return await ctx.step("load-and-clean", body)
""",
        good="""\
from app.sources import load_raw

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    raw = await ctx.step("load", lambda: load_raw(args["source"]))
    return await ctx.agent(f"Clean {raw}")
""",
        suppress="Never.",
    ),
)
