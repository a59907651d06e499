"""The same triage, written the way that breaks replay. `rulvar-lint` says why, line by line."""

import os
import random
import time
import uuid
from datetime import datetime

from rulvar import Ctx, workflow


def ticket_number() -> str:
    return f"T-{uuid.uuid4()}"


@workflow(name="unstable-triage")
async def unstable_triage(ctx: Ctx, args: dict):
    today = datetime.now()
    verdict = await ctx.agent(
        f"{today}: classify this bug report:\n{args['report']}", agent_type="classifier"
    )
    if random.random() < 0.1:
        await ctx.agent(f"Double-check: {verdict}", agent_type="reviewer")
    number = ticket_number()
    components = {word for word in args["report"].split() if word.islower()}
    reply = await ctx.agent(
        f"Answer ticket {number} about {', '.join(components)} for {os.environ['TEAM']}", agent_type="writer"
    )
    ctx.agent(f"Review before it is sent:\n{reply}", agent_type="reviewer")
    return {"reply": reply, "finished": time.time()}
