"""The engine: models, stores and registries, and the runs over them."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.ids import UlidSource, check_run_id
from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.ports.clock import Clock, Entropy
from rulvar.contracts.ports.limits import CallLimiter
from rulvar.contracts.ports.observer import EngineObserver
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.ports.queue import RunQueue, Submission
from rulvar.contracts.ports.store import JournalStore
from rulvar.contracts.ports.tools import Interceptor
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.contracts.type_variables import Value
from rulvar.engine.ambient import ambient_observers
from rulvar.engine.answers import answer_run
from rulvar.engine.bounds import Usd, ceiling_usd, default_limits, run_bounds
from rulvar.engine.bus import EventBus
from rulvar.engine.calls import RunRequest
from rulvar.engine.closing import close_all, release_adapters
from rulvar.engine.ctx import Ctx
from rulvar.engine.guard import Guard
from rulvar.engine.handle import ResumeHandle, RunHandle
from rulvar.engine.identities import Identities
from rulvar.engine.inspection import RunInspection, inspect_run
from rulvar.engine.lease import HeldRun, check_ttl, default_owner
from rulvar.engine.options import (
    check_interceptors,
    check_journal,
    check_routing,
    check_seams,
    check_text,
    deadline_ms,
    list_of,
    run_tags,
    running_loop,
    scope_value,
    transcripts_of,
)
from rulvar.engine.providers import Providers
from rulvar.engine.registries import Registries
from rulvar.engine.run import Run
from rulvar.engine.segment import Segment
from rulvar.engine.sites import SiteFinder
from rulvar.engine.slots import CallSlots
from rulvar.engine.submissions import make_submission, queue_of, request_of
from rulvar.engine.watchers import Watchers
from rulvar.engine.workflow import RunsAs, Workflow, unknown_workflow
from rulvar.kernel.admission import BudgetDefaults
from rulvar.runtime.agent import AgentProfile
from rulvar.runtime.clock import SystemClock, SystemEntropy
from rulvar.runtime.retry import RetryPolicy
from rulvar.runtime.timers import Timers
from rulvar.stores.memory import InMemoryStore
from rulvar.tools.grants import check_grants
from rulvar.tools.permissions import Permissions

__all__ = ["Engine"]


class Engine(Registries):
    """Runs workflows.

    Args:
        adapters: the providers of models; a model reference is ``adapter id:model``.
        journal: where runs are kept; in memory unless told otherwise.
        transcripts: where conversations and checkpoints are kept; beside the journal unless told otherwise.
        routing: role to model of one of the adapters; ``{"loop": "fake:fake-model"}`` serves plain calls.
        profiles: agent type to AgentProfile or mapping.
        permissions: rules of the tool gate, or a preset: ``strict``, ``standard``, ``open``; see Permissions.
        pricing: model reference to price table, over what the adapter declares.
        budget_defaults: bounds of every run; see BudgetDefaults.
        concurrency, retry: how many model calls may be under way at once, and their default RetryPolicy.
        determinism: what happens when a workflow reads the clock, chance, fresh ids or the environment: ``"warn"``
            (the default: an event), ``"error"`` (a DeterminismError), ``"off"``, or ``{"mode": ..., "allow": [...]}``.
        clock, entropy: where time and chance come from.
        lease_ttl_s: seconds that a run is held when this process stops answering; renewed at a third.
        owner: what names this process to people who look at leases; ``host:pid`` unless given.
        salt_args: whether meta rows hide which runs have the same arguments: their digests are salted.
        queue: how runs reach workers; see :meth:`enqueue`.
        limiter: bounds model calls over many processes.
        workflows: workflows that may be named in ``ctx.workflow``, ``resume`` and ``enqueue``.
        interceptors: stand around every tool, the first outermost; see ``contracts.ports.tools``.
        providers: services that tools and machines ask for with ``inject``; see Providers.
        grants: what tools may be used; whatever is not listed is denied. None is no such list.
        budget_usd, limits: of every run that is given none; limits of agents (Limits) or of model calls
            (UsageLimits). No bound unless given.
        trace: whether runs keep the arguments and envelopes of tool calls; see :meth:`run`.
        serial_children: start a machine's children one after another, each once the one before ended or waits.

    Raises:
        ConfigError: an option is wrong; names it.
    """

    def __init__(
        self,
        *,
        adapters: Iterable[Adapter] = (),
        journal: JournalStore | None = None,
        transcripts: TranscriptStore | None = None,
        routing: Mapping[str, Any] | None = None,
        profiles: Mapping[str, AgentProfile | Mapping[str, Any]] | None = None,
        permissions: Permissions | Mapping[str, Any] | str | None = None,
        pricing: Mapping[str, ModelPricing | Mapping[str, Any]] | None = None,
        budget_defaults: BudgetDefaults | Mapping[str, Any] | None = None,
        concurrency: int | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        determinism: str | Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        lease_ttl_s: float = 30.0,
        owner: str | None = None,
        salt_args: bool = False,
        queue: RunQueue | None = None,
        limiter: CallLimiter | None = None,
        workflows: Iterable[Workflow[Any] | type] = (),
        interceptors: Iterable[Interceptor] = (),
        providers: Providers | Mapping[Any, Any] | Iterable[Any] = (),
        grants: Iterable[str] | None = None,
        budget_usd: Usd = None,
        limits: Any = None,
        trace: bool = False,
        serial_children: bool = False,
    ) -> None:
        super().__init__(adapters, profiles, pricing, list_of(workflows, "workflows", "workflows"))
        check_seams(transcripts=transcripts, clock=clock, entropy=entropy, queue=queue, limiter=limiter)
        self.store: JournalStore = InMemoryStore() if journal is None else check_journal(journal)
        self.transcripts: TranscriptStore = transcripts or transcripts_of(self.store)
        self.clock: Clock = clock or SystemClock()
        self.entropy: Entropy = entropy or SystemEntropy()
        self.lease_ttl_s = check_ttl(lease_ttl_s)
        self.owner = check_text(owner, "owner") or default_owner()
        self.salt_args = salt_args
        self.queue = queue
        self.limiter = limiter
        self.routing = check_routing(routing, self.adapter_ids())
        self.permissions = Permissions.of(permissions)
        self.retry = RetryPolicy.of(retry)
        self.budget_defaults = BudgetDefaults.of(budget_defaults)
        self.interceptors = check_interceptors(interceptors)
        self.providers = providers if isinstance(providers, Providers) else Providers(providers)
        self.grants = check_grants(grants)
        self.budget_usd = ceiling_usd(budget_usd, None)
        self.limits = default_limits(limits)
        self.tracing = trace
        self.serial_children = serial_children
        self.guard = Guard(determinism)
        self.observers: tuple[EngineObserver, ...] = ambient_observers()
        self.slots = CallSlots(concurrency, limiter)
        self.timers = Timers()
        self.watch = Watchers()
        self._ulids = UlidSource(self.clock.now_ms)
        self._running: set[asyncio.Task[Any]] = set()
        self._handles: dict[asyncio.Task[Any], RunHandle] = {}
        self._started: weakref.WeakValueDictionary[str, RunHandle] = weakref.WeakValueDictionary()
        self._sites = SiteFinder()
        self.identities = Identities()
        for observer in self.observers:
            observer.engine_created(self._adapters)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel what still runs, wait for it to settle, and close the stores and the adapters' connections."""
        for handle in list(self._handles.values()):
            await handle.cancel("the engine was closed")
        await release_adapters(self._adapters.values())
        self.guard.close()
        await close_all(self.store, self.transcripts, self.queue, self.limiter)

    def run(
        self,
        wf: Workflow[Value] | RunsAs[Value] | type | str,
        args: Any = None,
        *,
        run_id: str | None = None,
        budget_usd: Usd = None,
        budget_micros: int | None = None,
        deadline_at: datetime | float | None = None,
        limits: Any = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        scope: Mapping[str, Any] | None = None,
        config_fingerprint: str | None = None,
        trace: bool | None = None,
        kept: Mapping[str, bytes] | None = None,
    ) -> RunHandle[Value]:
        """Start a run and return its handle at once; the workflow runs on the current event loop.

        Args:
            args: anything with a JSON form that fits the workflow's ``args``.
            run_id: 1 to 200 characters of ``A-Z a-z 0-9 . _ -``; a ULID unless given.
            budget_usd, budget_micros: ceiling of the run, in USD or in micro-USD; the engine's unless given. It
                holds over every resume.
            deadline_at: aware datetime or epoch seconds at which the run is cancelled.
            limits: of an agent Limits, the tighter of these and its own hold; of another workflow UsageLimits, the
                bounds of its agent calls that have none themselves or from their profile. They hold over every resume.
            name, tags: for people who look runs up.
            scope: what the run belongs to (a tenant, a project); journaled before anything runs.
            config_fingerprint: kept in the meta row.
            trace: keep arguments and envelopes of tool calls in the journal, for a tool fixture of the run.
            kept: by name, what is stored beside the run's transcripts before it starts.

        Raises:
            ConfigError, NonSerializableValueError: an argument is wrong; nothing has started then.
        """
        workflow = self.workflow_of(wf)
        request = RunRequest(
            run_id=check_run_id(run_id) if run_id is not None else self._ulids.mint(),
            workflow=workflow,
            args=args,
            args_json=None if args is None else journal_form(args, f"run of {workflow.name!r}: args"),
            deadline_ms=deadline_ms(deadline_at),
            name=check_text(name, "name"),
            tags=run_tags(tags),
            scope=scope_value(scope),
            config_fingerprint=check_text(config_fingerprint, "config_fingerprint"),
            trace=self.tracing if trace is None else trace,
            kept=kept or {},
            **run_bounds(self, workflow, (budget_usd, budget_micros), limits),
        )
        return self._start(RunHandle(self, request.run_id, EventBus(request.run_id, 0, self.clock)), request)

    def resume(
        self,
        run_id: str,
        wf: Workflow[Value] | RunsAs[Value] | type | str | None = None,
        *,
        args: Any = None,
        dry_run: bool = False,
        invalidate: Iterable[int] = (),
        budget_usd: Usd = None,
        budget_micros: int | None = None,
        deadline_at: datetime | float | None = None,
        limits: Any = None,
    ) -> ResumeHandle[Value]:
        """Continue a run from its journal: finished calls are served, the rest is done.

        Args:
            wf: the workflow; may be left out when the engine knows it by the recorded name.
            args: the arguments that the run was started with; others are refused.
            dry_run: write nothing, and stop at the first call that would go live with a
                ``journal_miss`` error in the outcome.
            invalidate: seqs of entries whose calls are run again; children that they stand in are entered.
            budget_usd, budget_micros, limits: others from now on; those that the run has hold unless given.
            deadline_at: as in :meth:`run`, for this segment.
        """
        check_run_id(run_id)
        workflow = None if wf is None else self.workflow_of(wf)
        request = RunRequest(
            run_id=run_id,
            workflow=workflow or unknown_workflow(),
            args=args,
            args_json=None if args is None else journal_form(args, f"resume of {run_id!r}: args"),
            resumed=True,
            strict=dry_run,
            deadline_ms=deadline_ms(deadline_at),
            invalidate=list_of(invalidate, "invalidate", "seqs"),
            **run_bounds(self, workflow, (budget_usd, budget_micros), limits, starts=False),
        )
        handle: ResumeHandle[Value] = ResumeHandle(self, run_id, EventBus(run_id, 0, self.clock))
        self._start(handle, request, known=workflow is not None)
        return handle

    def _start(
        self, handle: RunHandle[Value], request: RunRequest, *, known: bool = True
    ) -> RunHandle[Value]:
        loop = running_loop()
        segment = Segment(self, handle, request, workflow_is_known=known)
        task = loop.create_task(segment.execute(), name=f"rulvar run {request.run_id}")
        handle._task = task
        self._handles[task] = self._started[handle.run_id] = handle
        self.watch.tell(handle)
        task.add_done_callback(self._forget)
        return handle

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._handles.pop(task, None)
        if not task.cancelled():
            task.exception()  # a caller that never awaits the result is no error of the loop

    async def resolve_external(
        self,
        run_id: str,
        key: str,
        value: Any = None,
        *,
        wf: Workflow[Any] | RunsAs[Any] | type | str | None = None,
    ) -> None:
        """Journal the answer to an open wait of a run that is not live; with a queue, have it resumed.

        With a queue, an answer to a run that a worker drives right now is queued, and journaled when
        that worker is through.

        Args:
            key: the wait's key; for a state machine also the name of a wait transition.
            wf: the run's workflow, when the engine does not know it by name; a state machine's guards and
                payload types are asked before anything is journaled.

        Raises:
            ResolutionError: no open wait has that key, or the value is refused. Nothing is journaled then.
            RunNotFoundError: the store has no such run.
            LeaseHeldError: somebody drives the run right now; try again, or answer it there.
        """
        workflow = None if wf is None else self.workflow_of(wf)
        await answer_run(self, check_run_id(run_id), key, value, workflow)

    def inspect(self, run: RunHandle | str) -> RunInspection:
        """Return a look into a run of this engine, live or ended: its status, its money, its agents.

        Raises:
            NotFoundError: the engine holds no such run, or it has not started yet.
        """
        return inspect_run(self._started.get(run) if isinstance(run, str) else run, run)

    async def knows(self, run_id: str) -> bool:
        """Whether the store has a run of that id."""
        return await self.store.load_meta(run_id) is not None or bool(await self.store.load(run_id))

    async def hold(self, run_id: str) -> HeldRun:
        """Take a run's lease; whoever gets it must release it.

        Raises:
            LeaseHeldError: somebody else drives the run.
        """
        return await HeldRun.take(self.store, self.transcripts, run_id, self.owner, self.lease_ttl_s)

    # -- workers -------------------------------------------------------------------------

    async def enqueue(
        self,
        wf: Workflow[Any] | RunsAs[Any] | type | str,
        args: Any = None,
        *,
        run_id: str | None = None,
        budget_usd: Usd = None,
        budget_micros: int | None = None,
        deadline_at: datetime | float | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        scope: Mapping[str, Any] | None = None,
        connection: Any = None,
        priority: int = 0,
    ) -> str:
        """Hand a run to the workers and return its id; it is durable when this returns.

        Args:
            connection: a database connection of yours: the run is submitted in its transaction,
                and starts only if you commit.
            priority: higher ones go first.

        Raises:
            ConfigError, NonSerializableValueError: an argument is wrong, or the engine has no queue.
        """
        submission = make_submission(
            self,
            self.workflow_of(wf),
            args,
            run_id=run_id,
            budget_usd=ceiling_usd(budget_usd, budget_micros, self.budget_usd),
            deadline_at=deadline_at,
            name=name,
            tags=tags,
            scope=scope,
        )
        await queue_of(self.queue).submit(submission, connection=connection, priority=priority)
        return submission.run_id

    def start(self, submission: Submission) -> RunHandle:
        """Start a submitted run here; see ``rulvar.workers``."""
        request = request_of(self, submission)
        return self._start(RunHandle(self, request.run_id, EventBus(request.run_id, 0, self.clock)), request)

    def site_finder(self, run: Run) -> SiteFinder | None:
        """Return what finds call sites, when somebody asks for them."""
        wanted = run.strict or any(observer.wants_sites for observer in self.observers)
        return self._sites if wanted else None

    def mint_id(self) -> str:
        """Return a new ULID."""
        return self._ulids.mint()

    def ctx_of(self, run: Run) -> Ctx:
        """Return the ctx of a run."""
        return Ctx(run) if run.watch is None else run.watch.ctx()
