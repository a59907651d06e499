"""Rules of the page `ambient`: what replayed code does to the world."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

RULES: Final = (
    RuleInfo(
        code="RLV106",
        name="inline-model-call",
        severity="error",
        fix="manual",
        family="ambient",
        summary="Replayed code calls a model directly.",
        advice="use `ctx.agent`, which is journaled and budgeted",
        why=(
            "The call is paid again on every resume, is not covered by the run's budget, "
            "and even at temperature 0 its answer may differ. Inside a tool or a step it is "
            "fine."
        ),
        bad="""\
from openai import AsyncOpenAI

from rulvar import Ctx, workflow


client = AsyncOpenAI()


@workflow
async def flow(ctx: Ctx, args: dict):
    done = await client.responses.create(model="gpt-5-mini", input=args["text"])  # RLV106
    return done.output_text
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent(args["text"], model="gpt-5-mini")
""",
        suppress=("When the call must not be journaled, for example because its answer may not be stored."),
    ),
    RuleInfo(
        code="RLV107",
        name="file-io",
        severity="error",
        fix="manual",
        family="ambient",
        summary="Replayed code reads or writes files.",
        advice="put it into `ctx.step`",
        why=(
            "The file may have changed, or may not exist on the machine that resumes the "
            "run; a write is repeated. Path arithmetic without the disk is not reported."
        ),
        bad="""\
from pathlib import Path

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    template = Path("prompts/review.md").read_text()  # RLV107
    return await ctx.agent(template + args["diff"])
""",
        good="""\
from pathlib import Path

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    template = await ctx.step("template", lambda: Path("prompts/review.md").read_text())
    return await ctx.agent(template + args["diff"])
""",
        suppress="When the file is part of the deployed code and changes only with it.",
    ),
    RuleInfo(
        code="RLV108",
        name="host-environment",
        severity="error",
        fix="manual",
        family="ambient",
        summary=("Replayed code asks about the host: environment, arguments, process, user, machine."),
        advice="pass it in through args, or journal the read with `ctx.step`",
        why=(
            "The run may be resumed on another host or after a deploy with other settings. "
            "Then a model name, a limit or a branch differs from what the journal was "
            "written with."
        ),
        bad="""\
import os

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    model = os.environ["REVIEW_MODEL"]  # RLV108
    return await ctx.agent("Review", model=model)
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent("Review", model=args["model"])
""",
        suppress="When the value is the same on every host that can resume the run.",
    ),
    RuleInfo(
        code="RLV109",
        name="process-spawn",
        severity="error",
        fix="manual",
        family="ambient",
        summary="Replayed code starts a process.",
        advice="put it into `ctx.step`",
        why="The command runs again on every replay and may print something else.",
        bad="""\
import subprocess

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    diff = subprocess.check_output(["git", "diff"], text=True)  # RLV109
    return await ctx.agent(f"Review:\\n{diff}")
""",
        good="""\
import subprocess

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    diff = await ctx.step("diff", lambda: subprocess.check_output(["git", "diff"], text=True))
    return await ctx.agent(f"Review:\\n{diff}")
""",
        suppress="Rarely: only for a command without output and effect.",
    ),
    RuleInfo(
        code="RLV110",
        name="thread-offload",
        severity="error",
        fix="none",
        family="ambient",
        summary="Replayed code moves work to threads or processes.",
        advice="put the work into `ctx.step`, or fan out with `ctx.parallel`",
        why=(
            "Work outside the engine's scheduler finishes in an order that no journal "
            "records, and outlives a suspended run."
        ),
        bad="""\
import asyncio

from rulvar import Ctx, workflow


def heavy(n: int) -> int:
    return sum(i * i for i in range(n))


@workflow
async def flow(ctx: Ctx, args: dict):
    return await asyncio.to_thread(heavy, args["n"])  # RLV110
""",
        good="""\
from rulvar import Ctx, workflow


def heavy(n: int) -> int:
    return sum(i * i for i in range(n))


@workflow
async def flow(ctx: Ctx, args: dict):
    n = args["n"]
    return await ctx.step("heavy", lambda: heavy(n), deps=[n])
""",
        suppress="When the offloaded work is pure and is awaited at once.",
    ),
    RuleInfo(
        code="RLV111",
        name="dynamic-code",
        severity="error",
        fix="none",
        family="ambient",
        summary="Replayed code evaluates or imports code by name.",
        advice="name the code that runs",
        why=(
            "What runs is not in the source, so neither a reader nor this lint can tell "
            "whether it is stable, and a changed plugin changes a running workflow."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return eval(args["expr"], {"x": 3})  # RLV111
""",
        good="""\
import ast

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return ast.literal_eval(args["expr"])
""",
        suppress="When the evaluated text is part of args and uses nothing unstable.",
    ),
    RuleInfo(
        code="RLV112",
        name="interactive-input",
        severity="error",
        fix="manual",
        family="ambient",
        summary="Replayed code waits for a person at a terminal.",
        advice="use `ctx.await_external(key)`, which suspends the run",
        why=(
            "The answer is not journaled: every resume asks again, and a worker without a "
            "terminal hangs. A left-over `breakpoint()` does the same."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    plan = await ctx.agent("Draft the rollout plan")
    return plan if input("Ship it? ") == "y" else None  # RLV112
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    plan = await ctx.agent("Draft the rollout plan")
    gate = await ctx.await_external("ship-it")
    return plan if gate["approved"] else None
""",
        suppress="While debugging.",
    ),
    RuleInfo(
        code="RLV113",
        name="print-or-log",
        severity="warning",
        fix="unsafe",
        family="ambient",
        summary="Replayed code prints or logs.",
        advice="use `ctx.log(level, message, data)`",
        why=(
            "The line appears again on every resume, so logs show work that was not done. "
            "`ctx.log` is part of the run's events and knows about replay. Helpers without "
            "ctx are not reported: a log line cannot change an identity."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    print("starting", args["id"])  # RLV113
    return await ctx.agent("Do the task")
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    ctx.log("info", "starting", {"id": args["id"]})
    return await ctx.agent("Do the task")
""",
        suppress="When repeated lines do no harm.",
    ),
    RuleInfo(
        code="RLV114",
        name="opaque-await",
        severity="warning",
        fix="manual",
        family="ambient",
        summary="Replayed code awaits something that nothing is known about.",
        advice="wrap it in `ctx.step`",
        why=(
            "An awaited call of another package almost always does I/O, and its result is "
            "not journaled. Project coroutines, asyncio's own primitives and awaitables "
            "that were passed in are not reported."
        ),
        bad="""\
from acme_vectors import open_index

from rulvar import Ctx, workflow


index = open_index("kb")


@workflow
async def flow(ctx: Ctx, args: dict):
    hits = await index.search(args["question"], k=5)  # RLV114
    return await ctx.agent(f"Answer from {hits}")
""",
        good="""\
from acme_vectors import open_index

from rulvar import Ctx, workflow


index = open_index("kb")


@workflow
async def flow(ctx: Ctx, args: dict):
    question = args["question"]
    hits = await ctx.step("search", lambda: index.search(question, k=5), deps=[question])
    return await ctx.agent(f"Answer from {hits}")
""",
        suppress="When the library is known to be pure.",
    ),
)
