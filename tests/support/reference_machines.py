"""The reference tools and machines of the acceptance scenarios, over the public surface of rulvar.

Every tool counts its executions in ``Reference.executions``; a fresh set is made per test.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, Literal

from pydantic import BaseModel

from rulvar import App, MachineCtx, StateMachine, ToolRefusal, Widget, document, tool, transition
from rulvar.hitl import AskUser


class Severity(BaseModel):
    severity: Literal["high", "normal"]
    keyword: str | None


class Total(BaseModel):
    total: int


class Text(BaseModel):
    text: str


class Approved(BaseModel):
    approved: bool


class Terms(BaseModel):
    a: int
    b: int


class Again(BaseModel):
    retry: bool


@document
class TriageReport(BaseModel):
    role: str
    text: str


@document(widget="confirm-prompt")
class ApprovalPrompt(BaseModel):
    question: str


@document(widget=Widget("confirm-prompt", transition="recover"), enable_at="recovery")
class RecoveryPrompt(BaseModel):
    question: str


def reference_tools() -> SimpleNamespace:
    """Return the reference tools, and the counter of their executions."""
    executions: Counter[str] = Counter()

    @tool(result_schema=Severity)
    async def classify_ticket(text: str) -> dict[str, Any]:
        """Classify a ticket."""
        executions["classify_ticket"] += 1
        found = next((w for w in ("down", "outage", "urgent", "critical") if w in text.lower()), None)
        return {"severity": "normal" if found is None else "high", "keyword": found}

    @tool(result_schema=Total)
    async def math_sum(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        executions["math_sum"] += 1
        return {"total": a + b}

    @tool(effects="read")
    async def fetch_data(id: str) -> dict[str, str]:
        """Fetch a body."""
        executions["fetch_data"] += 1
        return {"body": "live"}

    @tool(id="orders.lookup", effects="read")
    def lookup(order_id: str) -> dict[str, str]:
        """Look an order up."""
        executions["orders.lookup"] += 1
        return {"status": "shipped" if order_id == "A1" else "unknown"}

    @tool(id="orders.refund", effects="write", capabilities=["payments:refund"], cost_micros=10)
    def refund(order_id: str, amount: int) -> dict[str, bool]:
        """Refund an order."""
        executions["orders.refund"] += 1
        if order_id == "A0":
            raise ToolRefusal("nothing to refund")
        if order_id == "ERR":
            raise RuntimeError("PRIVATE row 7")
        return {"ok": True}

    @tool(id="orders.peek", effects="read", cost_micros=4)
    def peek(order_id: str) -> dict[str, bool]:
        """Look at an order."""
        executions["orders.peek"] += 1
        if order_id == "ERR":
            raise RuntimeError("PRIVATE row 8")
        return {"seen": True}

    return SimpleNamespace(
        executions=executions,
        classify_ticket=classify_ticket,
        math_sum=math_sum,
        fetch_data=fetch_data,
        lookup=lookup,
        refund=refund,
        peek=peek,
    )


def reference_machines(**fetching: Any) -> SimpleNamespace:
    """Return the reference machines with their tools; ``fetching`` are the options of Fetcher's transition."""
    tools = reference_tools()
    classify_ticket, math_sum, fetch_data = tools.classify_ticket, tools.math_sum, tools.fetch_data

    class TriageTicket(StateMachine, args=Text):
        @transition(to="classified")
        async def classify(self, ctx: MachineCtx) -> None:
            found = await ctx.call_tool(classify_ticket, {"text": ctx.args.text})
            ctx.state.update(severity=found.severity, keyword=found.keyword)

        @transition(from_="classified", to="awaiting_approval")
        async def report(self, ctx: MachineCtx) -> None:
            severity = ctx.state["severity"]
            ctx.save(TriageReport(role="assistant", text=f"Severity: {severity}"), key="report")
            ctx.save(
                ApprovalPrompt(question=f"Severity {severity}. Approve?"), options={"transition": "approve"}
            )

        @transition(from_="awaiting_approval", to="end", wait=True, payload=Approved)
        async def approve(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result.update(severity=ctx.state["severity"], approved=input.data.approved)

    class Chat(StateMachine):
        @transition(to="waiting_for_user")
        def greet(self, ctx: MachineCtx) -> None:
            ctx.state["turns"] = 0

        @transition(from_="waiting_for_user", to="replying", wait=True, payload=Text)
        def user_message(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state.turns += 1

        @transition(from_="replying", to="waiting_for_user")
        def loop(self, ctx: MachineCtx) -> None:
            pass

    class AskName(StateMachine):
        @transition(to="asking")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(AskUser, {"question": "What is your name?"}, on_done="on_answer")

        @transition(from_="asking", to="end", wait=True)
        def on_answer(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["greeting"] = f"Hello, {input.data['answer']}"

    class Worker(StateMachine):
        @transition(to="working")
        def begin(self, ctx: MachineCtx) -> None:
            pass

        @transition(from_="working", to="end", wait=True)
        def done(self, ctx: MachineCtx) -> None:
            pass

    class Provision(StateMachine):
        @transition(to="provisioning")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Worker, on_done="on_provisioned")
            ctx.save(RecoveryPrompt(question="Try again?"))

        @transition(from_="provisioning", to="end", wait=True, error_place="recovery")
        def on_provisioned(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["provisioned"] = True

        @transition(from_="recovery", to="end", wait=True, payload=Again)
        def recover(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["recovered"] = True

    class InlineProvision(StateMachine):
        @transition(to="provisioning")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Worker, on_done="on_provisioned")

        @transition(from_="provisioning", to="end", wait=True)
        def on_provisioned(self, ctx: MachineCtx, input: Any) -> None:
            assert input.data is None
            ctx.result.update(status=input.status, has_error=input.has_error, message=input.message)

    class Events(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            pass

        @transition(from_="open", to="open", wait=True)
        def on_event(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["last_status"] = input.status

    class Sum(StateMachine, args=Terms):
        @transition
        async def add(self, ctx: MachineCtx) -> None:
            made = await ctx.call_tool(math_sum, {"a": ctx.args.a, "b": ctx.args.b})
            ctx.result["total"] = made["total"] if isinstance(made, dict) else made.total

    class TwoCalls(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            total = (await ctx.call_tool(math_sum, {"a": 1, "b": 2})).total
            severity = (await ctx.call_tool(classify_ticket, {"text": "ok"})).severity
            ctx.result.update(total=total, severity=severity)

    class Fetcher(StateMachine):
        @transition(to="end", **fetching)
        async def fetch(self, ctx: MachineCtx) -> None:
            ctx.result["body"] = (await ctx.call_tool(fetch_data, {"id": "x"}))["body"]

    class Hang(StateMachine):
        @transition(to="end", timeout=0.05)
        async def hang(self, ctx: MachineCtx) -> None:
            await asyncio.Event().wait()

    machines = (
        TriageTicket,
        Chat,
        AskName,
        Worker,
        Provision,
        InlineProvision,
        Events,
        Sum,
        TwoCalls,
        Fetcher,
        Hang,
    )
    return SimpleNamespace(
        **{machine.__name__: machine for machine in machines},
        **vars(tools),
        app=App("reference", machines=[TriageTicket, Provision, AskName]),
    )
