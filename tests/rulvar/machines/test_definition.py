"""What a machine's class may declare, and what is said of one that is wrong."""

from __future__ import annotations

import enum
from typing import Any, TypedDict

import pytest

from rulvar import App, MachineCtx, Retry, StateMachine, document, transition
from rulvar.errors import ConfigError, MachineDefinitionError
from rulvar.machines.diagram import diagram
from rulvar.testing import run_workflow


def body(self: Any, ctx: MachineCtx) -> None: ...


def make(**members: Any) -> type:
    return type("Odd", (StateMachine,), members)


def step(to: str = "end", from_: Any = "start", **options: Any) -> Any:
    def fresh(self: Any, ctx: MachineCtx) -> None: ...

    return transition(to, from_, **options)(fresh)


def waiting(to: str = "end", from_: Any = "start", **options: Any) -> Any:
    def fresh(self: Any, ctx: MachineCtx, input: Any) -> None: ...

    return transition(to, from_, wait=True, **options)(fresh)


def test_a_machine_needs_exactly_one_transition_out_of_start() -> None:
    with pytest.raises(MachineDefinitionError, match=r"Odd: no transition leaves 'start'"):
        make(a=step(from_="x"))
    with pytest.raises(MachineDefinitionError, match=r"Odd: 2 transitions leave 'start' \(a, b\)"):
        make(a=step(guard=lambda state: True), b=step(guard=lambda state: True))


def test_one_unguarded_transition_per_place() -> None:
    with pytest.raises(MachineDefinitionError, match=r"Odd: b, c all leave 'x' without a guard"):
        make(a=step("x"), b=step(from_="x"), c=step(from_="x"))
    machine: Any = make(a=step("x"), b=step(from_="x"), c=waiting(from_="x"), d=waiting(from_="x"))
    assert [item.name for item in machine.definition.leaving["x"]] == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"a": step(guard="nobody")}, r"'a' guard 'nobody' is not a method of Odd"),
        ({"a": step(from_=("start", "start"))}, r"'a' leaves 'start' twice"),
        ({"a": step("start")}, r"leads to 'start'"),
        ({"a": step("x"), "b": step(from_="end")}, r"'b' leaves 'end'"),
        ({"a": step(to="")}, r"to=''"),
        ({"a": step(from_=7)}, r"from_=7"),
        ({"a": step(payload={"type": "object"})}, r"has a payload but does not wait"),
        ({"a": step(priority="high")}, r"priority='high'"),
        ({"a": step(timeout=-1)}, r"timeout=-1"),
        ({"a": step(timeout=float("nan"))}, r"timeout=nan"),
        ({"a": step(error_place="end")}, r"error_place='end'"),
        ({"a": step(retry=Retry(attempts=-2))}, r"retry attempts=-2"),
        ({"a": step(retry=Retry(delay=-1))}, r"retry delay=-1"),
        ({"a": step(retry=Retry(backoff="linear"))}, r"retry backoff='linear'"),  # type: ignore[arg-type]
        ({"a": step(retry=3)}, r"retry=3"),
        ({"a": step(retry=Retry(target="nowhere"))}, r"retries from 'nowhere'"),
        ({"a": waiting(payload="text")}, r"payload"),
        ({"args": step()}, r"'args' is a reserved name"),
        ({"definition": step()}, r"'definition' is a reserved name"),
        ({"a": step(from_=[])}, r"'a' leaves no place: from_ is empty"),
        ({"a": step(from_={"start"})}, r"several are given to from_ as a list"),
    ],
)
def test_a_wrong_option_is_named_with_class_and_transition(members: dict[str, Any], said: str) -> None:
    with pytest.raises((MachineDefinitionError, TypeError), match=said) as caught:
        make(**members)
    if isinstance(caught.value, MachineDefinitionError):
        assert "Odd" in str(caught.value)


