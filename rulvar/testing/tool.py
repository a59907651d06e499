"""``run_tool``: one tool on its own, through the same pipeline as in a run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rulvar.contracts.envelope import Receipt
from rulvar.contracts.outcome import Outcome
from rulvar.contracts.ports.clock import Clock
from rulvar.contracts.stream import WireError
from rulvar.engine.ctx import Ctx, run_of
from rulvar.engine.engine import Engine
from rulvar.engine.handle import RunHandle
from rulvar.engine.primitives.tool_call import ToolOptions, run_tool_call
from rulvar.engine.providers import Providers
from rulvar.engine.workflow import define_workflow
from rulvar.errors import ConfigError, InvalidInputError, NonSerializableValueError
from rulvar.kernel.ledger import usd
from rulvar.machines.mentions import find_mentions
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.engine import ImpatientClock
from rulvar.testing.machine import root_cause
from rulvar.testing.options import read_overrides, read_scope
from rulvar.testing.tokens import check_tokens
from rulvar.tools.faults import is_recorded_fault, recorded_fault
from rulvar.tools.grants import tool_grants
from rulvar.tools.tool import Tool

__all__ = ["ToolTestRun", "run_tool", "test_tool"]

SCOPE = {"principal": "test", "project": "test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTestRun:
    """What one call of a tool came to.

    Attributes:
        outcome: ``ok`` with the result data as its value, or why not.
        spent_micros: what the call was charged, in micro-USD.
        reserved_micros: what is still held for a call whose outcome is unknown.
        receipt: what is known of the execution.
        exception: what the tool raised; never journaled.
    """

    outcome: Outcome
    spent_micros: int
    reserved_micros: int
    receipt: Receipt | None
    exception: BaseException | None = None

    @property
    def output(self) -> Any:
        """The result data; None unless the outcome is ok."""
        return self.outcome.value


async def run_tool(
    tool: Tool,
    input: Any = None,
    *,
    grants: Iterable[str] | None = None,
    scope: Mapping[str, Any] | None = None,
    budget_micros: int | None = None,
    signal: asyncio.Event | None = None,
    run_id: str = "test-run",
    call_id: str = "test-call",
    providers: Iterable[Any] | Mapping[Any, Any] = (),
    overrides: Mapping[Any, Any] | None = None,
    clock: Clock | None = None,
    config: Any = None,
) -> ToolTestRun:
    """Run one tool with the checks that a run applies: grants, input and output, guards, timeout, cost.

    Args:
        input: the arguments object.
        grants: what may be used; exactly what the tool needs unless given.
        scope: what the run belongs to.
        budget_micros: ceiling in micro-USD; the tool's own cost unless given.
        signal: cancels the call when it is set.
        providers, overrides: services of the tool; see ``run_workflow``.
        clock: with a TestClock, the tool's timeout waits for it.
        config: settings of the call.

    Raises:
        ConfigError: an option is wrong, or the tool runs an agent. What goes wrong in the call is in the outcome.
    """
    if not isinstance(tool, Tool):
        raise ConfigError(
            f"run_tool: expected a tool made by @tool, got {type(tool).__name__}", data={"field": "tool"}
        )
    if "agent:delegate" in tool.capabilities:
        raise ConfigError(
            f"run_tool: tool {tool.id} runs an agent, which needs a run to be the child of; test it as a tool of an "
            "agent that an engine runs",
            data={"field": "tool", "tool": tool.id, "code": "invalid_config"},
        )
    overrides, scope = read_overrides(overrides), read_scope(scope)
    mentions = find_mentions([tool])
    check_tokens([("overrides", token) for token in overrides], mentions.tools, mentions.tokens)
    if signal is not None and not callable(getattr(signal, "is_set", None)):
        raise ConfigError(
            f"run_tool signal: expected an asyncio.Event, got {type(signal).__name__}",
            data={"field": "signal"},
        )
    options = ToolOptions(config=config, call_id=call_id, signal=signal)

    async def call(ctx: Ctx) -> Any:
        try:
            return await run_tool_call(run_of(ctx), tool, input, options, None)
        except NonSerializableValueError as error:
            text = f"arguments of tool {tool.id} do not fit: {error.message}"
            raise InvalidInputError(text, data={"tool": tool.id, **error.data}) from error
        except asyncio.CancelledError:
            # what was interrupted keeps its own end: a write may have happened
            ended = (await _step(store, run_id)) or {}
            if (fault := ended.get("error")) and is_recorded_fault(fault["code"]):
                raise recorded_fault(fault) from None
            raise

    store = InMemoryStore()
    engine = Engine(
        journal=store,
        clock=clock or ImpatientClock(),
        grants=tool_grants(tool) if grants is None else grants,
        providers=Providers(providers, overrides),
    )
    budget = tool.cost_micros if budget_micros is None else budget_micros
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise ConfigError(
            f"budget_micros={budget_micros!r}: expected whole micro-USD from 0 up",
            data={"field": "budget_micros"},
        )
    async with engine:
        handle = engine.run(
            define_workflow(f"run_tool {tool.id}", call),
            run_id=run_id,
            scope=dict(SCOPE if scope is None else scope),
            budget_usd=usd(budget),
        )
        async with _watching(handle, signal):
            outcome = await handle.result()
    step = await _step(store, run_id)
    receipt = Receipt.from_wire(step["receipt"]) if step is not None else None
    if receipt is None and outcome.error is not None and outcome.error.code == InvalidInputError.code:
        receipt = Receipt(call_id=call_id, tool_id=tool.id, execution="not_started", disclosure="withheld")
    if outcome.status == "cancelled" and step is not None and "error" in step:
        outcome = replace(outcome, error=WireError.from_wire(step["error"]))
    return ToolTestRun(
        outcome=outcome,
        spent_micros=0 if receipt is None else receipt.spent_micros,
        reserved_micros=0 if receipt is None else receipt.reserved_micros,
        receipt=receipt,
        exception=root_cause(None if handle._run is None else handle._run.failure),
    )


test_tool = run_tool
test_tool.__test__ = False  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def _watching(handle: RunHandle, signal: asyncio.Event | None) -> Any:
    """Cancel the run when the signal is set while it runs."""
    if signal is None or signal.is_set():
        yield
        return

    async def watch() -> None:
        await signal.wait()
        await handle.cancel("the signal was set")

    watcher = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


async def _step(store: InMemoryStore, run_id: str) -> dict[str, Any] | None:
    for entry in reversed(await store.load(run_id)):
        wire = entry.to_wire()
        if entry.kind == "step" and isinstance(wire.get("receipt"), dict):
            return wire
    return None
