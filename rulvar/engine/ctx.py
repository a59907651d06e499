"""``ctx``: what a workflow is given. Every method is one line into a primitive."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import datetime
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from rulvar.contracts.callables import Stage, Thunk
from rulvar.contracts.envelope import ToolResult
from rulvar.contracts.outcome import Settled
from rulvar.contracts.type_variables import Value
from rulvar.engine.budget import BudgetView
from rulvar.engine.primitives.agent import run_agent
from rulvar.engine.primitives.agent_plan import AgentOptions, brief_prompt
from rulvar.engine.primitives.child import run_child
from rulvar.engine.primitives.external import wait_external
from rulvar.engine.primitives.parallel import run_parallel
from rulvar.engine.primitives.phase import Phase
from rulvar.engine.primitives.pipeline import PipelineResult, run_pipeline
from rulvar.engine.primitives.shims import read_now, read_random, read_time, read_uuid
from rulvar.engine.primitives.step import run_step
from rulvar.engine.primitives.tool_call import ToolOptions, run_tool_call
from rulvar.engine.workflow import RunsAs, Workflow
from rulvar.runtime.agent import AgentResult
from rulvar.tools.tool import Tool

if TYPE_CHECKING:
    from typing import _SpecialForm as SpecialForm

    from rulvar.contracts.ports.observer import CallSite
    from rulvar.engine.run import Run

__all__ = ["Ctx", "run_of"]

T = TypeVar("T")
Task = Thunk[Awaitable[T]] | Awaitable[T]


class Ctx:
    """The surface of a workflow. Calls are matched against the journal; what is there is served.

    A call's place in the journal is its scope and the key of its identity. Where the code stands is
    carried by a context variable, so plain ``asyncio`` code inside a branch keeps its place.
    """

    __slots__ = ("_finder", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._finder = run.engine.site_finder(run)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.run_id

    @overload
    def agent(
        self,
        prompt: str,
        *,
        schema: type[T],
        result: Literal["value"] = "value",
        on_error: Literal["raise"] = "raise",
        **options: Any,
    ) -> Awaitable[T]: ...

    @overload
    def agent(
        self,
        prompt: str,
        *,
        agent_type: str | None = None,
        schema: Mapping[str, Any] | bool | UnionType | SpecialForm | None = None,
        label: str | None = None,
        key: str | None = None,
        model: Any = None,
        effort: str | None = None,
        routing: Mapping[str, Any] | None = None,
        role: str = "loop",
        tools: Iterable[Tool | str] | None = None,
        result: Literal["value"] = "value",
        on_error: Literal["raise", "null"] = "raise",
        retry: Any = None,
        fallback: str | Mapping[str, Any] | None = None,
        limits: Any = None,
        est_cost: float | None = None,
        memoize_outcome: bool = False,
        replay: Literal["auto", "cache", "never"] = "auto",
        isolation: Any = None,
        stream: bool = False,
    ) -> Awaitable[Any]: ...

    @overload
    def agent(
        self, prompt: str, *, schema: type[T], on_error: Literal["null"], **options: Any
    ) -> Awaitable[T | None]: ...

    @overload
    def agent(
        self, prompt: str, *, schema: type[T], result: Literal["full"], **options: Any
    ) -> Awaitable[AgentResult[T]]: ...

    @overload
    def agent(
        self, prompt: str, *, result: Literal["full"], **options: Any
    ) -> Awaitable[AgentResult[Any]]: ...

    def agent(self, prompt: str, **options: Any) -> Awaitable[Any]:
        """Ask a model, with tools and a schema where given; the answer is journaled.

        Args:
            prompt: text of the user message; part of the call's identity.
            agent_type: name of a profile of the engine; its options are defaults.
            schema: shape of the answer: a JSON Schema, a pydantic model, a dataclass or a TypedDict.
            label: a name for people, events and cassettes; never part of the identity.
            key: stands in the identity for the prompt.
            model: ``"adapter:model"`` or ``{"model", "effort", "provider_options"}``.
            effort: low, medium, high, xhigh or max.
            routing: role to model reference, for this call; for its role it wins over ``model``.
            role: which of the routed models serves it; ``loop`` unless told otherwise.
            tools: what the model may call.
            result: ``"value"`` returns the answer, ``"full"`` an AgentResult that never raises.
            on_error: ``"null"`` returns None for a failure and lists it in the outcome's ``dropped``.
            retry: RetryPolicy or mapping, for retryable errors of the provider.
            fallback: model that is asked when this one failed: ``"adapter:model"``, or a mapping with ``model`` and ``on``.
            limits: UsageLimits or mapping.
            est_cost: USD that the call is admitted with: what it may cost at most.
            memoize_outcome: keep a task-class failure or a limit on resume instead of rerunning it.
            replay: ``"cache"`` is served from any scope of the run, ``"never"`` always asks.
            isolation: any JSON value; ``"none"`` unless told otherwise. It is part of the call's identity and is
                kept in its entry. ``"readonly"`` denies tools whose risk is write or destructive; no other value
                does anything: tools run in this process whatever it says.
            stream: emit an ``agent:stream`` event per piece of text while the model answers.

        Raises:
            AgentCallError: the call failed or reached a limit.
            ConfigError: an option is wrong; names it.
            NonSerializableValueError: an isolation that JSON cannot hold.
        """
        return run_agent(self._run, prompt, AgentOptions.of("ctx.agent", options), self._site())

    @overload
    def step(
        self,
        label: str,
        fn: Thunk[Any],
        *,
        deps: Sequence[Any] = (),
        key: str | None = None,
        returns: type[T],
    ) -> Awaitable[T]: ...

    @overload
    def step(
        self,
        label: str,
        fn: Thunk[Awaitable[T]],
        *,
        deps: Sequence[Any] = (),
        key: str | None = None,
        returns: Any = None,
    ) -> Awaitable[T]: ...

    @overload
    def step(
        self,
        label: str,
        fn: Thunk[T],
        *,
        deps: Sequence[Any] = (),
        key: str | None = None,
        returns: Any = None,
    ) -> Awaitable[T]: ...

    def step(
        self,
        label: str,
        fn: Thunk[Any],
        *,
        deps: Sequence[Any] = (),
        key: str | None = None,
        returns: Any = None,
    ) -> Awaitable[Any]:
        """Run a function once; on replay its recorded result is served and it does not run.

        Args:
            label: names the step; with ``deps`` it is its identity.
            fn: a function without arguments, sync or async; it must not call ``ctx``.
            deps: values that make it another step when they change.
            key: stands in the identity for the label.
            returns: type that the recorded result is revived to; without it the result is plain JSON.

        Raises:
            NonSerializableValueError: a result that JSON cannot hold; names the field.
        """
        return run_step(self._run, label, fn, deps, key, returns, self._site())

    @overload
    def call_tool(
        self, tool: Tool[..., Awaitable[T]], args: Any = None, *, config: Any = None, key: str | None = None
    ) -> Awaitable[T]: ...

    @overload
    def call_tool(
        self, tool: Tool[..., T], args: Any = None, *, config: Any = None, key: str | None = None
    ) -> Awaitable[T]: ...

    @overload
    def call_tool(
        self,
        tool: Tool | str,
        args: Any = None,
        *,
        config: Any = None,
        key: str | None = None,
        result: Literal["value"] = "value",
    ) -> Awaitable[Any]: ...

    @overload
    def call_tool(
        self,
        tool: Tool | str,
        args: Any = None,
        *,
        config: Any = None,
        key: str | None = None,
        result: Literal["full"],
    ) -> Awaitable[ToolResult]: ...

    def call_tool(
        self,
        tool: Any,
        args: Any = None,
        *,
        config: Any = None,
        key: str | None = None,
        result: Literal["value", "full"] = "value",
    ) -> Awaitable[Any]:
        """Call a tool through the pipeline that a model's calls go through; a finished call is not made again.

        Args:
            tool: made by ``@tool``, or the id of one that the engine is provided with.
            args: the arguments object; part of the call's identity.
            config: settings of this call; part of the identity, and compared by tool fixtures.
            key: stands in the identity for the tool's id.
            result: ``"value"`` returns the data, ``"full"`` a ToolResult with metadata and receipt.

        Raises:
            ToolFailedError: the tool raised (its text is not told), refused, or answered with an error.
            CallTimeoutError, InvalidInputError, InvalidOutputError, GuardBlockedError, GuardUnavailableError,
            PermissionDeniedError, BudgetExceededError: the call was stopped there.
            OutcomeUnknownError: a write may have happened; it is not made again by a resume.
        """
        options = ToolOptions(config=config, key=key, result=result)
        return run_tool_call(self._run, tool, args, options, self._site())

    @overload
    def parallel(
        self, tasks: Iterable[Task[T]], *, settle: Literal[False] = False, abort_siblings: bool = True
    ) -> Awaitable[list[T]]: ...

    @overload
    def parallel(
        self, tasks: Iterable[Task[Any]], *, settle: Literal[True], abort_siblings: bool = True
    ) -> Awaitable[list[Settled]]: ...

    def parallel(
        self, tasks: Iterable[Task[Any]], *, settle: bool = False, abort_siblings: bool = True
    ) -> Awaitable[list[Any]]:
        """Run branches side by side and return their results in order.

        Args:
            tasks: functions without arguments that return awaitables, or coroutines.
            settle: return one Settled per branch instead of raising; failures are in ``dropped``.
            abort_siblings: cancel the other branches when one fails; one that meets a limit does not fail.

        Raises:
            BudgetExhaustedError: a branch was refused money, whatever became of the others.
            Exception: the first failure in the order of the branches, one that only met a limit last.
        """
        return run_parallel(self._run, tasks, settle=settle, abort_siblings=abort_siblings)

    @overload
    def pipeline(
        self, items: Iterable[Any], *stages: Stage, on_item_error: Literal["drop", "throw"] = "drop"
    ) -> Awaitable[list[Any]]: ...

    @overload
    def pipeline(
        self, items: Iterable[Any], *stages: Stage, on_item_error: Literal["collect"]
    ) -> Awaitable[PipelineResult]: ...

    def pipeline(
        self,
        items: Iterable[Any],
        *stages: Stage,
        on_item_error: Literal["drop", "throw", "collect"] = "drop",
    ) -> Awaitable[Any]:
        """Send items through stages; an item goes on as soon as its stage is done.

        Args:
            items: the sources; a stage's result is the next stage's item.
            on_item_error: ``"drop"`` leaves a failed item out of the results and lists it in
                ``dropped``, ``"throw"`` raises the first failure once all items are through,
                ``"collect"`` returns a PipelineResult.

        Raises:
            BudgetExhaustedError: an item was refused money; it is not dropped.
        """
        return run_pipeline(self._run, items, stages, on_item_error)

    def brief(
        self, content: str, *, instruction: str | None = None, key: str | None = None, **options: Any
    ) -> Awaitable[str]:
        """Ask the model of the role ``summarize`` for a short account of a text.

        Args:
            content: what is summarized; part of the call's identity.
            instruction: what to do with it instead; part of the call's identity.
            options: the other options of :meth:`agent`.
        """
        chosen = AgentOptions.of("ctx.brief", {"role": "summarize", "key": key, **options})
        return run_agent(self._run, brief_prompt(content, instruction), chosen, self._site())

    def workflow(
        self, child: Workflow[Value] | RunsAs[Value] | type | str, args: Any = None, *, key: str | None = None
    ) -> Awaitable[Value]:
        """Run a child workflow; once finished it is served as a whole.

        Args:
            child: a workflow, or the name of one the engine knows.
            args: part of the identity, unless ``key`` stands for them.

        Raises:
            AdmissionRejectedError: children may not be nested that deep.
        """
        return run_child(self._run, child, args, key, self._site())

    @overload
    def await_external(self, key: str, *, schema: type[T], prompt: str | None = None) -> Awaitable[T]: ...

    @overload
    def await_external(
        self,
        key: str,
        *,
        schema: Mapping[str, Any] | bool | UnionType | SpecialForm | None = None,
        prompt: str | None = None,
    ) -> Awaitable[Any]: ...

    def await_external(self, key: str, *, schema: Any = None, prompt: str | None = None) -> Awaitable[Any]:
        """Wait for an answer from outside; the run suspends when nothing else can move.

        Args:
            key: what the answer is given under (``handle.resolve_external``); a scope waits for each key once.
            schema: shape of the answer: a JSON Schema, or a type that the answer is revived to; a value that does
                not fit is refused and the wait stays open.
            prompt: what a person is asked.
        """
        return wait_external(self._run, key, schema, prompt, self._site())

    def phase(self, name: str) -> Phase:
        """Name a section: ``async with ctx.phase("plan"):`` or ``await ctx.phase("plan")(body)``."""
        return Phase(self._run, name)

    @property
    def budget(self) -> BudgetView:
        """What was spent (``.spent()``) and what is left (``.remaining()``)."""
        return self._run.budget.view()

    def log(self, level: str, msg: str, data: Any = None) -> None:
        """Emit a ``log`` event; it is live only and never journaled."""
        self._run.log(level, msg, data)

    def now(self) -> datetime:
        """Return the journaled time: an aware UTC datetime with milliseconds."""
        return read_now(self._run, self._site())

    def time(self) -> float:
        """Return the journaled time as seconds since the epoch."""
        return read_time(self._run, self._site())

    def random(self, key: str | None = None) -> float:
        """Return a journaled float in [0, 1); a key tells draws apart that may be reordered."""
        return read_random(self._run, key, self._site())

    def uuid(self) -> str:
        """Return a journaled random UUID as text."""
        return read_uuid(self._run, self._site())

    def _site(self) -> CallSite | None:
        return None if self._finder is None else self._finder.caller(2)


def run_of(ctx: Ctx) -> Run:
    """Return the run that a ctx belongs to; for workflows that are compiled from something else."""
    return ctx._run
