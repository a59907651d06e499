"""From a class to its transition table; whatever is wrong is said when the class is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.engine.calls import Call
from rulvar.errors import MachineDefinitionError, SchemaError
from rulvar.kernel.keys import content_key
from rulvar.machines.definition import END, START, Definition, Mark, Retry, Transition, marks_of
from rulvar.machines.document import Widget, read_widgets
from rulvar.machines.names import snake_case
from rulvar.tools.signature import is_object_type

__all__ = ["compile_machine"]

_RESERVED = frozenset({"args", "definition", "state"})


def compile_machine(
    machine: type,
    *,
    name: str | None = None,
    args: Any = None,
    state: Any = None,
    widget: Any = None,
    title: str | None = None,
    description: str | None = None,
) -> Definition:
    """Return the definition of a machine's class.

    Raises:
        MachineDefinitionError: names the class, and the transition, guard or place that is wrong.
    """
    reader = _Reader(machine)
    transitions = reader.transitions()
    leaving = _leaving(transitions)
    _check_start(machine, leaving.get(START, ()))
    for place, choices in leaving.items():
        _check_choices(machine, place, choices)
    _check_targets(machine, transitions, leaving)
    widgets: Sequence[Widget] = read_widgets(widget, machine.__name__)
    if name is not None and (not isinstance(name, str) or not name):
        raise MachineDefinitionError(
            f"{machine.__name__} name={name!r}: expected a name",
            data={"machine": machine.__name__, "field": "name"},
        )
    return Definition(
        name=name or snake_case(machine.__name__, "Workflow", "Machine"),
        machine=machine,
        transitions=transitions,
        leaving=leaving,
        args=_contract(machine, args, "args"),
        state=_contract(machine, state, "state"),
        state_type=state if is_object_type(state) and not _is_typed_dict(state) else None,
        widgets=tuple(widgets),
        title=title,
        description=description or inspect.cleandoc(machine.__doc__ or "") or None,
        at_rest=getattr(machine, "__at_rest__", None),
        guards=reader.guards,
    )


class _Reader:
    """Reads the marks of one class."""

    def __init__(self, machine: type) -> None:
        self.machine = machine
        self.guards: dict[str, Callable[..., Any]] = {}

    def transitions(self) -> tuple[Transition, ...]:
        found: list[Transition] = []
        for name, body, marks in _marked(self.machine):
            takes_input = self._signature(name, body, any(mark.wait for mark in marks))
            for mark in marks:
                if not mark.from_:
                    self.refuse(name, "leaves no place: from_ is empty")
                for place in mark.from_:
                    found.append(self._transition(name, body, mark, place, takes_input))
        seen: set[tuple[str, str]] = set()
        for item in found:
            if (item.name, item.from_) in seen:
                self.refuse(item.name, f"leaves {item.from_!r} twice")
            seen.add((item.name, item.from_))
        return tuple(found)

    def _transition(
        self, name: str, body: Callable[..., Any], mark: Mark, place: Any, takes_input: bool
    ) -> Transition:
        for option, value in (("from_", place), ("to", mark.to)):
            if not isinstance(value, str) or not value:
                self.refuse(
                    name, f"{option}={value!r}: a place is a name; several are given to from_ as a list"
                )
        if place == END:
            self.refuse(name, "leaves 'end', where the run is over")
        if mark.to == START:
            self.refuse(name, "leads to 'start', which is only where a run begins")
        self._options(name, mark)
        identity = {"kind": "step", "key": f"transition:{name}", "deps": [place, mark.to]}
        key = content_key(identity)
        assert key is not None
        site = _site(body)
        return Transition(
            name=name,
            from_=place,
            to=mark.to,
            wait=mark.wait,
            payload=None if mark.payload is None else self._payload(name, mark.payload),
            guard=None if mark.guard is None else self._guard(name, mark.guard),
            priority=mark.priority,
            retry=mark.retry or Retry(),
            error_place=mark.error_place,
            timeout=mark.timeout or None,
            takes_input=takes_input,
            call=Call(identity, key, name, site),
            site=site,
        )

    def _options(self, name: str, mark: Mark) -> None:
        if mark.payload is not None and not mark.wait:
            self.refuse(name, "has a payload but does not wait; add wait=True")
        if mark.priority is not None and (
            isinstance(mark.priority, bool) or not isinstance(mark.priority, int)
        ):
            self.refuse(name, f"priority={mark.priority!r}: expected a whole number")
        timeout = mark.timeout
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0
        ):
            self.refuse(name, f"timeout={timeout!r}: expected seconds from 0 up, or None")
        if mark.error_place is not None and (
            not isinstance(mark.error_place, str) or mark.error_place in ("", END)
        ):
            self.refuse(
                name, f"error_place={mark.error_place!r}: expected the name of a place other than 'end'"
            )
        if mark.retry is not None:
            self._retry(name, mark.retry)

    def _retry(self, name: str, retry: Retry) -> None:
        if not isinstance(retry, Retry):
            self.refuse(name, f"retry={retry!r}: expected Retry(...)")
        attempts = retry.attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < -1:
            self.refuse(name, f"retry attempts={attempts!r}: expected -1, 0 or a number of attempts")
        for option in ("delay", "max_delay"):
            value = getattr(retry, option)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 <= value < float("inf")
            ):
                self.refuse(name, f"retry {option}={value!r}: expected seconds from 0 up")
        if retry.backoff not in ("exponential", "fixed"):
            self.refuse(name, f"retry backoff={retry.backoff!r}: use 'exponential' or 'fixed'")

    def _signature(self, name: str, body: Callable[..., Any], waits: bool) -> bool:
        """Return whether a body takes the answer beside ctx."""
        if name in _RESERVED or name.startswith("__"):
            self.refuse(name, "is a reserved name")
        if inspect.isasyncgenfunction(body) or inspect.isgeneratorfunction(body):
            self.refuse(name, "is a generator; a transition returns nothing and yields nothing")
        parameters = list(inspect.signature(body).parameters.values())[1:]
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        required = [p for p in positional if p.default is p.empty]
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        most = 2 if waits else 1
        if not positional or len(required) > most or keywords:
            shape = "(self, ctx, input)" if waits else "(self, ctx)"
            hint = "" if waits or len(required) <= 1 else "; only a wait transition is given an input"
            self.refuse(name, f"takes {shape}{hint}")
        return waits and len(positional) > 1

    def _payload(self, name: str, payload: Any) -> SchemaContract:
        try:
            return schema_contract(payload, f"{self.machine.__name__}.{name} payload")
        except SchemaError as error:
            self.refuse(name, str(error))

    def _guard(self, name: str, guard: str | Callable[..., Any]) -> str:
        chosen = guard if isinstance(guard, str) else str(getattr(guard, "__name__", guard))
        function = getattr(self.machine, chosen, None) if isinstance(guard, str) else guard
        if not callable(function):
            self.refuse(name, f"guard {chosen!r} is not a method of {self.machine.__name__}")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            self.refuse(name, f"guard {chosen!r} is async; a guard only looks at the state")
        static = isinstance(inspect.getattr_static(self.machine, chosen, None), (staticmethod, classmethod))
        own = isinstance(guard, str) or getattr(self.machine, chosen, None) is guard
        parameters = list(inspect.signature(function).parameters.values())
        required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
        takes_self = own and not static
        if len(required) > (2 if takes_self else 1) or len(parameters) < (2 if takes_self else 1):
            self.refuse(name, f"guard {chosen!r} takes {'(self, state)' if takes_self else '(state)'}")
        self.guards[chosen] = function if takes_self else _without_self(function)
        return chosen

    def refuse(self, name: str, problem: str) -> NoReturn:
        raise MachineDefinitionError(
            f"{self.machine.__name__}: transition {name!r} {problem}",
            data={"machine": self.machine.__name__, "transition": name},
        )


def _marked(machine: type) -> Iterator[tuple[str, Callable[..., Any], tuple[Mark, ...]]]:
    """Yield the transitions of a class and its bases in declaration order, bases first."""
    names: dict[str, None] = {}
    for kind in reversed(machine.__mro__):
        names.update(dict.fromkeys(name for name, value in vars(kind).items() if marks_of(_inner(value))))
    for name in names:
        _refuse_wrapped(machine, name)
        body = getattr(machine, name, None)
        if not callable(body):
            continue  # a subclass took it away: name = None
        marks = marks_of(body)
        if not marks:  # overridden without marks: the body is new, the places stay
            marks = next(
                marks_of(vars(kind)[name]) for kind in machine.__mro__ if marks_of(vars(kind).get(name))
            )
        yield name, body, marks


def _inner(attribute: Any) -> Any:
    """Return what a property or a static method is made of."""
    if isinstance(attribute, property):
        return attribute.fget
    return attribute.__func__ if isinstance(attribute, (staticmethod, classmethod)) else attribute


def _refuse_wrapped(machine: type, name: str) -> None:
    attribute = inspect.getattr_static(machine, name, None)
    if isinstance(attribute, (property, staticmethod, classmethod)):
        raise MachineDefinitionError(
            f"{machine.__name__}: transition {name!r} is a {type(attribute).__name__}; a transition is a plain method "
            "that takes (self, ctx)",
            data={"machine": machine.__name__, "transition": name},
        )


def _without_self(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, state: function(state)


def _leaving(transitions: Sequence[Transition]) -> dict[str, tuple[Transition, ...]]:
    groups: dict[str, list[Transition]] = {}
    for item in transitions:
        groups.setdefault(item.from_, []).append(item)
    return {
        place: tuple(sorted(items, key=lambda item: (item.priority is None, -(item.priority or 0))))
        for place, items in groups.items()
    }


def _check_start(machine: type, first: Sequence[Transition]) -> None:
    if len(first) == 1:
        return
    name = machine.__name__
    if not first:
        raise MachineDefinitionError(
            f"{name}: no transition leaves 'start'; exactly one must", data={"machine": name}
        )
    names = ", ".join(item.name for item in first)
    raise MachineDefinitionError(
        f"{name}: {len(first)} transitions leave 'start' ({names}); exactly one must", data={"machine": name}
    )


def _check_choices(machine: type, place: str, choices: Sequence[Transition]) -> None:
    free = [item.name for item in choices if not item.wait and item.guard is None]
    if len(free) > 1:
        raise MachineDefinitionError(
            f"{machine.__name__}: {', '.join(free)} all leave {place!r} without a guard, so only one of them could "
            "ever fire; guard the others",
            data={"machine": machine.__name__, "place": place},
        )


def _check_targets(
    machine: type, transitions: Sequence[Transition], leaving: Mapping[str, Sequence[Transition]]
) -> None:
    for item in transitions:
        target = item.retry.target
        if target is not None and target not in leaving:
            raise MachineDefinitionError(
                f"{machine.__name__}: transition {item.name!r} retries from {target!r}, which no transition leaves",
                data={"machine": machine.__name__, "transition": item.name},
            )


def _contract(machine: type, schema: Any, option: str) -> SchemaContract | None:
    if schema is None:
        return None
    try:
        return schema_contract(schema, f"{machine.__name__} {option}")
    except SchemaError as error:
        raise MachineDefinitionError(
            str(error), data={"machine": machine.__name__, "field": option}
        ) from None


def _is_typed_dict(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, dict)


def _site(body: Callable[..., Any]) -> CallSite | None:
    code = getattr(inspect.unwrap(body), "__code__", None)
    if code is None:
        return None
    line = code.co_firstlineno
    return CallSite(
        file=code.co_filename,
        line=line,
        column=1,
        end_line=line,
        end_column=1,
        function=getattr(body, "__qualname__", str(body)),
    )
