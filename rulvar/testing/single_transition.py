"""``run_transition``: the body of one transition on its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulvar.contracts.jsonable import journal_value
from rulvar.contracts.ports.clock import Clock
from rulvar.engine.ctx import Ctx, run_of
from rulvar.engine.engine import Engine
from rulvar.engine.primitives.child import check_args, revived_args
from rulvar.engine.providers import Providers
from rulvar.engine.workflow import define_workflow
from rulvar.errors import ConfigError
from rulvar.machines.answer import Failure, Input, payload_problem
from rulvar.machines.app import App, definition_of
from rulvar.machines.commit import Commit, Launch
from rulvar.machines.definition import Definition, Transition
from rulvar.machines.document import Document
from rulvar.machines.fold import fold_run
from rulvar.machines.mentions import find_mentions
from rulvar.machines.run import MachineRun
from rulvar.machines.state import Frozen, copy_json
from rulvar.machines.trace import TraceEvent
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.engine import ImpatientClock
from rulvar.testing.options import read_apps, read_overrides, read_scope
from rulvar.testing.tokens import check_tokens

__all__ = ["TransitionRun", "run_transition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRun:
    """What one transition did.

    Attributes:
        state, result: afterwards.
        to: the place it leads to.
        documents: what it saved.
        children: what it started; nothing of it has run.
        tool_calls: the tool calls that it made.
    """

    state: dict[str, Any]
    result: Any
    to: str
    documents: list[Document] = field(default_factory=list)
    children: list[Launch] = field(default_factory=list)
    tool_calls: list[TraceEvent] = field(default_factory=list)

    def document(self, name_or_key: str) -> Any:
        """Return the content of the latest document of that name or key, or None."""
        for item in reversed(self.documents):
            if name_or_key in (item.name, item.key):
                return item.content
        return None


async def run_transition(
    machine: Any,
    name: str,
    *,
    state: Any = None,
    result: Any = None,
    payload: Any = None,
    args: Any = None,
    from_: str | None = None,
    providers: Iterable[Any] | Mapping[Any, Any] = (),
    overrides: Mapping[Any, Any] | None = None,
    apps: Iterable[App] = (),
    clock: Clock | None = None,
    scope: Mapping[str, Any] | None = None,
    **options: Any,
) -> TransitionRun:
    """Run the body of one transition with a given state; its guard and its retries do not come into it.

    Args:
        machine: the class.
        name: the transition.
        state, result: what the body finds; empty unless given.
        payload: of a wait transition: the answer, or ``failure(...)``.
        args: the run's arguments.
        from_: which of its places it leaves, when it leaves several.
        providers, overrides, apps, clock, scope: as for ``run_workflow``.
        options: other options of the engine.

    Raises:
        ConfigError: no such transition, or a payload or arguments that do not fit.
        Exception: whatever the body raised.
    """
    definition = definition_of(machine)
    if definition is None:
        raise ConfigError(f"run_transition: {machine!r} is no state machine", data={"field": "machine"})
    item = _transition(definition, name, from_)
    given = _input(item, payload)
    workflow = machine.__workflow__
    plain = None if args is None else journal_value(args, "args")
    refused = check_args(workflow, plain)
    if refused is not None and args is not None:
        raise refused
    # a body that reads none of them may go without arguments
    revived = plain if refused is not None else revived_args(workflow, plain)
    before = {} if state is None else journal_value(state, "state")
    if not isinstance(before, dict):
        raise ConfigError(
            f"run_transition state={state!r}: expected a mapping or an instance of the state's type",
            data={"field": "state"},
        )
    overrides = read_overrides(overrides)
    mentions = find_mentions([machine, *read_apps(apps)])
    if mentions.tools:
        check_tokens([("overrides", token) for token in overrides], mentions.tools, mentions.tokens)
    done: list[tuple[MachineRun, Commit]] = []

    async def single(ctx: Ctx) -> None:
        frozen = Frozen(revived) if isinstance(revived, dict) else revived
        driver = _Single(run_of(ctx), definition, frozen, mentions)
        driver.progress.place = item.from_
        driver.progress.state = copy_json(before)
        driver.progress.result = journal_value(result, "result")
        commit = await driver.fire_once(item, given)
        done.append((driver, commit))

    store = InMemoryStore()
    engine = Engine(
        journal=store,
        clock=clock or ImpatientClock(),
        providers=Providers(providers, overrides),
        trace=True,
        **options,
    )
    async with engine:
        handle = engine.run(
            define_workflow(definition.name, single), run_id="test-run", scope=read_scope(scope)
        )
        outcome = await handle.result()
    if not done:
        failure = None if handle._run is None else handle._run.failure
        raise failure or ConfigError(
            f"transition {name!r} did not end: the run is {outcome.status}", data={"transition": name}
        )
    driver, commit = done[0]
    if commit.error is not None:
        raise driver.exception or ConfigError(str(commit.error.get("message")))
    view = fold_run(await store.load("test-run"), "test-run")
    return TransitionRun(
        state=driver.progress.state,
        result=driver.progress.result,
        to=commit.to,
        documents=list(commit.documents),
        children=list(commit.children),
        tool_calls=view.tool_calls,
    )


class _Single(MachineRun):
    """A machine that makes one step."""

    async def fire_once(self, item: Transition, given: Input | None) -> Commit:
        try:
            await self._fire(item, given)
        finally:
            await self.children.close(cancel=True)
        assert self.progress.last is not None
        return self.progress.last


def _transition(definition: Definition, name: str, from_: str | None) -> Transition:
    found = [item for item in definition.transitions if item.name == name and from_ in (None, item.from_)]
    if not found:
        known = ", ".join(definition.names)
        place = "" if from_ is None else f" that leaves {from_!r}"
        raise ConfigError(
            f"{definition.machine.__name__} has no transition {name!r}{place}; it has: {known}",
            data={"field": "name"},
        )
    return found[0]


def _input(item: Transition, payload: Any) -> Input | None:
    if not item.wait:
        if payload is not None:
            raise ConfigError(
                f"transition {item.name!r} does not wait and takes no payload", data={"field": "payload"}
            )
        return None
    if isinstance(payload, Failure):
        return Input(status=payload.status, message=payload.message)
    plain = journal_value(payload, "payload")
    problem = payload_problem(item, plain)
    if problem is not None:
        raise ConfigError(
            f"the payload of transition {item.name!r} does not fit: {problem}", data={"field": "payload"}
        )
    return Input(data=plain if item.payload is None else item.payload.revive(plain))
