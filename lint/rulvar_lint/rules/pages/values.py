"""Values that differ between processes: the rules as people read them."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

TITLE: Final = "Values that differ between processes"
INTRO: Final = """\
These values look constant and are not: the order of a set, the hash of a text, a default
computed at import, a cache that only this process has."""

RULES: Final = (
    RuleInfo(
        code="RLV201",
        name="unordered-iteration",
        severity="error",
        fix="unsafe",
        family="values",
        summary="The arbitrary order of a set becomes visible.",
        advice="use `sorted(...)`, or `dict.fromkeys(...)` to remove duplicates",
        why=(
            "Text hashes are salted per process, so a set of texts has another order in "
            "every process: the prompt changes, calls come in another order, results are "
            "matched to the wrong call. What does not look at the order (`sorted`, `len`, "
            "`in`, `min`, `any`, adding to another set) is not reported, and neither are "
            "small integers."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    unique = list(set(args["tags"]))  # RLV201
    return await ctx.agent(f"Merge these tags: {unique}")
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    unique = sorted(set(args["tags"]))
    return await ctx.agent(f"Merge these tags: {unique}")
""",
        suppress="When the order cannot reach anything that is journaled.",
    ),
    RuleInfo(
        code="RLV202",
        name="identity-hash",
        severity="error",
        fix="none",
        family="values",
        summary="A memory address or a salted hash becomes a value.",
        advice="use `hashlib`, or name the fields that matter",
        why=(
            "`hash()` of text is salted per process, `id()` and the default text of objects "
            "and functions are memory addresses. Data classes, enums, models and classes "
            "with their own `__repr__` are stable and not reported."
        ),
        bad="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent(f"Use shard {hash(args['doc']) % 4}")  # RLV202
""",
        good="""\
import hashlib

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    digest = hashlib.sha256(args["doc"].encode()).hexdigest()
    return await ctx.agent(f"Use shard {int(digest, 16) % 4}")
""",
        suppress="When the number cannot reach anything that is journaled.",
    ),
    RuleInfo(
        code="RLV203",
        name="import-time-capture",
        severity="error",
        fix="none",
        family="values",
        summary=(
            "Replayed code uses a value that was computed at import from a clock, chance, a file or the host."
        ),
        advice="pass it in through args, or journal the read",
        why=(
            "The value is constant in one process and another one in the next: exactly the "
            "resume sees a different one. Reported where replayed code uses it."
        ),
        bad="""\
import os

from rulvar import Ctx, workflow


MODEL = os.environ.get("MODEL", "small")


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent("Write", model=MODEL)  # RLV203
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent("Write", model=args["model"])
""",
        suppress="When the value is the same in every process that can resume the run.",
    ),
    RuleInfo(
        code="RLV204",
        name="impure-default-factory",
        severity="error",
        fix="unsafe",
        family="values",
        summary="A data class or model fills a field from a clock, chance or the host.",
        advice="pass the field, with a value from ctx",
        why=("The factory runs again on every replay, hidden behind what looks like a plain constructor."),
        bad="""\
import uuid
from dataclasses import dataclass, field

from rulvar import Ctx, workflow


@dataclass
class Task:
    title: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@workflow
async def flow(ctx: Ctx, args: dict):
    task = Task(args["title"])  # RLV204
    return await ctx.agent(f"Plan {task.id}")
""",
        good="""\
import uuid
from dataclasses import dataclass, field

from rulvar import Ctx, workflow


@dataclass
class Task:
    title: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@workflow
async def flow(ctx: Ctx, args: dict):
    task = Task(args["title"], id=ctx.uuid().hex)
    return await ctx.agent(f"Plan {task.id}")
""",
        suppress="When the field is never used in the run.",
    ),
    RuleInfo(
        code="RLV205",
        name="module-mutable-state",
        severity="error",
        fix="none",
        family="values",
        summary="Replayed code reads or writes state that outlives the run.",
        advice="use args and return values",
        why=(
            "A module-level cache, counter, context variable or mutable default is empty in "
            "the process that resumes and shared between the runs of one process. Constants "
            "that nothing changes, registries filled at import and caches of pure functions "
            "are not reported."
        ),
        bad="""\
from rulvar import Ctx, workflow


_CACHE: dict[str, str] = {}


@workflow
async def flow(ctx: Ctx, args: dict):
    key = args["url"]
    if key in _CACHE:  # RLV205
        return _CACHE[key]  # RLV205
    _CACHE[key] = await ctx.agent(f"Summarise {key}")  # RLV205
    return _CACHE[key]  # RLV205
""",
        good="""\
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent(f"Summarise {args['url']}")
""",
        suppress="When the state only saves work and can change neither calls nor results.",
    ),
    RuleInfo(
        code="RLV206",
        name="host-locale-format",
        severity="warning",
        fix="unsafe",
        family="values",
        summary="A text depends on the time zone or locale of the host.",
        advice="pass a time zone and a fixed format",
        why="The same instant is written differently on the machine that resumes.",
        bad="""\
from datetime import datetime

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    at = datetime.fromtimestamp(args["ts"])  # RLV206
    return await ctx.agent(f"Report for {at}")
""",
        good="""\
from datetime import datetime, timezone

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    at = datetime.fromtimestamp(args["ts"], tz=timezone.utc)
    return await ctx.agent(f"Report for {at:%Y-%m-%d %H:%M}")
""",
        suppress="When all hosts share one time zone and locale for good.",
    ),
    RuleInfo(
        code="RLV207",
        name="unsorted-json-in-identity",
        severity="warning",
        fix="unsafe",
        family="values",
        summary="JSON without sorted keys becomes part of a prompt, key or deps.",
        advice="pass `sort_keys=True`",
        why=(
            "The text follows the order in which keys were added, so a harmless refactoring "
            "re-keys the call. Off by default: with stable data the order is stable too."
        ),
        bad="""\
import json

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    data = {"title": args["title"], **args["extra"]}
    return await ctx.agent("Check " + json.dumps(data))  # RLV207
""",
        good="""\
import json

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    data = {"title": args["title"], **args["extra"]}
    return await ctx.agent("Check " + json.dumps(data, sort_keys=True))
""",
        suppress="When the order of keys carries meaning.",
        default_on=False,
    ),
    RuleInfo(
        code="RLV208",
        name="traceback-in-identity",
        severity="warning",
        fix="none",
        family="values",
        summary="The text of a traceback is used as a value.",
        advice="use the message of the error, which is journaled",
        why=(
            "A traceback holds paths, line numbers and addresses that change with every "
            "deploy and machine. The error of a replayed step carries the same message as "
            "the live one."
        ),
        bad="""\
import traceback

from app.patches import apply_patch

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    try:
        await ctx.step("apply", lambda: apply_patch(args["patch"]))
    except ValueError:
        return await ctx.agent(f"Fix this:\\n{traceback.format_exc()}")  # RLV208
    return "ok"
""",
        good="""\
from app.patches import apply_patch

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    try:
        await ctx.step("apply", lambda: apply_patch(args["patch"]))
    except ValueError as err:
        return await ctx.agent(f"Fix this:\\n{err}")
    return "ok"
""",
        suppress="When it only reaches a log.",
    ),
)
