"""``run_workflow``: a state machine or a workflow on the real engine, in process, with scripted answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from rulvar.contracts.jsonable import journal_value
from rulvar.contracts.outcome import Outcome, Pending
from rulvar.contracts.ports.clock import Clock
from rulvar.contracts.stream import WireError
from rulvar.engine.handle import RunHandle
from rulvar.engine.primitives.child import check_args
from rulvar.engine.providers import Providers
from rulvar.errors import (
    ChildWorkflowError,
    ConfigError,
    OutcomeUnknownError,
    ResolutionError,
    ToolFailedError,
    TransitionError,
)
from rulvar.machines.answer import Failure
from rulvar.machines.app import App, definition_of
from rulvar.machines.fold import fold_run
from rulvar.machines.hitl import HITL
from rulvar.machines.mentions import find_mentions
from rulvar.machines.recording import Redact
from rulvar.machines.view import LIFECYCLE, RunView
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.answers import Answers
from rulvar.testing.engine import ImpatientClock, fake_routing
from rulvar.testing.fake import FakeAdapter
from rulvar.testing.fixture import FixturePlan, plan_fixture
from rulvar.testing.leftover_answers import check_answers, warn_of
from rulvar.testing.model_boundary import BoundEngine
from rulvar.testing.options import read_adapters, read_apps, read_overrides, read_scope
from rulvar.testing.run import TestRun
from rulvar.testing.tokens import check_tokens

__all__ = ["RunWatcher", "TestBench", "root_cause", "run_workflow"]

RUN_ID = "test-run"
_WRAPPERS = (ChildWorkflowError, OutcomeUnknownError, ToolFailedError, TransitionError)


async def run_workflow(
    workflow: Any,
    args: Any = None,
    *,
    providers: Iterable[Any] | Mapping[Any, Any] = (),
    apps: Iterable[App] = (),
    overrides: Mapping[Any, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    max_steps: int = 50,
    fixture: str | os.PathLike[str] | None = None,
    replay: Any = None,
    record: str | os.PathLike[str] | bool | None = None,
    replay_tools: str | Iterable[Any] = "*",
    redact: Redact = None,
    clock: Clock | None = None,
    models: Any = None,
    scope: Mapping[str, Any] | None = None,
    run_id: str = RUN_ID,
    **options: Any,
) -> TestRun:
    """Run a workflow on the real engine over an in-memory store, and return what it came to.

    Args:
        workflow: a state machine or a workflow.
        args: its arguments.
        providers: services, tools and ``(token, value)`` pairs; see ``Engine``.
        apps: where widgets are found; without its app a prompt is a bare wait.
        overrides: values by token (a tool, its id, a class) that win everywhere in the run tree.
        answers: wait transition (or the key of another wait) to the value that answers it: a plain value
            every time, ``queue(...)`` one per park, ``failure(...)`` the failure of what is waited for. One that
            the run did not ask for is warned of.
        max_steps: how many answers may be given before the run is held to be going round in circles.
        fixture: a file: replayed when it is there, recorded when it is not.
        replay: a fixture, or its file: always replayed.
        record: a file to record to, or True to keep the recording on ``run.recordings`` only.
        replay_tools: the tools that take part: ``"*"``, or a list of tools, ids, adapters and ``"model"``; others
            run for real and are never captured.
        redact: a recording has its credentials masked by the policy of cassettes; a function of a text runs
            before it and masks what it does not know, and False masks nothing.
        clock: with a TestClock, delays and timeouts wait for it; without, delays are skipped.
        models: adapters, or one; the fake model without responders unless given.
        scope: what the run belongs to.
        options: other options of the engine: routing, profiles, permissions, grants ...

    Raises:
        ConfigError: an option or an argument is wrong; nothing has run then. Or ``max_steps`` is reached.
        ReplayLeftoverError: the run completed and did not use all of its fixture.
    """
    plan = plan_fixture(
        fixture=fixture, replay=replay, record=record, replay_tools=replay_tools, redact=redact
    )
    known, instead = read_apps(apps), read_overrides(overrides)
    bench = TestBench(
        workflow,
        args,
        apps=known,
        providers=_with_tools(providers, instead, known),
        overrides=instead,
        plan=plan,
        max_steps=_check_steps(max_steps),
        clock=clock,
        models=models,
        scope=read_scope(scope),
        run_id=run_id,
        options=options,
    )
    run = await bench.start(answers)
    warn_of(bench.leftovers, stacklevel=2)
    return run


@runtime_checkable
class RunWatcher(Protocol):
    """An engine observer that is shown the run tree of every test run."""

    def run_ended(self, view: RunView) -> None:
        """See a run that has ended or waits."""


class TestBench:
    """The engine of one test run: it starts the run, answers it, and reads what it did."""

    __test__ = False

    def __init__(
        self,
        workflow: Any,
        args: Any,
        *,
        apps: tuple[App, ...],
        providers: Providers,
        overrides: Mapping[Any, Any],
        plan: FixturePlan,
        max_steps: int,
        clock: Clock | None,
        models: Any,
        scope: Mapping[str, Any] | None,
        run_id: str,
        options: dict[str, Any],
    ) -> None:
        self.apps = apps
        self.plan = plan
        self.run_id = run_id
        self._max_steps = max_steps
        self._scope = scope
        self._providers = providers
        self._overrides = overrides
        self.store = InMemoryStore()
        adapters = _adapters(models)
        known = options.get("workflows") or ()
        has_profiles = bool(options.get("profiles"))
        routing = {**_default_routing(adapters), **options.pop("routing", {})}
        self.engine = BoundEngine(
            plan,
            adapters=adapters,
            journal=self.store,
            clock=clock or ImpatientClock(),
            providers=providers,
            interceptors=(*options.pop("interceptors", ()), *plan.interceptors),
            routing=routing,
            trace=True,
            serial_children=True,
            **options,
        )
        self.workflow = self.engine.workflow_of(workflow)
        self.args = None if args is None else journal_value(args, f"run of {self.workflow.name!r}: args")
        refused = check_args(self.workflow, self.args)
        if refused is not None:
            raise refused
        self._mentions = find_mentions([workflow, *known, *providers.tools(), *apps])
        self._check_names(has_profiles)
        self.leftovers: list[str] = []

    async def start(self, answers: Mapping[str, Any] | None) -> TestRun:
        """Start the run and take it as far as the answers go."""
        scripted = Answers(answers)
        handle = self.engine.run(self.workflow, self.args, run_id=self.run_id, scope=self._scope)
        return await self._drive(handle, scripted)

    async def go_on(self, answers: Mapping[str, Any] | None) -> TestRun:
        """Resume the run and take it as far as the answers go."""
        return await self._drive(self._resume(), Answers(answers))

    async def answer(self, key: str, value: Any) -> None:
        """Answer a wait of the run."""
        await self.engine.resolve_external(self.run_id, key, value, wf=self.workflow)

    async def view(self) -> RunView:
        """Return the run tree as the journal tells it."""
        entries = await self.store.load(self.run_id)
        view = fold_run(entries, self.run_id, await self.store.load_meta(self.run_id))
        view.definition = definition_of(self.workflow)
        for node in view.tree()[1:]:
            node.definition = definition_of(self._mentions.workflow(node.workflow))
        return view

    def builtin_apps(self) -> tuple[App, ...]:
        """Return the apps that every run knows."""
        return (HITL,)

    async def _drive(self, handle: RunHandle, answers: Answers) -> TestRun:
        delivered = 0
        refused: ResolutionError | None = None
        outcome = await handle.result()
        while outcome.status == "suspended":
            view = await self.view()
            answers.note_asked(way.transition or way.key for node in view.open_tree() for way in node.waits)
            way = _applicable(view, answers)
            if way is None:
                break
            if delivered >= self._max_steps:
                raise _going_round(way, self._max_steps)
            name = way.transition or way.key
            value = answers.value(name)
            if isinstance(value, Failure) and way.transition is None:
                raise ConfigError(
                    f"answers[{name!r}]: failure() answers a wait transition of a machine, and this wait of "
                    f"{self.workflow.name!r} is none: give it a value",
                    data={"field": "answers", "wait": way.key},
                )
            try:
                await self.answer(way.key, value)
            except ResolutionError as error:
                refused = error
                break
            answers.accepted(name)
            delivered += 1
            handle = self._resume()
            outcome = await handle.result()
        self.leftovers = [] if refused else self._check_answers(answers, outcome)
        return await self._ended(handle, outcome, refused)

    def _check_answers(self, answers: Answers, outcome: Outcome) -> list[str]:
        machines = [definition_of(item) for item in (self.workflow, *self._mentions.workflows.values())]
        known = {way.name for machine in machines if machine is not None for way in machine.transitions}
        return check_answers(answers, outcome, known)

    def _resume(self) -> RunHandle:
        return self.engine.resume(self.run_id, self.workflow, args=self.args)

    async def _ended(self, handle: RunHandle, outcome: Outcome, refused: ResolutionError | None) -> TestRun:
        view = await self.view()
        view.status = LIFECYCLE.get(outcome.status, "failed")
        if outcome.status == "ok":
            view.result = outcome.value
        error = outcome.error if refused is None else WireError.from_wire(refused.to_wire())
        if outcome.error is not None:
            view.error = outcome.error.message
        recordings = None
        recorder = self.plan.recorder
        if recorder is not None:
            recordings = recorder.fixture()
            if self.plan.save_to is not None and not recorder.refused:
                recordings.save(self.plan.save_to)
        if self.plan.replayer is not None and outcome.status == "ok":
            self.plan.replayer.check_used_up()
        for observer in self.engine.observers:
            if isinstance(observer, RunWatcher):
                observer.run_ended(view)
        failure = None if handle._run is None else handle._run.failure
        return TestRun(
            outcome=outcome,
            view=view,
            bench=self,
            error=error,
            exception=root_cause(failure),
            recordings=recordings,
        )

    def _check_names(self, has_profiles: bool) -> None:
        """Refuse a token that nothing in the run asks for: a typing error would let the tool run for real."""
        tools = self._mentions.tools
        if not tools or has_profiles:
            return  # which tools there are shows only once it runs
        named: list[tuple[str, Any]] = [("overrides", token) for token in self._overrides]
        named += [("replay_tools", name) for name in self.plan.named]
        check_tokens(named, tools, self._mentions.tokens)


def _applicable(root: RunView, answers: Answers) -> Pending | None:
    """Return the first wait that an answer fits: the root's first, then depth first over the children."""
    for node in root.open_tree():
        if node.status != "waiting":
            continue
        for way in node.waits:
            if answers.has(way.transition or way.key):
                return way
    return None


