"""Rules of the page `context`: steps, handlers, thunks and signatures."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

RULES: Final = (
    RuleInfo(
        code="RLV306",
        name="step-mutates-outer",
        severity="error",
        fix="none",
        family="context",
        summary="A step body changes data outside it.",
        advice="return the value from the step",
        why=(
            "When the step is replayed its body does not run and the change is lost; only "
            "the returned value is in the journal."
        ),
        bad="""\
from app.sources import load_page

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    rows = []
    for page in args["pages"]:
        await ctx.step(f"page-{page}", lambda page=page: rows.append(load_page(page)))  # RLV306
    return rows
""",
        good="""\
from app.sources import load_page

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    rows = []
    for page in args["pages"]:
        rows.append(await ctx.step(f"page-{page}", lambda page=page: load_page(page)))
    return rows
""",
        suppress="When the changed data is a cache that may be empty.",
    ),
    RuleInfo(
        code="RLV307",
        name="swallowed-suspension",
        severity="error",
        fix="safe",
        family="context",
        summary="A handler swallows what the engine raises.",
        advice="re-raise, or catch `Exception`",
        why=(
            "Suspension, cancellation and strict-replay misses derive from BaseException. A "
            "bare `except`, a handler for BaseException, CancelledError or GeneratorExit, "
            "`suppress()` of them, and a jump out of `finally` keep the run going when it "
            "must stop."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    try:
        return await ctx.await_external("gate")
    except:  # RLV307
        return None
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    try:
        return await ctx.await_external("gate")
    except Exception:
        return None
""",
        suppress="Never around ctx calls.",
    ),
    RuleInfo(
        code="RLV308",
        name="retry-wrapper-over-ctx",
        severity="warning",
        fix="none",
        family="context",
        summary="A retry library re-runs journaled work.",
        advice="use the `retry` option of the call",
        why=(
            "The wrapper waits outside the engine's clock and repeats calls that the "
            "journal already answers, each repetition with another ordinal. On a plain "
            "function inside a step it is fine."
        ),
        bad="""\
from tenacity import retry, stop_after_attempt

from rulvar import Ctx, workflow


@retry(stop=stop_after_attempt(3))  # RLV308
async def extract(ctx: Ctx, doc: str) -> str:
    return await ctx.agent(f"Extract fields from {doc}")


@workflow
async def flow(ctx: Ctx, args: dict):
    return await extract(ctx, args["doc"])
""",
        good="""\
from rulvar import Ctx, workflow


async def extract(ctx: Ctx, doc: str) -> str:
    return await ctx.agent(f"Extract fields from {doc}", retry={"attempts": 3})


@workflow
async def flow(ctx: Ctx, args: dict):
    return await extract(ctx, args["doc"])
""",
        suppress="When each attempt has a key of its own.",
    ),
    RuleInfo(
        code="RLV309",
        name="late-binding-thunk",
        severity="error",
        fix="safe",
        family="context",
        summary="A function made in a loop reads the loop variable later.",
        advice="bind it with a default: `lambda x=x: ...`",
        why=(
            "All branches see the last value: every file is reviewed as the last one, with "
            "the same key. A function that runs within its own iteration is not reported."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.parallel(
        [lambda: ctx.agent(f"Review {path}") for path in args["paths"]]  # RLV309
    )
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.parallel([lambda path=path: ctx.agent(f"Review {path}") for path in args["paths"]])
""",
        suppress="Never.",
    ),
    RuleInfo(
        code="RLV310",
        name="eager-step-call",
        severity="error",
        fix="safe",
        family="context",
        summary="A step is given the result of a call instead of a function.",
        advice="pass the function: `lambda: ...`",
        why=(
            "The call runs in replayed code, before the step, on every replay; the step "
            "itself then has nothing to run."
        ),
        bad="""\
from app.net import fetch

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.step("fetch", fetch(args["url"]))  # RLV310
""",
        good="""\
from app.net import fetch

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    url = args["url"]
    return await ctx.step("fetch", lambda: fetch(url), deps=[url])
""",
        suppress="When the called function returns the step function.",
    ),
    RuleInfo(
        code="RLV311",
        name="workflow-signature",
        severity="error",
        fix="unsafe",
        family="context",
        summary="A function that cannot be a workflow is registered as one.",
        advice="write `async def workflow(ctx, args)`",
        why=(
            "The engine calls a workflow with ctx and args and awaits it. Generators, "
            "lambdas and plain functions cannot suspend."
        ),
        bad="""\
from rulvar import workflow


@workflow
def review(ctx, args):  # RLV311
    return 1
""",
        good="""\
from rulvar import workflow


@workflow
async def review(ctx, args):
    return 1
""",
        suppress="Never.",
    ),
)
