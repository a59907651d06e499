"""One attempt of a transition: the body runs on a draft, and what it came to is a commit."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rulvar.contracts.envelope import DeclaredDocument
from rulvar.contracts.jsonable import journal_value
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.control import unwrapped
from rulvar.engine.primitives.child import check_args
from rulvar.engine.primitives.step import wire_error
from rulvar.errors import (
    BudgetExhaustedError,
    CallTimeoutError,
    ConfigError,
    ControlFlow,
    InvalidOutputError,
    OutcomeUnknownError,
    ReplayDriftError,
    ReplayStopped,
    RulvarError,
    TransitionAborted,
)
from rulvar.kernel.scope import workflow_scope
from rulvar.machines.answer import Input
from rulvar.machines.commit import Commit, Launch
from rulvar.machines.context import DocumentView, MachineCtx, machine_ctx
from rulvar.machines.definition import Transition
from rulvar.machines.document import Document
from rulvar.machines.names import child_id
from rulvar.machines.progress import Documents
from rulvar.machines.saving import DocumentMaker
from rulvar.machines.state import (
    Draft,
    apply_patch,
    close_draft,
    open_draft,
    patch_between,
    same_json,
)
from rulvar.tools.deadline import Deadline

if TYPE_CHECKING:
    from rulvar.machines.run import MachineRun

__all__ = ["TransitionAttempt"]

_NEVER_RETRIED = (BudgetExhaustedError, ConfigError, ReplayDriftError)


class TransitionAttempt:
    """One attempt; see ``engine.branch.Attempt`` for what the engine asks of it.

    Attributes:
        number: failures of the transition before this attempt.
        exception: what the body raised; for a debugger, never for a journal.
        stopped: a control-flow signal to raise once the attempt is committed.
        unknown: a write that was interrupted and may have happened; whatever fails the attempt, this does.
    """

    def __init__(self, driver: MachineRun, definition: Transition, given: Input | None, scope: str) -> None:
        progress = driver.progress
        self.driver = driver
        self.run = driver.run
        self.definition = definition
        self.transition = definition.name
        self.given = given
        self.scope = scope
        self.number = progress.attempts.get(definition.name, 0)
        self._ended = False
        self._deadline: Deadline | None = None
        self.state: Any = open_draft(progress.state, driver.definition.state_type)
        before = progress.result
        self.result: Any = Draft(before) if before is None or isinstance(before, dict) else before
        self.exception: BaseException | None = None
        self.stopped: ControlFlow | None = None
        self.unknown: Exception | None = None
        self._replaced = False
        self._position = 0
        self._documents: list[Document] = []
        self._children: list[Launch] = []
        self._asked: Counter[str] = Counter()
        self._maker = DocumentMaker(driver.known_documents)

    # -- what the engine asks ------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether nothing of it may have an effect any more: it has ended, or its time is up."""
        return self._ended or (self._deadline is not None and self._deadline.expired)

    def called(self) -> None:
        """Count a tool call that is over."""
        self._position += 1

    def keep_unknown(self, error: Exception) -> None:
        """Keep what a call may have done that was interrupted."""
        self.unknown = self.unknown or error

    def declare(self, documents: Sequence[Any], tool: Any, call: int | None = None) -> None:
        """Save the documents that a tool's envelope declares; ``call`` is the seq of the call's entry."""
        for declared in documents:
            assert isinstance(declared, DeclaredDocument)
            options = dict(declared.options)
            key, validate = options.pop("key", None), options.pop("validate", "strict")
            places = options.pop("meta", None) or {}
            meta = {
                "hide_at": places.get("hideAtPlaces", places.get("hide_at")),
                "enable_at": places.get("enableAtPlaces", places.get("enable_at")),
                "tags": places.get("tags"),
            }
            wire = declared.to_wire()
            try:
                name, content = wire["documentName"], wire["content"]
                self.save(name, content, key, validate, options, meta, tool=tool, call=call)
            except (ConfigError, InvalidOutputError) as error:
                raise type(error)(f"tool {tool.id}: {error.message}", data=error.data) from None

    def check(self) -> None:
        """Raise when the attempt has been rolled back: nothing of it may have an effect any more."""
        if self.is_over:
            raise TransitionAborted(f"transition {self.transition!r} is over: it was rolled back")

    # -- what the body asks --------------------------------------------------------------

    def replace_state(self, value: Any) -> None:
        """Put another state in the place of the one so far."""
        self.state = dict(value) if isinstance(value, Mapping) else value

    def replace_result(self, value: Any) -> None:
        """Put another result in the place of the one so far."""
        self._replaced = True
        self.result = Draft(value) if isinstance(value, dict) else value

    def save(
        self,
        document: Any,
        content: Any,
        key: str | None,
        validate: str,
        options: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        tool: Any = None,
        call: int | None = None,
    ) -> str:
        """Add a document to the draft, and return its id."""
        made, warning = self._maker.make(
            document, content, validate, options, meta, known=() if tool is None else tool.documents
        )
        if warning is not None:
            self.run.log("warn", warning, None)
        if key is not None and (not isinstance(key, str) or not key):
            raise ConfigError(f"document {made.name!r} key={key!r}: expected a name", data={"field": "key"})
        number = self.driver.progress.saved + len(self._documents)
        saved = made.saved(
            id=f"doc-{number}",
            key=key,
            transition=self.transition,
            place=self.definition.to,
            at_ms=self.run.clock.now_ms(),
            position=self._position,
            turn=len(self._documents) + len(self._children),
            call=call,
        )
        self._documents.append(saved)
        facts = {"transition": self.transition, "documentName": saved.name, "documentId": saved.id}
        self.run.bus.emit("document:saved", self.driver.span, None, facts)
        return saved.id

    def visible_documents(self) -> DocumentView:
        """Return the documents that the body sees."""
        seen = Documents()
        for item in (*self.driver.progress.documents, *self._documents):
            seen.add(item)
        return DocumentView(seen)

    def start(self, child: Any, args: Any, on_done: Any, meta: Any, label: Any, show: Any) -> str:
        """Add a child to the draft, and return its run id."""
        run, driver = self.run, self.driver
        workflow = run.engine.workflow_of(child)
        what = f"ctx.start({workflow.name!r})"
        plain = journal_value(args, f"{what} args")
        refused = check_args(workflow, plain)
        if refused is not None:
            raise refused
        name = (
            on_done if on_done is None or isinstance(on_done, str) else str(getattr(on_done, "__name__", ""))
        )
        if name is not None and not any(
            item.name == name and item.wait for item in driver.definition.transitions
        ):
            raise ConfigError(
                f"{what} on_done={name!r}: {driver.definition.machine.__name__} has no wait transition of that name",
                data={"field": "on_done"},
            )
        # counted by what is committed: a child that a failed attempt asked for takes no place
        number = driver.launched[workflow.name] + self._asked[workflow.name]
        self._asked[workflow.name] += 1
        scope = workflow_scope(driver.scope, workflow.name, number)
        driver.workflows[workflow.name] = workflow
        self._children.append(
            Launch(
                workflow=workflow.name,
                scope=scope,
                args=plain,
                on_done=name,
                meta=journal_value(meta, f"{what} meta"),
                label=label,
                show=journal_value(show, f"{what} show"),
                at_ms=run.clock.now_ms(),
                position=self._position,
                turn=len(self._documents) + len(self._children),
            )
        )
        return child_id(driver.run_id, driver.scope, scope)

    # -- running -------------------------------------------------------------------------

    async def execute(self, place: Place) -> Commit:
        """Run the body and return the commit; a failure is committed as well.

        Raises:
            ControlFlow: the run is suspended or stopped; nothing is committed then.
            asyncio.CancelledError: the run was cancelled.
        """
        here = place.at(scope=self.scope, span=self.run.next_span(), attempt=self)
        token = CURRENT_PLACE.set(here)
        self._deadline = deadline = Deadline(
            self.run.clock, self.definition.timeout, lambda: not place.branch.is_moving
        )
        commit: Commit | None = None
        try:
            with deadline:
                commit = await self._noted()
        except BaseException as raised:
            ended = self._ended_by(unwrapped(raised))
            if ended is None:
                raise
            return ended
        finally:
            CURRENT_PLACE.reset(token)
            self._ended = True
        if isinstance(self.run.stop_error, ReplayDriftError):  # the body swallowed it
            self.stopped = ReplayStopped(self.run.stop_error)
            return self.failed(self.run.stop_error)
        if deadline.expired or commit is None:
            return self.failed(self._timed_out())
        return commit

    def _ended_by(self, error: BaseException) -> Commit | None:
        """Return the commit of an attempt whose body raised; None for what goes through it."""
        if isinstance(error, ReplayStopped) and isinstance(error.error, ReplayDriftError):
            self.stopped = error
            return self.failed(error.error)
        if isinstance(error, TransitionAborted) and self._deadline is not None and self._deadline.expired:
            return self.failed(self._timed_out())  # it was told so when it cleaned up
        if not isinstance(error, Exception):
            return None
        self.exception = error
        if isinstance(self.run.stop_error, ReplayDriftError):  # the body made another error of it
            self.stopped = ReplayStopped(self.run.stop_error)
            return self.failed(self.run.stop_error)
        return self.failed(error)

    async def _noted(self) -> Commit:
        """Run the body; what it says of a write counts also when its time is up."""
        try:
            return await self._body()
        except BaseException as raised:
            error = unwrapped(raised)
            if isinstance(error, Exception) and _is_unknown(error):
                self.keep_unknown(error)
            raise

    async def _body(self) -> Commit:
        body, run = getattr(self.driver.machine, self.transition), self.run
        run.engine.guard.watch(run, getattr(body, "__func__", body))
        ctx = machine_ctx(self)
        if run.watch is None:
            value = body(ctx, self.given) if self.definition.takes_input else body(ctx)
            if inspect.isawaitable(value):
                value = await value
        else:
            value = await run.inside(self._in_view(body, ctx))
        if value is not None and value != {}:
            raise ConfigError(
                f"transition {self.transition!r} of {self._class} returned {type(value).__name__}; a transition "
                "returns nothing: change ctx.state, ctx.result or ctx.save(...)",
                data={"transition": self.transition},
            )
        return self._committed()

    async def _in_view(self, body: Any, ctx: MachineCtx) -> Any:
        """Run the body where the determinism guard sees it."""
        value = body(ctx, self.given) if self.definition.takes_input else body(ctx)
        return await value if inspect.isawaitable(value) else value

    def _committed(self) -> Commit:
        progress, name = self.driver.progress, self.transition
        what = f"state after transition {name!r}"
        if isinstance(self.state, Draft):
            patch = self.state.patch(what)
        else:
            patch = patch_between(progress.state, close_draft(self.state, what))
        contract = self.driver.definition.state
        issues = [] if contract is None else contract.issues(apply_patch(progress.state, patch))
        if issues:
            path = "".join(f"[{part!r}]" for part in issues[0].path)
            raise InvalidOutputError(
                f"transition {name!r} of {self._class} leaves a state for {self.definition.to!r} that does not fit: "
                f"state{path}: {issues[0].message}",
                data={"transition": name, "issues": [issue.to_wire() for issue in issues]},
            )
        return Commit(
            transition=name,
            from_=self.definition.from_,
            to=self.definition.to,
            attempt=self.number,
            state=patch,
            result=self._result_patch(),
            documents=tuple(self._documents),
            children=tuple(self._children),
        )

    def _result_patch(self) -> dict[str, Any]:
        if isinstance(self.result, Draft) and not self._replaced:
            return self.result.patch(f"result after transition {self.transition!r}")
        before = self.driver.progress.result
        after = journal_value(self.result, f"result after transition {self.transition!r}")
        if isinstance(after, dict) and (before is None or isinstance(before, dict)):
            patch = patch_between(before or {}, after)
            return {"replace": {}} if before is None and not patch else patch
        return {} if same_json(before, after) else {"replace": after}

    def failed(self, error: BaseException, *, skipped: bool = False) -> Commit:
        """Return the commit of a failure: another attempt, the error place, or where it was."""
        item = self.definition
        if self.unknown is not None and not isinstance(error, ReplayDriftError):
            error = self.unknown  # another attempt would make it again
        retries = 0 if isinstance(error, _NEVER_RETRIED) or _is_unknown(error) else item.retries
        will_retry = self.number < retries
        terminal = isinstance(error, ReplayDriftError)
        to = item.from_
        if will_retry:
            to = item.retry.target or item.from_
        elif item.error_place is not None and not terminal:
            to = item.error_place
        return Commit(
            transition=self.transition,
            from_=item.from_,
            to=to,
            attempt=self.number,
            documents=tuple(self._documents),
            error=failure_wire(error),
            will_retry=will_retry,
            skipped=skipped,
            retry_ms=self._retry_ms(will_retry),
        )

    def _retry_ms(self, will_retry: bool) -> int:
        if not will_retry:
            return 0
        pause = self.definition.retry.pause(self.number + 1)
        return self.run.clock.now_ms() + round(pause * 1000)

    def _timed_out(self) -> RulvarError:
        milliseconds = round((self.definition.timeout or 0) * 1000)
        return CallTimeoutError(
            f"transition {self.transition!r} of {self._class} took longer than {milliseconds} ms",
            data={"transition": self.transition, "timeoutMs": milliseconds},
        )

    @property
    def _class(self) -> str:
        return self.driver.definition.machine.__name__


def _is_unknown(error: BaseException) -> bool:
    """Whether it tells of a write that may have happened: a tool's own error, or that of a child or an agent."""
    return getattr(error, "run_status", None) == OutcomeUnknownError.run_status


def failure_wire(error: BaseException) -> dict[str, Any]:
    """Return the wire form of what failed a transition, with the run status that it means."""
    wire = wire_error(error)
    status = getattr(error, "run_status", "error")
    return wire if status == "error" else {**wire, "runStatus": status}
