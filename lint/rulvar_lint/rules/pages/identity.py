"""What identifies a call: the rules as people read them."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

TITLE: Final = "What identifies a call"
INTRO: Final = """\
A journaled call is found again by its scope, its content key and its ordinal. These rules are
about keys that say too little, and about results that cannot be written down."""

RULES: Final = (
    RuleInfo(
        code="RLV401",
        name="duplicate-identical-call",
        severity="warning",
        fix="unsafe",
        family="identity",
        summary="Two calls on one path have the same identity.",
        advice="give each a distinct `key`",
        why=(
            "Only their order tells them apart. When one is removed or inserted, the "
            "recorded answers shift to the wrong call. Quotes, keyword order and labels do "
            "not make a difference; exclusive branches are not reported."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    a = await ctx.agent("Rate this abstract from 1 to 10")
    b = await ctx.agent("Rate this abstract from 1 to 10")  # RLV401
    return [a, b]
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    a = await ctx.agent("Rate this abstract from 1 to 10", key="rating-a")
    b = await ctx.agent("Rate this abstract from 1 to 10", key="rating-b")
    return [a, b]
""",
        suppress="When the answers are interchangeable.",
    ),
    RuleInfo(
        code="RLV402",
        name="constant-identity-in-loop",
        severity="error",
        fix="unsafe",
        family="identity",
        summary="A call in a loop has the same identity in every iteration.",
        advice="let `key`, label or deps vary with the iteration",
        why=(
            "Inserting or removing an item shifts every recorded answer behind it to the "
            "wrong item. A constant `key` is worse than none: it hides a varying prompt "
            "from the journal."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    notes = {}
    for path in args["paths"]:
        notes[path] = await ctx.agent(f"Review {path}", key="review")  # RLV402
    return notes
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    notes = {}
    for path in args["paths"]:
        notes[path] = await ctx.agent(f"Review {path}", key=f"review-{path}")
    return notes
""",
        suppress="When the iterations are interchangeable, as in best-of-n.",
    ),
    RuleInfo(
        code="RLV403",
        name="incomplete-deps",
        severity="warning",
        fix="unsafe",
        family="identity",
        summary="A step declares deps but uses a local variable that is not among them.",
        advice="list it in `deps`",
        why=(
            "The identity of the step does not say what it depends on: with another value "
            "of the variable the recorded result is served all the same."
        ),
        bad="""\
from app.storage import put_object

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    bucket = args["bucket"]
    report = await ctx.agent("Write the report")
    return await ctx.step("upload", lambda: put_object(bucket, report), deps=[bucket])  # RLV403
""",
        good="""\
from app.storage import put_object

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    bucket = args["bucket"]
    report = await ctx.agent("Write the report")
    return await ctx.step("upload", lambda: put_object(bucket, report), deps=[bucket, report])
""",
        suppress="When the variable does not influence the result.",
    ),
    RuleInfo(
        code="RLV404",
        name="step-without-deps",
        severity="warning",
        fix="unsafe",
        family="identity",
        summary="A step uses local variables and declares no deps.",
        advice="list them in `deps`",
        why=(
            "The label alone identifies the step, so with other inputs the recorded result "
            "is served. Off by default: a step that runs once per run needs no deps."
        ),
        bad="""\
from app.issues import fetch_open_issues

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    repo = args["repo"]
    return await ctx.step("fetch-issues", lambda: fetch_open_issues(repo))  # RLV404
""",
        good="""\
from app.issues import fetch_open_issues

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    repo = args["repo"]
    return await ctx.step("fetch-issues", lambda: fetch_open_issues(repo), deps=[repo])
""",
        suppress="When the inputs cannot change while the run lives.",
        default_on=False,
    ),
    RuleInfo(
        code="RLV405",
        name="non-serializable-result",
        severity="error",
        fix="none",
        family="identity",
        summary="A step returns something that is not JSON.",
        advice="return plain JSON data",
        why=(
            "The result is written to the journal and comes back from it. Sets, generators, "
            "functions, handles, raw responses and bytes cannot make that trip and are "
            "refused at run time."
        ),
        bad="""\
import requests

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.step("page", lambda: requests.get(args["url"]))  # RLV405
""",
        good="""\
import requests

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.step("page", lambda: requests.get(args["url"]).json())
""",
        suppress="With `returns=`, when the type can be written and revived.",
    ),
)
