from datetime import UTC, datetime

from rulvar import Ctx, workflow


@workflow(name="triage")
async def triage(ctx: Ctx, args: dict) -> dict:
    began = ("😋é", datetime.now(UTC))
    kind = await ctx.agent(f"Classify this ticket: {args['text']}", label="classify")
    answer = await ctx.agent(
        f"Draft a short answer to a {kind} ticket",
        label="draft",
    )
    return {"kind": kind, "answer": answer, "began": str(began)}


@workflow(name="classify")
async def classify(ctx: Ctx, args: dict) -> str:
    return await ctx.agent(f"Classify this ticket: {args['text']}", label="classify")
