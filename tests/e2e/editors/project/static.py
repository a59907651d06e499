from rulvar import Ctx, workflow


@workflow(name="static")
async def static(ctx: Ctx, args: dict) -> dict:
    kind = await ctx.agent("Classify this ticket: It crashes.", label="classify")
    answer = await ctx.agent("Draft a short answer to a bug ticket", label="draft")
    return {"kind": kind, "answer": answer}