def test_bodies_and_guards_have_one_shape() -> None:
    def none(self: Any) -> None: ...

    def two(self: Any, ctx: Any, input: Any) -> None: ...

    def generator(self: Any, ctx: Any) -> Any:
        yield

    async def asynchronous(self: Any, state: Any) -> bool:
        return True

    with pytest.raises(MachineDefinitionError, match=r"'a' takes \(self, ctx\)"):
        make(a=transition(none))
    with pytest.raises(MachineDefinitionError, match="only a wait transition is given an input"):
        make(a=transition(two))
    with pytest.raises(MachineDefinitionError, match="generator"):
        make(a=transition(generator))
    with pytest.raises(MachineDefinitionError, match="'ready' is async"):
        make(a=step(guard="ready"), ready=asynchronous)
    with pytest.raises(MachineDefinitionError, match=r"guard 'ready' takes \(self, state\)"):
        make(a=step(guard="ready"), ready=lambda self: True)


def test_marks_stack_and_places_may_be_listed() -> None:
    class Stacked(StateMachine):
        @transition("x")
        def a(self, ctx: MachineCtx) -> None: ...

        @transition("end", "x", wait=True)
        @transition("x", "y")
        def b(self, ctx: MachineCtx) -> None: ...

        @transition("y", ["x", "z"], wait=True)
        def c(self, ctx: MachineCtx) -> None: ...

    edges = [(item.name, item.from_, item.to) for item in Stacked.definition.transitions]
    assert edges == [
        ("a", "start", "x"),
        ("b", "x", "end"),
        ("b", "y", "x"),
        ("c", "x", "y"),
        ("c", "z", "y"),
    ]
    assert Stacked.definition.names == ("a", "b", "c")


def test_priority_comes_first_and_then_the_order_of_declaration() -> None:
    machine: Any = make(
        a=step("x"),
        b=step(from_="x"),
        c=step(from_="x", guard=lambda s: True),
        d=step(from_="x", priority=1, guard=lambda s: True),
        e=step(from_="x", priority=2, guard=lambda s: True),
    )
    assert [item.name for item in machine.definition.leaving["x"]] == ["e", "d", "b", "c"]


def test_names_come_from_classes() -> None:
    class ReviewPullRequestWorkflow(StateMachine):
        @transition
        def a(self, ctx: MachineCtx) -> None: ...

    class HTTPProbe(StateMachine, name="probe", title="A probe"):
        """Looks."""

        @transition
        def a(self, ctx: MachineCtx) -> None: ...

    assert ReviewPullRequestWorkflow.definition.name == "review_pull_request"
    assert (HTTPProbe.definition.name, HTTPProbe.definition.title) == ("probe", "A probe")
    assert HTTPProbe.definition.description == "Looks."
    with pytest.raises(MachineDefinitionError, match="unknown class argument 'titel'"):

        class Typo(StateMachine, titel="x"): ...

    with pytest.raises(MachineDefinitionError, match="Numbered name=3"):

        class Numbered(StateMachine, name=3):  # type: ignore[arg-type]
            @transition
            def a(self, ctx: MachineCtx) -> None: ...


def test_an_abstract_base_gives_its_transitions_and_a_body_may_be_overridden() -> None:
    class Base(StateMachine, abstract=True):
        @transition("x", "x", wait=True)
        def again(self, ctx: MachineCtx) -> None: ...

        @transition("x")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["by"] = "base"

    class Derived(Base):
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["by"] = "derived"

    class Without(Base):
        again = None  # type: ignore[assignment]

    assert not hasattr(Base, "definition")
    assert Derived.definition.names == ("again", "begin")
    assert Without.definition.names == ("begin",)


def test_a_machine_object_holds_nothing() -> None:
    machine: Any = make(a=step())
    with pytest.raises(AttributeError, match=r"use ctx\.state"):
        machine().count = 1


def test_an_app_takes_only_what_belongs_there() -> None:
    with pytest.raises(ConfigError, match=r"machines\[0\]"):
        App("a", machines=[dict])
    with pytest.raises(ConfigError, match=r"documents\[0\]"):
        App("a", documents=[dict])


