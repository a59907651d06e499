"""The life of one execution segment: intake, the body, the settlement."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rulvar.contracts.canonical import decode_json, hash_canonical
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import Outcome, RunStatus
from rulvar.contracts.ports.store import RunMeta
from rulvar.contracts.stream import WireError
from rulvar.engine.bounds import resumed_limits
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.engine.bus import EventBus
from rulvar.engine.calls import RunRequest
from rulvar.engine.ceiling import check_override, journal_override, recorded_ceiling
from rulvar.engine.compatibility import check_journal
from rulvar.engine.control import unwrapped
from rulvar.engine.failure import describe_raised, returned_form
from rulvar.engine.handle import RunHandle
from rulvar.engine.interruptions import count_interruptions
from rulvar.engine.invalidation import check_invalidated
from rulvar.engine.lease import HeldRun
from rulvar.engine.primitives.child import check_args, revived_args
from rulvar.engine.primitives.step import wire_error
from rulvar.engine.run import Run
from rulvar.engine.run_meta import run_meta, segments_of
from rulvar.engine.stragglers import stop_stragglers
from rulvar.engine.workflow import takes_args
from rulvar.errors import (
    BudgetExhaustedError,
    ConfigError,
    JournalMissError,
    LeaseHeldError,
    OutcomeUnknownError,
    ReplayStopped,
    RulvarError,
    RunCancelledError,
    RunNotFoundError,
    RunSuspended,
    SettlementError,
    SupersededError,
)
from rulvar.kernel.keys import content_key, hash_args, hash_output
from rulvar.kernel.matching import SEGMENT_BITS

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine

__all__ = ["Segment"]

_SETTLE_KEY = content_key({"kind": "run-settle"})


class Segment:
    """Executes one segment and settles it; whatever happens in the run ends in an outcome."""

    def __init__(
        self, engine: Engine, handle: RunHandle, request: RunRequest, *, workflow_is_known: bool
    ) -> None:
        self._engine = engine
        self._handle = handle
        self._request = request
        self._workflow_is_known = workflow_is_known
        self._held = HeldRun(engine.store, engine.transcripts, None)
        self._has_returned = False
        self._unsettled: dict[str, Any] = {}
        self._passed_on: BaseException | None = (
            None  # what is no error of the run: an exit, a test's own verdict
        )

    async def execute(self) -> Outcome:
        """Run the segment to its end.

        Raises:
            RulvarError: the run could not start: unknown run, wrong workflow, wrong arguments, a
                journal that cannot be read.
        """
        try:
            run, meta, entries = await self._intake()
            self._handle._workflow = self._request.workflow
            self._handle._begin(run)
            self._held.keep(run.lose)
            return await self._live(run, meta, entries)
        except BaseException:
            self._handle._status = "error"
            raise
        finally:
            await self._held.release()
            self._handle._bus.close()

    # -- intake --------------------------------------------------------------------------

    async def _intake(self) -> tuple[Run, RunMeta, list[JournalEntry]]:
        request = self._request
        if not request.strict:
            await self._take()
        store = self._held
        entries: list[JournalEntry] = []
        meta = await store.load_meta(request.run_id)
        if request.resumed:
            entries = await store.load(request.run_id)
            if meta is None and not entries:
                raise run_not_found(request.run_id)
            meta = meta or {}
            known = replace(self._check_resume(meta), trace=bool(meta.get("trace")))
            request = self._request = replace(known, **resumed_limits(self._engine, known, meta))
            check_journal(request.run_id, entries)
            check_invalidated(request.run_id, request.invalidate, entries)
            if not request.strict:
                self._handle._bus = self._move_bus(meta)
        elif meta is not None or await store.load(request.run_id):
            raise run_exists(request.run_id)
        segment = segments_of(meta or {}) if request.resumed else 0
        ceiling = request.budget_usd
        if ceiling is None and request.resumed:
            ceiling = recorded_ceiling(meta or {}, entries)
        run = Run(self._engine, request, entries, segment, self._handle._bus, store, ceiling)
        if request.resumed and request.budget_usd is not None:
            check_override(run, meta or {}, request.budget_usd)
        if request.strict:
            run.journal.refuse(JournalMissError(f"a strict replay of run {request.run_id!r} writes nothing"))
        before = meta or {}
        broken_off = await count_interruptions(request.run_id, before, entries, store.transcripts)
        # the journal tells of another ceiling before the row does
        told = replace(self._request, budget_usd=None) if request.resumed else self._request
        new_meta = run_meta(self._engine, told, before, "running", segment + 1, broken_off)
        if not request.strict:
            for name, data in request.kept.items():
                await store.transcripts.put(f"{request.run_id}/{name}", data)
            await store.save_meta(request.run_id, new_meta)
        return run, new_meta, entries

    async def _take(self) -> None:
        """Take the run's lease; a run that is not there, or there already, leaves no trace of the attempt."""
        engine, run_id = self._engine, self._request.run_id
        known = not self._request.resumed or await engine.knows(run_id)
        if not known:
            raise run_not_found(run_id)
        try:
            self._held = await engine.hold(run_id)
        except LeaseHeldError:
            if not self._request.resumed and await engine.store.load_meta(run_id) is not None:
                raise run_exists(run_id) from None
            raise

    def _move_bus(self, meta: Mapping[str, Any]) -> EventBus:
        # nothing has been emitted yet: the stream of a later segment starts at its own seq
        bus = self._handle._bus
        bus._first_seq = segments_of(meta) << SEGMENT_BITS
        return bus

    def _check_resume(self, meta: Mapping[str, Any]) -> RunRequest:
        request = self._request
        recorded = meta.get("workflowName")
        if not self._workflow_is_known:
            if not isinstance(recorded, str):
                raise ConfigError(f"resume of {request.run_id!r}: name the workflow", data={"field": "wf"})
            request = replace(request, workflow=self._engine.workflow_of(recorded))
        elif isinstance(recorded, str) and recorded != request.workflow.name:
            raise ConfigError(
                f"run {request.run_id!r} was started by workflow {recorded!r}, not {request.workflow.name!r}; "
                "resume it with that one",
                data={"field": "wf", "recorded": recorded},
            )
        self._check_args_hash(meta, request)
        return request

    def _check_args_hash(self, meta: Mapping[str, Any], request: RunRequest) -> None:
        recorded = meta.get("argsHash")
        if recorded is None and (request.args_json is None or meta.get("argsProvided") is not False):
            return
        plain = None if request.args_json is None else decode_json(request.args_json)
        salt = meta.get("argsSalt")
        if hash_args(plain, salt if isinstance(salt, str) else None) != recorded:
            raise ConfigError(
                f"resume of {request.run_id!r}: args are not those that the run was started with; pass the same",
                data={"field": "args"},
            )

    # -- the body ------------------------------------------------------------------------

    async def _live(self, run: Run, meta: RunMeta, entries: list[JournalEntry]) -> Outcome:
        request = self._request
        run.bus.emit(
            "run:start", run.root.span, None, {"workflow": request.workflow.name, "resumed": request.resumed}
        )
        self._warn_of_changed_body(run, meta)
        if request.resumed:
            run.waits.tell_recorded()
        args = None if request.args_json is None else decode_json(request.args_json)
        refused = check_args(request.workflow, args)
        if refused is not None:
            outcome = self._outcome(run, "error", None, refused)
            if not request.strict:
                await self._held.save_meta(
                    run.run_id, run_meta(self._engine, self._request, meta, "error", meta["segments"])
                )
            return self._ended(run, meta, outcome)
        if request.resumed and request.budget_usd is not None and not request.strict:
            await journal_override(run, meta, entries, request.budget_usd)
            meta["budgetUsd"] = request.budget_usd  # from now on it is the run's
        if request.scope is not None and not request.resumed:
            await self._journal_scope(run, request.scope)
        status, value, error = await self._body(run, args)
        if status == "suspended":
            run.waits.tell_pending()
        else:
            await stop_stragglers(run)
        outcome = self._outcome(run, status, value, error)
        outcome = await self._settle(run, meta, outcome)
        self._ended(run, meta, outcome)
        if self._passed_on is not None:
            raise self._passed_on
        return outcome

    async def _journal_scope(self, run: Run, scope: Any) -> None:
        key = content_key({"kind": "execution-scope"})
        assert key is not None
        decision = {"decisionType": "execution_scope", "scope": scope, "scopeDigest": hash_canonical(scope)}
        await run.decide("", key, run.root.span, decision)

    async def _body(self, run: Run, args: Any) -> tuple[RunStatus, Any, BaseException | None]:
        workflow = self._request.workflow
        args = revived_args(workflow, args)
        if not workflow.is_driver:
            self._engine.guard.watch(run, workflow.body)
        ctx = self._engine.ctx_of(run)
        CURRENT_PLACE.set(run.root)
        timer = run.watch_deadline()
        try:
            body = workflow.body(ctx, args) if takes_args(workflow.body) else workflow.body(ctx)
            value = await run.drive(body if workflow.is_driver else run.inside(body))
            if run.stop_error is not None:
                return "error", None, run.stop_error
            if run.suspended:
                return "suspended", None, None
            if run.cancel_reason is not None and not run.budget.is_exhausted:
                return "cancelled", None, self._cancelled(run)
            returned = decode_json(returned_form(workflow, value))
            self._has_returned = True
            return "exhausted" if run.budget.is_exhausted else "ok", returned, None
        except BaseException as raised:
            return self._unwound(run, unwrapped(raised))
        finally:
            if timer is not None:
                timer.cancel()

    def _unwound(self, run: Run, error: BaseException) -> tuple[RunStatus, Any, BaseException | None]:
        """Return how a run ended whose body did not return."""
        if isinstance(error, Exception):
            run.failure = error
        if run.stop_error is not None:
            return "error", None, run.stop_error
        if isinstance(error, ReplayStopped):
            return "error", None, error.error
        if isinstance(error, RunSuspended) or (run.suspended and isinstance(error, Exception)):
            return "suspended", None, None
        if not isinstance(error, (Exception, asyncio.CancelledError)):
            self._passed_on = error
            return "error", None, error
        if not isinstance(error, OutcomeUnknownError):
            if isinstance(error, BudgetExhaustedError):
                return "exhausted", None, error
            if run.budget.is_exhausted:  # whatever else went wrong, the money was used up
                return "exhausted", None, error if isinstance(error, RulvarError) else None
            if isinstance(error, asyncio.CancelledError) or run.cancel_reason is not None:
                return "cancelled", None, self._cancelled(run)
        return getattr(error, "run_status", "error"), None, error

    def _cancelled(self, run: Run) -> RunCancelledError:
        told = run.cancel_reason or "the run's task was cancelled"
        return RunCancelledError(told, of_agent=self._request.workflow.read_limits is not None)

    def _warn_of_changed_body(self, run: Run, meta: Mapping[str, Any]) -> None:
        recorded = meta.get("workflowHash")
        if self._request.resumed and recorded is not None and recorded != self._request.workflow.source_hash:
            facts = {"level": "warn", "msg": "the workflow's source has changed since the run was started"}
            run.bus.emit("log", run.root.span, None, facts)

    # -- the end -------------------------------------------------------------------------

    def _outcome(self, run: Run, status: RunStatus, value: Any, error: BaseException | None) -> Outcome:
        wire = None if error is None else WireError.from_wire(wire_error(error))
        unsaid = run.failure if status == "exhausted" and not self._has_returned else None
        behind = unsaid if error is None else error
        return Outcome(
            status=status,
            value=value,
            error=wire,
            raised=None if behind is None else describe_raised(behind),
            cost=run.spend.report(),
            usage=run.spend.usage,
            dropped=tuple(run.dropped),
            pending=run.pending() if status == "suspended" else (),
        )

    async def _settle(self, run: Run, meta: RunMeta, outcome: Outcome) -> Outcome:
        """Journal the end, then the meta row; an end that cannot be written is itself the outcome."""
        if run.strict:
            return outcome
        try:
            same = run.index.settled == outcome.status
            if run.journal.next_seq and (not same or run.journal.appended):
                settle: dict[str, Any] = {
                    "decisionType": "run_settle",
                    "runStatus": outcome.status,
                    "segment": run.segment + 1,
                }
                if self._has_returned and (hashed := hash_output(outcome.value)) is not None:
                    settle["outputHash"] = hashed
                assert _SETTLE_KEY is not None
                await run.decide("", _SETTLE_KEY, run.root.span, settle)
            await run.journal.flush()
            await self._held.save_meta(
                run.run_id, run_meta(self._engine, self._request, meta, outcome.status, meta["segments"])
            )
        except SupersededError as error:
            # somebody else drives the run now, and settles it
            if self._handle._is_let_go and "interrupted" in meta:
                await self._forgive(meta)
            self._unsettled = {"settled": False, "settledReason": "superseded"}
            return replace(outcome, status="error", value=None, error=WireError.from_wire(error.to_wire()))
        except (RulvarError, OSError) as error:
            failed = SettlementError(
                f"run {run.run_id!r} ended {outcome.status!r}, but its end could not be written: {error}",
                data={"runStatus": outcome.status, "cause": wire_error(error)},
                retryable=isinstance(error, RulvarError) and error.retryable,
            )
            self._unsettled = {"settled": False}
            return replace(outcome, status="error", value=None, error=WireError.from_wire(failed.to_wire()))
        return outcome

    async def _forgive(self, meta: RunMeta) -> None:
        """Forget that earlier segments broke off: this one was let go on purpose."""
        with contextlib.suppress(RulvarError, OSError):
            await self._held.save_meta(
                meta["runId"], {name: value for name, value in meta.items() if name != "interrupted"}
            )

    def _ended(self, run: Run, meta: Mapping[str, Any], outcome: Outcome) -> Outcome:
        cost = outcome.cost
        facts: dict[str, Any] = {"status": outcome.status, "totalUsd": cost.total_usd}
        if cost.usage_approx:
            facts["usageApprox"] = True
        facts.update(self._unsettled)
        facts["envelope"] = {
            "runId": run.run_id,
            "workflow": self._request.workflow.name,
            "status": outcome.status,
            "settled": True,
            "totalUsd": cost.total_usd,
            "grossUsd": cost.gross_usd,
            "costBasis": "locally-estimated",
            "costByModel": dict(cost.by_model),
            "usage": outcome.usage.to_wire(),
            "usageApprox": cost.usage_approx,
            "agentsSpawned": run.budget.spawned,
            "wireRequests": cost.wire_requests,
            **self._unsettled,
        }
        if "configFingerprint" in meta:
            facts["envelope"]["configFingerprint"] = meta["configFingerprint"]
        if outcome.error is not None:
            facts["envelope"]["error"] = outcome.error.to_wire()
        run.bus.emit("run:end", run.root.span, None, facts)
        self._handle._status = outcome.status
        self._handle._preview = run.preview()
        run.observe.settled(outcome)
        return outcome


def run_not_found(run_id: str) -> RunNotFoundError:
    return RunNotFoundError(f"no run {run_id!r} in the store", data={"runId": run_id})


def run_exists(run_id: str) -> ConfigError:
    return ConfigError(
        f"run {run_id!r} exists already; resume it, or choose another run_id", data={"field": "run_id"}
    )
