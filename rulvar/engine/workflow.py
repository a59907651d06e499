"""Workflows: async functions over ``ctx``, with the name that their runs carry."""

from __future__ import annotations

import functools
import hashlib
import inspect
import typing
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Generic, Protocol, cast, overload

from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.contracts.schema_types import makes_objects
from rulvar.contracts.type_variables import ValueOut
from rulvar.errors import ConfigError

__all__ = ["RunsAs", "Workflow", "define_workflow", "unknown_workflow", "workflow"]

Body = Callable[..., Awaitable[ValueOut]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workflow(Generic[ValueOut]):
    """A workflow: its name, its body ``async def body(ctx, args)`` and its defaults.

    Attributes:
        name: what runs of it are filed under; a resume with another name is refused.
        body: the function that re-runs from the top.
        args: contract of the arguments, or None.
        model, effort, routing: defaults of the model calls in it.
        source: what the run's source hash is made of, when it is not the body.
        admit: checks an answer to a wait of a run that is not live; see ``engine.answers``.
        adapters: models that its runs have beside the engine's; they win.
        grants: what it may use of what its caller may use; None is all of it.
        budget_share: the part of its caller's budget that it gets as a child; None is the engine's default.
        promise_usd: what is promised for it when it starts as a child; None is the engine's flat promise.
        is_driver: whether the body is rulvar's own and brings the author's code into the determinism
            guard's view itself.
        read_limits: reads the limits of one run; None takes UsageLimits, the bounds of model calls.
        uses: tools that its source does not show.
    """

    name: str
    body: Body[ValueOut]
    args: SchemaContract | None = None
    model: Any = None
    effort: str | None = None
    routing: Mapping[str, Any] = field(default_factory=dict)
    source: Any = None
    admit: Callable[..., Any] | None = None
    adapters: tuple[Any, ...] = ()
    grants: frozenset[str] | None = None
    budget_share: float | None = None
    promise_usd: float | None = None
    is_driver: bool = False
    read_limits: Callable[[Any], Any] | None = None
    uses: tuple[Any, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[ValueOut]:
        """Call the body itself, as a test of a helper may."""
        return self.body(*args, **kwargs)

    @property
    def source_hash(self) -> str:
        """SHA-256 of the body's source text, or of its compiled code where there is no source."""
        target = self.source or inspect.unwrap(self.body)
        code = getattr(target, "__code__", None)
        return _source_hash(target) if type(code) is not CodeType else _code_hash(_Written(code, target))


class _Written:
    """A function as it was written; the same only as itself: equal code need not have equal text."""

    __slots__ = ("code", "function")

    def __init__(self, code: CodeType, function: Any) -> None:
        self.code = code
        self.function = weakref.ref(function)  # what it closes over is not kept

    def __hash__(self) -> int:
        return id(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self.code is other.code


@functools.lru_cache(maxsize=1024)
def _code_hash(written: _Written) -> str:
    return _source_hash(written.function())


def _source_hash(target: Any) -> str:
    try:
        text = inspect.getsource(target).encode("utf-8")
    except (OSError, TypeError):
        code = getattr(target, "__code__", None)
        text = code.co_code if code is not None else repr(target).encode("utf-8")
    return hashlib.sha256(text).hexdigest()


class RunsAs(Protocol[ValueOut]):
    """Something that runs as a workflow: an agent, a compiled state machine."""

    @property
    def __workflow__(self) -> Workflow[ValueOut]:
        """The workflow that it runs as."""


@overload
def workflow(body: Body[ValueOut], /) -> Workflow[ValueOut]: ...


@overload
def workflow(
    body: None = None,
    /,
    *,
    name: str | None = None,
    args: Any = None,
    model: Any = None,
    effort: str | None = None,
    routing: Mapping[str, Any] | None = None,
) -> Callable[[Body[ValueOut]], Workflow[ValueOut]]: ...


def workflow(
    body: Body[ValueOut] | None = None,
    /,
    *,
    name: str | None = None,
    args: Any = None,
    model: Any = None,
    effort: str | None = None,
    routing: Mapping[str, Any] | None = None,
) -> Workflow[ValueOut] | Callable[[Body[ValueOut]], Workflow[ValueOut]]:
    """Make a workflow of ``async def body(ctx, args)``; usable bare and with options.

    Args:
        name: default: the function's name.
        args: JSON Schema or type that arguments are checked against before anything runs. Default: the
            annotation of the body's second parameter, where that is a dataclass or a pydantic model.
        model, effort, routing: defaults of the model calls in it; a call or profile overrides them.

    Raises:
        ConfigError: the body is not an async function of ``(ctx, args)``, or an option is wrong.
    """

    def make(decorated: Body[ValueOut]) -> Workflow[ValueOut]:
        return define_workflow(
            name or str(getattr(decorated, "__name__", "")),
            decorated,
            args=args,
            model=model,
            effort=effort,
            routing=routing,
        )

    return make if body is None else make(body)


def define_workflow(
    name: str | Mapping[str, Any],
    body: Body[ValueOut],
    *,
    args: Any = None,
    model: Any = None,
    effort: str | None = None,
    routing: Mapping[str, Any] | None = None,
) -> Workflow[ValueOut]:
    """Make a workflow of a name and a body; see :func:`workflow`."""
    if isinstance(name, Mapping):
        return define_workflow(**{**name, "body": body})
    if not isinstance(name, str) or not name:
        raise ConfigError("workflow name: expected a non-empty string", data={"field": "name"})
    _check_body(name, body)
    if args is None:
        args = _annotated_args(body)
    return Workflow(
        name=name,
        body=body,
        args=None if args is None else schema_contract(args, f"workflow {name!r} args"),
        model=model,
        effort=effort,
        routing=dict(routing or {}),
    )


def _check_body(name: str, body: object) -> None:
    if not callable(body):
        raise ConfigError(f"workflow {name!r}: the body is not callable", data={"field": "body"})
    target = inspect.unwrap(body)
    if inspect.isasyncgenfunction(target):
        raise ConfigError(
            f"workflow {name!r}: the body is an async generator; return a value instead of yielding"
        )
    if inspect.isfunction(target) and not inspect.iscoroutinefunction(target):
        raise ConfigError(
            f"workflow {name!r}: write 'async def {target.__name__}(ctx, args)'", data={"field": "body"}
        )
    try:
        parameters = inspect.signature(cast(Callable[..., Any], body)).parameters.values()
    except (TypeError, ValueError):
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = [p for p in positional if p.default is p.empty]
    if not variadic and (not positional or len(required) > 2):
        raise ConfigError(f"workflow {name!r}: the body takes (ctx, args) or (ctx)", data={"field": "body"})


def _annotated_args(body: Callable[..., Any]) -> Any:
    """Return the type that a body asks for its arguments in, when they have to be made into one."""
    target = inspect.unwrap(body)
    try:
        name = list(inspect.signature(target).parameters)[1]
        found = typing.get_type_hints(target, include_extras=True).get(name)
    except Exception:  # an annotation may name anything, or nothing at all: it is not ours to judge
        return None
    return found if makes_objects(found) else None


def takes_args(body: Callable[..., Any]) -> bool:
    """Whether a body takes ``args`` beside ``ctx``."""
    try:
        parameters = list(inspect.signature(body).parameters.values())
    except (TypeError, ValueError):
        return True
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) > 1


def unknown_workflow() -> Workflow[Any]:
    """Return what stands for a run's workflow until its recorded name has been looked up."""

    async def unknown(ctx: Any, args: Any) -> None:
        raise ConfigError("this workflow is not known")

    return define_workflow("unknown", unknown)
