"""The one tool pipeline: every call of a tool, from a workflow, a transition or an agent, goes through it.

::

    cancelled? -> grants -> arguments -> gate -> input guards -> reserve
        -> interceptors -> the tool -> settle, receipt -> result schema -> output guards

What a call came to is data: an envelope or an error, and always a receipt. Whoever calls journals it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from rulvar.contracts.envelope import Receipt, ToolEnvelope, decode_envelope
from rulvar.contracts.exception_text import exception_text
from rulvar.contracts.jsonable import JSON_TYPES, journal_value
from rulvar.contracts.ports.clock import Clock
from rulvar.contracts.ports.tools import Handler, Proceed
from rulvar.errors import (
    CallTimeoutError,
    ControlFlow,
    InvalidInputError,
    InvalidOutputError,
    NonSerializableValueError,
    OutcomeUnknownError,
    PermissionDeniedError,
    RulvarError,
    ToolCancelledError,
    ToolFailedError,
)
from rulvar.tools.deadline import Deadline
from rulvar.tools.grants import missing_grant
from rulvar.tools.guards import Refused, check_guards
from rulvar.tools.injection import ToolContext
from rulvar.tools.tool import ModelRetry, Tool, ToolRefusal

__all__ = ["Purse", "ToolRun", "ToolTask", "release_envelope", "run_tool_task"]

_LONGEST_REFUSAL = 512
_REFUSALS = (ToolRefusal, ModelRetry)


class Purse(Protocol):
    """Pays for a call."""

    def reserve(self, micros: int) -> None:
        """Promise what the call may cost.

        Raises:
            BudgetExceededError: a ceiling does not admit it.
        """

    def settle(self, spent: int, held: int) -> None:
        """Book what was spent, keep what is uncertain, and give the rest of the promise back."""


class ToolTask(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One call and what it needs.

    Attributes:
        arguments: as JSON.
        context: what the tool is told of the call; its ``signal`` cancels the call before it begins.
        handlers: what the interceptors claimed, outermost first.
        grants: what may be used; None when no grants are in force.
        gate: asks the gate; returns why the call is refused, or None.
    """

    tool: Tool
    arguments: Any
    context: ToolContext
    clock: Clock
    purse: Purse | None = None
    handlers: Sequence[Handler] = ()
    grants: frozenset[str] | None = None
    gate: Callable[[], Awaitable[RulvarError | None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """What a call came to.

    Attributes:
        envelope: the checked result; None when there is an error.
        error: what is told of a failure.
        receipt: what is known of the execution.
        raw: the envelope as the tool or an interceptor gave it.
        exception: what the tool raised; for a debugger, never for a journal.
        interrupted: a cancellation from outside, to be raised once the call is journaled.
    """

    receipt: Receipt
    envelope: ToolEnvelope | None = None
    error: RulvarError | None = None
    raw: ToolEnvelope | None = None
    exception: BaseException | None = None
    interrupted: BaseException | None = None


async def run_tool_task(task: ToolTask) -> ToolRun:
    """Run one call through the pipeline."""
    execution = _Execution(task)
    try:
        _precheck(task)
        if task.gate is not None:
            refusal = await task.gate()
            if refusal is not None:
                raise Refused(refusal)
    except Refused as refused:
        return execution.not_started(refused.error)
    except BaseException:
        execution.withdraw()
        raise
    return await execution.run()


# -- before the tool -------------------------------------------------------------------------


def _precheck(task: ToolTask) -> None:
    """Raise Refused when the call may not even be looked at."""
    tool = task.tool
    if task.context.signal.is_set():
        raise Refused(
            ToolCancelledError(f"tool {tool.id} was cancelled before it began", data={"tool": tool.id})
        )
    missing = missing_grant(task.grants, tool)
    if missing is not None:
        raise Refused(
            PermissionDeniedError(
                f"tool {tool.id} is denied: the grant {missing!r} is not given",
                data={"tool": tool.id, "missing": missing},
            )
        )
    issues = tool.parameters.issues(task.arguments, hides_values=True)
    if issues:
        raise Refused(
            InvalidInputError(
                f"arguments of tool {tool.id} do not fit: {_first(issues, 'args')}",
                data={"tool": tool.id, "issues": [issue.to_wire() for issue in issues]},
            )
        )


# -- the tool and what comes after -----------------------------------------------------------


class _Unfit(Exception):
    """A tool has done its work, and what it returned is no JSON."""

    def __init__(self, error: InvalidOutputError) -> None:
        super().__init__(error.message)
        self.error = error


class _Execution:
    """A call that the gate let through."""

    def __init__(self, task: ToolTask) -> None:
        self.task = task
        self.tool = task.tool
        self.uncertain = task.tool.effects in ("write", "host")
        self.started = False
        self.raised: BaseException | None = None
        self.receipt: Receipt | None = None

    async def run(self) -> ToolRun:
        task = self.task
        deadline = Deadline(task.clock, self.tool.timeout)
        try:
            with deadline:
                await check_guards(self.tool, self.tool.guards.input, task.arguments, task.context, "input")
                self._reserve()
                return await self._returned(await self._intercepted()())
        except Refused as refused:
            return self.not_started(refused.error, refused.exception)
        except _Unfit as unfit:
            return self._returned_no_json(unfit)
        except ControlFlow:
            self._settle(0, 0, "not_started")
            raise
        except asyncio.CancelledError as error:
            return self._interrupted(error)
        except Exception as error:
            if error is not self.raised and isinstance(error, RulvarError):
                return self._failed(error, "not_started" if self.raised is None else "failed", 0, 0, error)
            return self._refused(error) if isinstance(error, _REFUSALS) else self._broken(error)
        return self._interrupted(None)  # the deadline has ended the block

    def not_started(self, error: RulvarError, exception: BaseException | None = None) -> ToolRun:
        self.withdraw()
        return ToolRun(receipt=self._receipt("not_started"), error=error, exception=exception)

    def withdraw(self) -> None:
        for handler in self.task.handlers:
            handler.withdraw()

    def _reserve(self) -> None:
        if self.task.purse is not None and self.tool.cost_micros:
            try:
                self.task.purse.reserve(self.tool.cost_micros)
            except RulvarError as error:
                raise Refused(error) from None
        self.started = True

    def _intercepted(self) -> Proceed:
        proceed: Proceed = self._call
        for handler in reversed(self.task.handlers):
            proceed = _bound(handler, proceed)
        return proceed

    async def _call(self) -> ToolEnvelope:
        """Run the tool, and remember that an exception was its own and not an interceptor's."""
        try:
            return await self._function()
        except BaseException as error:
            self.raised = error
            raise

    async def _function(self) -> ToolEnvelope:
        tool, context = self.tool, self.task.context
        extra: dict[str, Any] = {name: self._provided(item.token) for name, item in tool.injected.items()}
        if tool.context is not None:
            extra[tool.context] = context
        given = self.task.arguments
        arguments = tool.parameters.revive(given) if tool.revives else given
        if tool.takes_object or not isinstance(given, dict):
            value = tool.function(arguments, **extra)
        else:
            value = tool.function(**arguments, **extra)
        if type(value) not in JSON_TYPES and inspect.isawaitable(value):
            value = await value
        try:
            return _enveloped(tool, value)
        except NonSerializableValueError as error:
            text = f"the result of tool {tool.id} does not fit: {error.message}"
            raise _Unfit(InvalidOutputError(text, data={"tool": tool.id, **error.data})) from error

    def _provided(self, token: Any) -> Any:
        provide = self.task.context.provide
        assert provide is not None
        return provide(token)

    async def _returned(self, raw: ToolEnvelope) -> ToolRun:
        if raw.error is not None:
            error = ToolFailedError(raw.error, data={"tool": self.tool.id})
            return ToolRun(receipt=self._settle(self._known(), 0, "failed"), error=error, raw=raw)
        spent, held = self.task.context.usage or (self.tool.cost_micros, 0)
        receipt = self._settle(spent, held, "unknown" if held else "succeeded")
        if held:
            return ToolRun(receipt=receipt, error=self._unknown(), raw=raw)
        if raw.pending is not None:
            return ToolRun(receipt=receipt, envelope=raw, raw=raw)
        try:
            envelope = _checked(self.tool, raw)
            await check_guards(self.tool, self.tool.guards.output, envelope.data, self.task.context, "output")
        except Refused as refused:
            return ToolRun(receipt=receipt, error=refused.error, raw=raw, exception=refused.exception)
        shown = self._receipt("succeeded", spent, released=True)
        return ToolRun(receipt=shown, envelope=envelope, raw=raw)

    def _returned_no_json(self, unfit: _Unfit) -> ToolRun:
        spent, held = self.task.context.usage or (self.tool.cost_micros, 0)
        error: RulvarError = self._unknown() if held else unfit.error
        return self._failed(error, "unknown" if held else "succeeded", spent, held, unfit.__cause__)

    def _refused(self, error: RulvarError) -> ToolRun:
        usage = self.task.context.usage
        if usage is not None and self.uncertain:
            return self._failed(self._unknown(), "unknown", *usage, error)
        told = ToolFailedError(error.message[:_LONGEST_REFUSAL], data={"tool": self.tool.id, "refused": True})
        return self._failed(told, "not_started", *(usage or (0, 0)), error)

    def _broken(self, error: Exception) -> ToolRun:
        if self.uncertain:
            return self._failed(self._unknown(), "unknown", *self._uncertain_cost(), error)
        text = f": {exception_text(error)}" if self.tool.public_errors else ""
        told = ToolFailedError(f"tool {self.tool.id} failed{text}", data={"tool": self.tool.id})
        return self._failed(told, "failed", self._known(), 0, error)

    def _interrupted(self, error: asyncio.CancelledError | None) -> ToolRun:
        """The time was up, or the call was cancelled from outside."""
        tool = self.tool
        told: RulvarError = (
            _timed_out(tool)
            if error is None
            else ToolCancelledError(f"tool {tool.id} was cancelled", data={"tool": tool.id})
        )
        if not self.started:
            run = self.not_started(told)
        elif self.receipt is not None:  # while the output was looked at
            run = ToolRun(receipt=self.receipt, error=told)
        elif self.uncertain:
            run = self._failed(self._unknown(), "unknown", *self._uncertain_cost(), error)
        else:
            run = self._failed(told, "unknown", self._known(), 0, error)
        return replace(run, interrupted=error)

    def _failed(
        self, error: RulvarError, execution: Any, spent: int, held: int, exception: BaseException | None
    ) -> ToolRun:
        # what a fixture of the call says: it failed, with the text that is public
        raw = None if self.raised is None else ToolEnvelope(error=error.message)
        receipt = self._settle(spent, held, execution)
        return ToolRun(receipt=receipt, error=error, raw=raw, exception=exception)

    def _known(self) -> int:
        """What a failed call has spent: what it reported, or else all that it declared."""
        usage = self.task.context.usage
        return self.tool.cost_micros if usage is None else usage[0]

    def _uncertain_cost(self) -> tuple[int, int]:
        """What an uncertain call has spent, and what stays reserved for it."""
        known = 0 if self.task.context.usage is None else self.task.context.usage[0]
        return known, self.tool.cost_micros - known

    def _settle(self, spent: int, held: int, execution: Any) -> Receipt:
        if self.started and self.task.purse is not None and self.tool.cost_micros:
            self.task.purse.settle(spent, held)
        self.receipt = self._receipt(execution, spent, held)
        return self.receipt

    def _receipt(self, execution: Any, spent: int = 0, held: int = 0, *, released: bool = False) -> Receipt:
        return Receipt(
            call_id=self.task.context.call_id,
            tool_id=self.tool.id,
            execution=execution,
            disclosure="released" if released else "withheld",
            spent_micros=spent,
            reserved_micros=held,
        )

    def _unknown(self) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"tool {self.tool.id} may have happened and nobody knows; look, and resume with the entry invalidated "
            "to run it again",
            data={"tool": self.tool.id},
        )


def release_envelope(tool: Tool, raw: ToolEnvelope, receipt: Receipt) -> ToolRun:
    """Return the end of a call whose result came later, from a child: checked like any other."""
    if raw.error is not None:
        error = ToolFailedError(raw.error, data={"tool": tool.id})
        return ToolRun(receipt=replace(receipt, execution="failed"), error=error, raw=raw)
    try:
        plain = decode_envelope(journal_value(raw.to_wire(), f"tool {tool.id}"), f"tool {tool.id} result")
        envelope = _checked(tool, plain)
    except Refused as refused:
        return ToolRun(receipt=receipt, error=refused.error, raw=raw)
    except NonSerializableValueError as refusal:
        return ToolRun(receipt=receipt, error=refusal, raw=raw)
    return ToolRun(receipt=replace(receipt, disclosure="released"), envelope=envelope, raw=plain)


def _enveloped(tool: Tool, value: Any) -> ToolEnvelope:
    if not isinstance(value, ToolEnvelope):
        return ToolEnvelope(data=journal_value(value, f"tool {tool.id}"))
    if value.pending is not None:
        return value
    plain = journal_value(value.to_wire(), f"tool {tool.id}")
    return replace(decode_envelope(plain, f"tool {tool.id} result"), documents=value.documents)


def _bound(handler: Handler, proceed: Proceed) -> Proceed:
    async def handle() -> ToolEnvelope:
        return await handler.handle(proceed)

    return handle


def _checked(tool: Tool, raw: ToolEnvelope) -> ToolEnvelope:
    """Return the envelope with its data parsed by the result schema, defaults applied."""
    if tool.result is None:
        return raw
    issues = tool.result.issues(raw.data, hides_values=True)
    if issues:
        raise Refused(
            InvalidOutputError(
                f"the result of tool {tool.id} does not fit its result_schema: {_first(issues, 'data')}",
                data={"tool": tool.id, "issues": [issue.to_wire() for issue in issues]},
            )
        )
    return replace(raw, data=journal_value(tool.result.revive(raw.data), f"tool {tool.id}"))


def _timed_out(tool: Tool) -> CallTimeoutError:
    return CallTimeoutError(f"tool {tool.id} took longer than {tool.timeout} s", data={"tool": tool.id})


def _first(issues: Sequence[Any], root: str) -> str:
    first = issues[0]
    path = "".join(f"[{part!r}]" for part in first.path)
    return f"{root}{path}: {first.message}"