def test_a_diagram_shows_places_waits_guards_and_errors() -> None:
    class Drawn(StateMachine):
        @transition("in progress", error_place="broken")
        def begin(self, ctx: MachineCtx) -> None: ...

        def ready(self, state: Any) -> bool:
            return True

        @transition("end", "in progress", guard="ready")
        def finish(self, ctx: MachineCtx) -> None: ...

        @transition("in progress", ("in progress", "broken"), wait=True)
        def again(self, ctx: MachineCtx) -> None: ...

    assert diagram(Drawn) == (
        "stateDiagram-v2\n"
        '    state "in progress" as place_2\n'
        "    [*] --> place_2 : begin\n"
        "    [*] --> broken : ✗ begin\n"
        "    place_2 --> [*] : finish [ready]\n"
        "    place_2 --> place_2 : ⏸ again\n"
        "    broken --> place_2 : ⏸ again\n"
    )
    with pytest.raises(ConfigError, match="no state machine"):
        diagram(dict)


class Place(enum.Enum):
    START = "start"
    PARK = "park"
    END = "end"
    BROKEN = "broken"


@pytest.mark.parametrize("places", [Place, enum.StrEnum("Places", {item.name: item.value for item in Place})])
async def test_places_may_be_members_of_an_enumeration(places: Any) -> None:
    @document(enable_at=places.PARK)
    class Note(TypedDict):
        text: str

    class Parking(StateMachine):
        @transition(places.PARK, places.START, error_place=places.BROKEN, retry=Retry(1, target=places.START))
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(Note, {"text": "x"}, hide_at=[places.END])

        @transition(places.END, [places.PARK, places.BROKEN], wait=True)
        def go(self, ctx: MachineCtx) -> None: ...

    for item in Parking.definition.transitions:
        assert {type(item.from_), type(item.to)} == {str}
    run = await run_workflow(Parking)
    assert (run.status, run.place, type(run.place)) == ("waiting", "park", str)
    assert (run.documents[0].enable_at, run.documents[0].hide_at) == (("park",), ("end",))
    assert (await run.answer("go")).status == "completed"


@pytest.mark.parametrize("wrapper", [staticmethod, classmethod, property])
def test_a_transition_is_a_plain_method(wrapper: Any) -> None:
    with pytest.raises(
        MachineDefinitionError, match=r"Odd: transition 'a' is a \w+; a transition is a plain"
    ):
        make(a=wrapper(step()))
    for misplaced in (transition, transition("end")):
        with pytest.raises(
            MachineDefinitionError, match=r"put it on a plain method that takes \(self, ctx\)"
        ):
            misplaced(wrapper(body))
        with pytest.raises(MachineDefinitionError, match="put it on a plain method"):
            misplaced(Place)


def test_a_transition_that_is_defined_twice_is_told_where_it_stands() -> None:
    with pytest.raises(MachineDefinitionError, match="Doubled: transition 'a' is defined twice"):

        class Doubled(StateMachine):
            @transition("x")
            def a(self, ctx: MachineCtx) -> None: ...

            @transition("end", "x")
            def a(self, ctx: MachineCtx) -> None: ...  # noqa: F811

    with pytest.raises(MachineDefinitionError, match="Bare: transition 'a' is defined twice"):

        class Bare(StateMachine):
            @transition
            def a(self, ctx: MachineCtx) -> None: ...

            @transition
            def a(self, ctx: MachineCtx) -> None: ...  # noqa: F811


async def test_a_subclass_has_the_arguments_state_and_widget_of_its_base() -> None:
    class Base(StateMachine, args={"type": "integer"}, state={"type": "object"}, widget="form", name="base"):
        @transition
        def a(self, ctx: MachineCtx) -> None:
            ctx.result["n"] = ctx.args

    class Derived(Base):
        """The base, with a name of its own."""

    class Narrow(Derived, args={"type": "integer", "maximum": 3}): ...

    assert Derived.definition.name == "derived"
    assert [widget.type for widget in Derived.definition.widgets] == ["form"]
    assert Derived.definition.state is not None
    assert (await run_workflow(Derived, 4)).result == {"n": 4}
    with pytest.raises(ConfigError, match="'derived' args"):
        await run_workflow(Derived, "4")
    with pytest.raises(ConfigError, match="'narrow' args"):
        await run_workflow(Narrow, 4)


async def test_what_is_no_machine_that_could_run_is_named() -> None:
    class Base(StateMachine, abstract=True):
        @transition
        def a(self, ctx: MachineCtx) -> None: ...

    with pytest.raises(ConfigError, match=r"got the class Base; .*not abstract"):
        await run_workflow(Base)
