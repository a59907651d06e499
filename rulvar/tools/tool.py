"""Tools: typed functions that a model or a workflow may call.

``@tool`` makes a :class:`Tool` of a function: its parameters become the JSON Schema that the model
sees, its docstring the description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypedDict, Unpack, get_args, overload

from rulvar.contracts.messages import ToolContract
from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.contracts.type_variables import Parameters, ValueOut
from rulvar.errors import ConfigError, RulvarError
from rulvar.tools.injection import Injected
from rulvar.tools.signature import read_signature

__all__ = ["Effects", "ModelRetry", "Risk", "Tool", "ToolGuards", "ToolRefusal", "tool"]

Risk = Literal["read", "write", "network", "exec", "destructive", "execute"]
Effects = Literal["none", "read", "write", "host"]
Guard = Callable[..., bool | str | Awaitable[bool | str | None] | None]
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_.:/-]{1,128}")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class ModelRetry(RulvarError):
    """A tool raises this to send the model its text and let it try again."""

    code = "model_retry"


class ToolRefusal(RulvarError):
    """A tool raises this to refuse a call; the model and the outcome see its text."""

    code = "tool_refusal"

    def __init__(
        self,
        message: str = "the tool refused the call before it had any effect",
        *,
        data: dict[str, Any] | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, data=data, retryable=retryable)


@dataclass(frozen=True, slots=True)
class ToolGuards:
    """Checks around a tool; they fail closed.

    A guard is a function, sync or async, of the arguments (``input``) or of the result data
    (``output``), and of the ToolContext if it takes two. ``False`` or a text blocks the call, ``True``
    or None lets it through, and a guard that raises blocks it as unavailable. The text is for whoever
    debugs: it is the ``exception`` of a test run, and neither told nor journaled.
    """

    input: Sequence[Guard] = ()
    output: Sequence[Guard] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool(Generic[Parameters, ValueOut]):
    """A function that a model or a workflow may call, and what is known of it.

    Attributes:
        name: 1 to 64 characters of ``a-z A-Z 0-9 _ -``; what the model calls it.
        description: what the model reads.
        parameters: contract of the arguments object.
        function: what runs; sync or async; takes the arguments by name.
        id: what grants, fixtures and traces call it, for instance ``orders.lookup``; the name unless given.
        version: part of the tool's identity; change it when the tool's meaning changes.
        risk: how dangerous a call is; the gate may ask for it. ``exec`` is short for ``execute``.
        needs_approval: whether a human must allow every call.
        public_errors: whether the model sees the text of any exception the tool raises.
        command: the argument that holds a command line, or its words; rules on argv look there.
        effects: ``none``, ``read``, ``write`` or ``host``. A write that may have happened is never repeated
            by a resume.
        capabilities: names that must be granted beside the tool itself, where grants are in force.
        cost_micros: what a call may cost at most, in micro-USD; reserved before it runs.
        timeout: seconds that a call may take, on the engine's clock; None is no bound.
        result: contract of the result data, or None.
        guards: checks before and after the call.
        documents: classes made by ``@document`` that the tool's envelopes may declare by name.
        takes_object, revives, context, injected: how the function is called; see ``tools.signature``.
    """

    name: str
    description: str
    parameters: SchemaContract
    function: Callable[Parameters, ValueOut]
    id: str = ""
    version: str | None = None
    risk: Risk | None = None
    needs_approval: bool = False
    public_errors: bool = False
    command: str = "command"
    effects: Effects = "none"
    capabilities: tuple[str, ...] = ()
    cost_micros: int = 0
    timeout: float | None = 30.0
    result: SchemaContract | None = None
    guards: ToolGuards = ToolGuards()
    documents: tuple[type, ...] = ()
    takes_object: bool = False
    revives: bool = False
    context: str | None = None
    injected: Mapping[str, Injected] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"tool name {self.name!r}: use 1 to 64 characters of a-z A-Z 0-9 _ -", data={"field": "name"}
            )
        if self.risk is not None and self.risk not in get_args(Risk):
            raise ConfigError(
                f"tool {self.name!r}: risk {self.risk!r} is not one of {', '.join(get_args(Risk))}",
                data={"field": "risk"},
            )
        if self.risk == "exec":
            object.__setattr__(self, "risk", "execute")  # the word that journals have
        if not self.id:
            object.__setattr__(self, "id", self.name)
        problem = _problem(self)
        if problem is not None:
            raise ConfigError(
                f"tool {self.id!r} {problem[0]}: {problem[1]}", data={"field": problem[0], "tool": self.id}
            )

    @property
    def contract(self) -> ToolContract:
        """What is sent to the model, and hashed."""
        parameters = self.parameters.json
        return ToolContract(
            name=self.name,
            description=self.description,
            parameters=parameters if isinstance(parameters, dict) else {},
            version=self.version,
        )

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> ValueOut:
        """Call the function itself, as host code may."""
        return self.function(*args, **kwargs)


class ToolOptions(TypedDict, total=False):
    """The options of :func:`tool`; see there."""

    id: str | None
    name: str | None
    description: str | None
    parameters: Any
    version: str | None
    risk: Risk | None
    needs_approval: bool
    public_errors: bool
    command: str
    effects: Effects
    capabilities: Sequence[str]
    cost_micros: int
    timeout: float | None
    result_schema: Any
    guards: ToolGuards
    documents: Sequence[type]


@overload
def tool(
    function: Callable[Parameters, ValueOut], /, **options: Unpack[ToolOptions]
) -> Tool[Parameters, ValueOut]: ...


@overload
def tool(
    function: None = None, /, **options: Unpack[ToolOptions]
) -> Callable[[Callable[Parameters, ValueOut]], Tool[Parameters, ValueOut]]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function; usable bare (``@tool``) and with options (``@tool(risk="write")``).

    A parameter annotated ``ToolContext`` receives the call's context, and one whose default is
    ``inject(token)`` a service of the engine; a model sees neither.

    Args:
        id: what grants, fixtures and traces call it; the name unless given.
        name: default: the id, with what a model's tool name may not hold replaced by ``_``, or the
            function's name.
        description: default: the first paragraph of the docstring.
        parameters: JSON Schema or type of the arguments object. Default: made of the signature. With
            it, the function is called with the arguments object as its only argument when it takes
            exactly one positional parameter that is not one of the schema's properties. A function whose
            only parameter is named ``args`` or ``input`` and annotated with an object type takes that object.
        version: part of the tool's identity.
        risk: how dangerous a call is.
        needs_approval: whether a human must allow every call.
        public_errors: whether the model sees the text of exceptions.
        command: the argument that holds a command line, for permission rules on argv.
        effects, capabilities, cost_micros, timeout, guards, documents: see :class:`Tool`.
        result_schema: JSON Schema or type of the result data; a result that does not fit fails the call.

    Raises:
        ConfigError: a name, signature or option that cannot be; names it.
    """

    def make(decorated: Callable[..., Any]) -> Tool:
        given: dict[str, Any] = dict(options)
        unknown = sorted(set(given) - ToolOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"tool() has no option {unknown[0]!r}")
        chosen_id = given.pop("id", None)
        chosen = given.pop("name", None) or (
            _NOT_IN_A_NAME.sub("_", chosen_id) if chosen_id else str(getattr(decorated, "__name__", ""))
        )
        signature = read_signature(decorated, chosen, given.pop("parameters", None))
        description, result = given.pop("description", None), given.pop("result_schema", None)
        for name in ("capabilities", "documents"):
            if not isinstance(given.get(name, ()), str):
                given[name] = tuple(given.get(name, ()))
        return Tool(
            id=chosen_id or chosen,
            name=chosen,
            description=_description(decorated) if description is None else description,
            parameters=signature.parameters,
            function=decorated,
            result=None if result is None else schema_contract(result, f"tool {chosen!r} result_schema"),
            takes_object=signature.takes_object,
            revives=signature.revives,
            context=signature.context,
            injected=signature.injected,
            **given,
        )

    return make if function is None else make(function)


def _description(function: Callable[..., Any]) -> str:
    paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def _problem(tool: Tool) -> tuple[str, str] | None:
    """Return which field of a tool is wrong, and what it may be."""
    if not _ID.fullmatch(tool.id):
        return "id", "use 1 to 128 characters of a-z A-Z 0-9 _ . : / -"
    if tool.effects not in get_args(Effects):
        return "effects", f"use one of {', '.join(get_args(Effects))}"
    cost = tool.cost_micros
    if isinstance(cost, bool) or not isinstance(cost, int) or cost < 0:
        return "cost_micros", f"expected whole micro-USD from 0 up, got {cost!r}"
    timeout = tool.timeout
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0
    ):
        return "timeout", f"expected seconds above 0 or None, got {timeout!r}"
    names = tool.capabilities
    if isinstance(names, str) or not all(isinstance(name, str) and 0 < len(name) <= 256 for name in names):
        return "capabilities", "expected a list of names of 1 to 256 characters"
    if not isinstance(tool.guards, ToolGuards):
        return "guards", "expected ToolGuards(input=[...], output=[...])"
    for kind in tool.documents:
        if not hasattr(kind, "__document__"):
            return "documents", f"{kind!r} is not a class made by @document"
    return None
