"""Triage of an incoming bug report: five model calls, one tool, two branches side by side."""

from typing import TypedDict

from rulvar import Ctx, tool, workflow


class Verdict(TypedDict):
    severity: str
    component: str


class Review(TypedDict):
    approved: bool
    note: str


OWNERS = {"parser": "ana", "network": "bo", "docs": "cleo"}
KNOWN_ISSUES = {
    "#101": "Crash when the header is empty",
    "#117": "Timeout behind a proxy",
    "#130": "Typo on the start page",
}


@tool
def search_issues(words: str) -> list[str]:
    """Find known issues whose title holds all of the words."""
    wanted = words.lower().split()
    return [
        f"{number} {title}"
        for number, title in KNOWN_ISSUES.items()
        if all(word in title.lower() for word in wanted)
    ]


async def summarize(ctx: Ctx, report: str) -> str:
    return await ctx.agent(f"Summarize in one sentence:\n{report}", agent_type="writer", label="summary")


async def find_duplicates(ctx: Ctx, report: str) -> str:
    return await ctx.agent(
        f"Is this a known issue? Search before you answer.\n{report}",
        agent_type="librarian",
        label="duplicates",
        tools=[search_issues],
    )


def owner_of(component: str) -> str:
    return OWNERS.get(component, "the duty desk")


@workflow(name="triage")
async def triage(ctx: Ctx, args: dict):
    report = args["report"]
    verdict = await ctx.agent(f"Classify this bug report:\n{report}", agent_type="classifier", schema=Verdict)
    summary, duplicates = await ctx.parallel(
        [lambda: summarize(ctx, report), lambda: find_duplicates(ctx, report)]
    )
    owner = await ctx.step("look up the owner", lambda: owner_of(verdict["component"]), deps=[verdict])
    reply = await ctx.agent(
        f"Write to the reporter. Severity: {verdict['severity']}. {summary} {duplicates} Owner: {owner}.",
        agent_type="writer",
        label="reply",
    )
    review = await ctx.agent(f"Review before it is sent:\n{reply}", agent_type="reviewer", schema=Review)
    return {
        "verdict": verdict,
        "owner": owner,
        "reply": reply,
        "approved": review["approved"],
        "received": ctx.now().date().isoformat(),
    }
