"""``StateMachine``: a class whose methods are transitions, compiled to one workflow."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import Pending
from rulvar.engine.ctx import Ctx, run_of
from rulvar.engine.workflow import Workflow
from rulvar.errors import MachineDefinitionError
from rulvar.machines.compile import compile_machine
from rulvar.machines.definition import Definition
from rulvar.machines.mentions import Mentions, find_mentions
from rulvar.machines.run import MachineRun
from rulvar.machines.settled import admit_settled
from rulvar.machines.state import Frozen

__all__ = ["StateMachine"]


class StateMachine:
    """Base of state machines; a subclass is a workflow.

    ::

        class Triage(StateMachine, args=Ticket):
            @transition(to="classified")
            async def classify(self, ctx): ...

    One object serves a run and holds nothing of it: what a run knows is on ``ctx.state``. Attributes
    whose value is ``inject(token)`` are services of the engine.

    Class arguments:
        args: JSON Schema or type of the arguments, checked before anything runs.
        state: JSON Schema or type of the state, checked after every transition.
            A subclass that gives no args, state or widget has those of its base.
        name: default: the class name without ``Workflow``, in snake case.
        widget: widgets that sit on the workflow itself.
        title, description: for people.
        abstract: a base for other machines, not a workflow; its transitions are not checked.
    """

    definition: ClassVar[Definition]
    __options__: ClassVar[dict[str, Any]]
    __workflow__: ClassVar[Workflow[Any]]
    __at_rest__: ClassVar[str | None] = None
    """See ``Definition.at_rest``."""

    def __init_subclass__(
        cls,
        *,
        args: Any = None,
        state: Any = None,
        name: str | None = None,
        widget: Any = None,
        title: str | None = None,
        description: str | None = None,
        abstract: bool = False,
        **others: Any,
    ) -> None:
        super().__init_subclass__()
        if others:
            raise MachineDefinitionError(
                f"{cls.__name__}: unknown class argument {sorted(others)[0]!r}",
                data={"machine": cls.__name__},
            )
        given = {"args": args, "state": state, "widget": widget}
        inherited = getattr(cls, "__options__", {})
        cls.__options__ = {
            name: inherited.get(name) if value is None else value for name, value in given.items()
        }
        if abstract:
            return
        cls.definition = compile_machine(
            cls,
            name=name,
            title=title,
            description=description,
            **cls.__options__,
        )
        cls.__workflow__ = _workflow(cls.definition)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name} cannot be set: a machine holds nothing of a run; use ctx.state"
        )


class _Compiled:
    """The body of a machine's workflow, and what is worked out once about its class."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @cached_property
    def mentions(self) -> Mentions:
        """What the machine's code mentions; found when it first runs, once every name is bound."""
        return find_mentions([self.definition.machine])

    async def run(self, ctx: Ctx, args: Any) -> Any:
        """Drive the machine."""
        given = Frozen(args) if isinstance(args, dict) else args
        return await MachineRun(run_of(ctx), self.definition, given, self.mentions).drive()

    def admit(self, entries: list[JournalEntry], way: Pending, value: Any) -> Any:
        """Check an answer to a run that is not live; see ``engine.answers``."""
        return admit_settled(self.definition, self.mentions, entries, way, value)


def _workflow(definition: Definition) -> Workflow[Any]:
    compiled = _Compiled(definition)
    return Workflow(
        name=definition.name,
        body=compiled.run,
        args=definition.args,
        source=definition.machine,
        admit=compiled.admit,
        is_driver=True,
    )
