"""Random state machines as data, and the classes and tools that they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypedDict

from hypothesis import strategies as st

from rulvar import FanOut, Input, MachineCtx, Retry, StateMachine, document, tool, transition
from rulvar.errors import ToolFailedError

NAMES = st.sampled_from(["a", "b", "c"])
CALLS = st.tuples(NAMES, st.sampled_from([0, 0, 0, 1, 3]))
OPS = st.one_of(
    st.tuples(st.just("tool"), CALLS),
    st.tuples(st.just("parallel"), st.lists(CALLS, max_size=3)),
    st.tuples(st.just("caught"), CALLS),
    st.tuples(st.just("state"), st.tuples(NAMES, st.integers(0, 3))),
    st.tuples(st.just("gone"), NAMES),
    st.tuples(st.just("document"), st.tuples(NAMES, st.booleans())),
    st.tuples(st.just("result"), st.tuples(NAMES, st.integers(0, 3))),
    st.tuples(st.just("child"), st.booleans()),
    st.tuples(st.just("fan"), st.integers(0, 2)),
    st.tuples(st.just("random"), st.none()),
)
LINKS = st.fixed_dictionaries(
    {
        "ops": st.lists(OPS, max_size=4),
        "wait": st.sampled_from([False, False, True]),
        "retry": st.integers(0, 2),
        "error": st.booleans(),
    }
)
MACHINES = st.lists(LINKS, min_size=1, max_size=4)


@document
class Note(TypedDict):
    text: str


class Bench:
    """The tools of one random machine, which count their executions."""

    def __init__(self) -> None:
        self.executions: Counter[str] = Counter()

        @tool(effects="read", documents=[Note])
        def work(name: str, fails: int, attempt: int) -> dict[str, Any]:
            """Fail as long as there are attempts to fail."""
            self.executions[f"{name} {fails} {attempt}"] += 1
            if attempt < fails:
                raise RuntimeError("failed")
            return {"name": name, "attempt": attempt}

        self.work = work

    def machine(self, links: list[Mapping[str, Any]]) -> type[StateMachine]:
        """Return the class that a description means: a chain of transitions, some of which wait."""
        members: dict[str, Any] = {}
        for number, link in enumerate(links):
            from_ = "start" if number == 0 else f"p{number}"
            to = "end" if number == len(links) - 1 else f"p{number + 1}"
            error = f"broken{number}" if link["error"] else None
            options: dict[str, Any] = {"retry": Retry(link["retry"], delay=0.0), "error_place": error}
            body = self._body(link["ops"], number)
            members[f"t{number}"] = transition(to, from_, wait=link["wait"], **options)(body)
            if error is not None:
                members[f"recover{number}"] = transition(to, error, wait=True)(self._body((), number))
        return type("Random", (StateMachine,), members)

    def _body(self, ops: Any, number: int) -> Any:
        async def body(machine: Any, ctx: MachineCtx, input: Input | None = None) -> None:
            for op, args in ops:
                await self._do(ctx, op, args)
            if input is not None:
                ctx.state[f"input{number}"] = input.data

        return body

    async def _do(self, ctx: MachineCtx, op: str, args: Any) -> None:
        def call(name: str, fails: int) -> Any:
            return ctx.call_tool(
                self.work, {"name": name, "fails": fails, "attempt": ctx.retry_count}, key=f"work {name}"
            )

        if op == "tool":
            ctx.state[args[0]] = await call(*args)
        elif op == "parallel":
            ctx.state["all"] = await ctx.parallel([lambda one=one: call(*one) for one in args])
        elif op == "caught":
            try:
                await call(*args)
            except ToolFailedError as error:
                ctx.state["caught"] = str(error)
        elif op == "state":
            ctx.state[args[0]] = args[1]
        elif op == "gone":
            ctx.state.pop(args, None)
        elif op == "document":
            ctx.save(Note, {"text": args[0]}, key=args[0] if args[1] else None)
        elif op == "result":
            ctx.result[args[0]] = args[1]
        elif op == "child":
            ctx.start(Small if args else Failing, {"n": 1})
        elif op == "fan":
            ctx.start(FanOut.of(Small), {"items": [{"n": n} for n in range(args)], "mode": "all_settled"})
        elif op == "random":
            ctx.state["drawn"] = ctx.random()


class Small(StateMachine):
    @transition
    async def work(self, ctx: MachineCtx) -> None:
        ctx.result["n"] = await ctx.step("double", lambda: 2)


class Failing(StateMachine):
    @transition(retry=Retry(1, delay=0.0))
    async def work(self, ctx: MachineCtx) -> None:
        raise RuntimeError("always")