def _going_round(way: Pending, max_steps: int) -> ConfigError:
    name = way.transition or way.key
    return ConfigError(
        f"max_steps={max_steps} answers were given and the run still waits for {name!r}: a plain answer is given "
        "every time the run parks there; use queue(...) to answer a known number of times, or raise max_steps",
        data={"field": "max_steps", "wait": way.key},
    )


def _check_steps(max_steps: Any) -> int:
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ConfigError(
            f"max_steps={max_steps!r}: expected a whole number from 1 up", data={"field": "max_steps"}
        )
    return max_steps


def _with_tools(providers: Any, overrides: Mapping[Any, Any], apps: tuple[App, ...]) -> Providers:
    if isinstance(providers, Mapping) or not isinstance(providers, Iterable):
        return Providers(providers, overrides)
    return Providers([*(tool for app in apps for tool in app.tools), *providers], overrides)


def _adapters(models: Any) -> list[Any]:
    return [FakeAdapter(agents={})] if models is None else read_adapters(models)


def _default_routing(adapters: list[Any]) -> dict[str, str]:
    first = adapters[0] if adapters else None
    if not isinstance(first, FakeAdapter):
        return {}
    return {role: reference.replace("fake:", f"{first.id}:", 1) for role, reference in fake_routing().items()}


def root_cause(failure: BaseException | None) -> BaseException | None:
    """Return what a body or a tool raised, without the errors that rulvar put around it."""
    seen: set[int] = set()
    while isinstance(failure, _WRAPPERS) and failure.__cause__ is not None and id(failure) not in seen:
        seen.add(id(failure))
        failure = failure.__cause__
    return failure
