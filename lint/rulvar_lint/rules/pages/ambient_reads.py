"""Rules of the page `ambient`: what replayed code asks the world for."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

RULES: Final = (
    RuleInfo(
        code="RLV101",
        name="wall-clock",
        severity="error",
        fix="safe",
        family="ambient",
        summary="Replayed code reads a clock.",
        advice="use `ctx.now()` or `ctx.time()`, or read it once in a step",
        why=(
            "A clock gives another value on every replay. In a prompt or key it re-keys the "
            "call, which is then paid again on every resume; in a condition the replay "
            "takes another branch. `ctx.now()` (an aware UTC datetime) and `ctx.time()` "
            "(epoch seconds) read one journaled value."
        ),
        bad="""\
from datetime import datetime

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    today = datetime.now()  # RLV101
    return await ctx.agent(f"Write the brief for {today:%Y-%m-%d}")
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    today = ctx.now()
    return await ctx.agent(f"Write the brief for {today:%Y-%m-%d}")
""",
        suppress=("When the value only feeds a metric. Building, parsing and adding dates is not reported."),
    ),
    RuleInfo(
        code="RLV102",
        name="randomness",
        severity="error",
        fix="safe",
        family="ambient",
        summary="Replayed code draws a random value.",
        advice='use `ctx.random("key")`, or seed a `random.Random` of your own',
        why=(
            "The draw differs on every replay, so a sampled branch flips and a shuffled "
            "list changes its order. `ctx.random(key)` is journaled; its key keeps draws "
            "apart when code is inserted between them. A generator with a fixed seed is not "
            "reported."
        ),
        bad="""\
import random

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    if random.random() < 0.1:  # RLV102
        await ctx.agent("Audit the classification")
""",
        good="""\
import random

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    if ctx.random("audit") < 0.1:
        await ctx.agent("Audit the classification")
    deck = list(args["cards"])
    random.Random(42).shuffle(deck)
    return deck
""",
        suppress="When the draw cannot reach a prompt, a key, a branch or the result.",
    ),
    RuleInfo(
        code="RLV103",
        name="random-uuid",
        severity="error",
        fix="safe",
        family="ambient",
        summary="Replayed code makes an identifier that is new each time.",
        advice="use `ctx.uuid()`",
        why=(
            "Each replay mints another identifier: tickets are opened twice and keys never "
            "match. `ctx.uuid()` is journaled; `uuid.uuid5` of stable input is pure and not "
            "reported."
        ),
        bad="""\
import uuid

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    ticket = uuid.uuid4().hex  # RLV103
    return await ctx.agent(f"Write ticket {ticket}")
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    ticket = ctx.uuid().hex
    return await ctx.agent(f"Write ticket {ticket}")
""",
        suppress="When the identifier only names a log line.",
    ),
    RuleInfo(
        code="RLV104",
        name="sleep-in-replay",
        severity="error",
        fix="manual",
        family="ambient",
        summary="Replayed code waits in real time.",
        advice="put the wait into a step, or suspend with `ctx.await_external`",
        why=(
            "The wait is not journaled: a resume waits again for every iteration that it "
            "replays, and `time.sleep` blocks every other run of the process meanwhile. "
            "`asyncio.sleep(0)` only yields and is not reported."
        ),
        bad="""\
import asyncio

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    await asyncio.sleep(30)  # RLV104
    return await ctx.agent("Check the build")
""",
        good="""\
import asyncio

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    await ctx.step("settle", lambda: asyncio.sleep(30))
    return await ctx.agent("Check the build")
""",
        suppress="When a short pause is wanted on replay as well.",
    ),
    RuleInfo(
        code="RLV105",
        name="external-io",
        severity="error",
        fix="manual",
        family="ambient",
        summary="Replayed code talks to a network service or a database.",
        advice="put it into `ctx.step(label, fn, deps)` or a tool",
        why=(
            "The answer is not in the journal: a replay asks again, may get another answer, "
            "and repeats writes. Clients and connections are followed through variables, "
            "attributes, parameters and context managers; building a client is free."
        ),
        bad="""\
import httpx

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    page = httpx.get(args["url"]).text  # RLV105
    return await ctx.agent(f"Summarise:\\n{page}")
""",
        good="""\
import httpx

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    url = args["url"]
    page = await ctx.step("fetch", lambda: httpx.get(url).text, deps=[url])
    return await ctx.agent(f"Summarise:\\n{page}")
""",
        suppress="When the service is idempotent and its answer cannot influence the run.",
    ),
)
