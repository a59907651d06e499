"""Tools: typed functions that a model may call.

``@tool`` makes a :class:`Tool` of a function: its parameters become the JSON Schema that the model
sees, its docstring the description.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

import msgspec

from rulvar.contracts.messages import ToolContract
from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.errors import ConfigError, RulvarError

__all__ = ["ModelRetry", "Risk", "Tool", "ToolRefusal", "tool"]

Risk = Literal["read", "write", "network", "exec", "destructive"]
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ModelRetry(RulvarError):
    """A tool raises this to send the model its text and let it try again."""

    code = "model_retry"


class ToolRefusal(RulvarError):
    """A tool raises this to refuse a call; the model and the outcome see its text."""

    code = "tool_refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a model may call, and what the model is told of it.

    Attributes:
        name: 1 to 64 characters of ``a-z A-Z 0-9 _ -``.
        description: what the model reads.
        parameters: contract of the arguments object.
        function: what runs; sync or async; takes the arguments by name.
        version: part of the tool's identity; change it when the tool's meaning changes.
        risk: how dangerous a call is; the gate may ask for it.
        needs_approval: whether a human must allow every call.
        public_errors: whether the model sees the text of any exception the tool raises.
        command: the argument that holds a command line, or its words; rules on argv look there.
    """

    name: str
    description: str
    parameters: SchemaContract
    function: Callable[..., Any]
    version: str | None = None
    risk: Risk | None = None
    needs_approval: bool = False
    public_errors: bool = False
    command: str = "command"
    takes_object: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"tool name {self.name!r}: use 1 to 64 characters of a-z A-Z 0-9 _ -", data={"field": "name"}
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as host code may."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Any = None,
    version: str | None = None,
    risk: Risk | None = None,
    needs_approval: bool = False,
    public_errors: bool = False,
    command: str = "command",
) -> Callable[[Callable[..., Any]], Tool]: ...


@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Any = None,
    version: str | None = None,
    risk: Risk | None = None,
    needs_approval: bool = False,
    public_errors: bool = False,
    command: str = "command",
) -> Tool: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Any = None,
    version: str | None = None,
    risk: Risk | None = None,
    needs_approval: bool = False,
    public_errors: bool = False,
    command: str = "command",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function; usable bare (``@tool``) and with options (``@tool(risk="write")``).

    Args:
        name: default: the function's name.
        description: default: the first paragraph of the docstring.
        parameters: JSON Schema or type of the arguments object. Default: made of the signature. With
            it, the function is called with the arguments object as its only argument when it takes
            exactly one positional parameter that is not one of the schema's properties.
        version: part of the tool's identity.
        risk: how dangerous a call is.
        needs_approval: whether a human must allow every call.
        public_errors: whether the model sees the text of exceptions.
        command: the argument that holds a command line, for permission rules on argv.

    Raises:
        ConfigError: a name or signature that cannot be told to a model; names the parameter.
    """

    def make(decorated: Callable[..., Any]) -> Tool:
        chosen = name or str(getattr(decorated, "__name__", ""))
        contract = (
            _signature_contract(decorated, chosen)
            if parameters is None
            else schema_contract(parameters, f"tool {chosen!r} parameters")
        )
        return Tool(
            name=chosen,
            description=_description(decorated) if description is None else description,
            parameters=contract,
            function=decorated,
            version=version,
            risk=risk,
            needs_approval=needs_approval,
            public_errors=public_errors,
            command=command,
            takes_object=parameters is not None and _takes_object(decorated, contract),
        )

    return make if function is None else make(function)


def _description(function: Callable[..., Any]) -> str:
    paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def _signature_contract(function: Callable[..., Any], name: str) -> SchemaContract:
    hints = typing.get_type_hints(function, include_extras=True)
    names: list[str] = []
    types: list[Any] = []
    defaults: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigError(
                f"tool {name!r}: parameter {parameter.name!r} cannot be passed by name; "
                "a model passes arguments by name",
                data={"field": parameter.name},
            )
        names.append(parameter.name)
        types.append(hints.get(parameter.name, Any))
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
    schemas, definitions = _schemas(types, names, name)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict(zip(names, schemas, strict=True)),
        "required": [item for item in names if item not in defaults],
        "additionalProperties": False,
    }
    if definitions:
        schema["$defs"] = definitions
    return SchemaContract(schema)


def _schemas(types: list[Any], names: list[str], name: str) -> tuple[list[Any], dict[str, Any]]:
    schemas: list[Any] = []
    definitions: dict[str, Any] = {}
    for kind, parameter in zip(types, names, strict=True):
        if hasattr(kind, "model_json_schema"):
            made = kind.model_json_schema(ref_template="#/$defs/{model}")
            definitions.update(made.pop("$defs", {}))
            schemas.append(made)
            continue
        try:
            (made,), below = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
        except TypeError as error:
            raise ConfigError(
                f"tool {name!r}: parameter {parameter!r} has a type that JSON cannot carry ({error})",
                data={"field": parameter},
            ) from None
        definitions.update(below)
        schemas.append(made)
    return schemas, definitions


def _takes_object(function: Callable[..., Any], contract: SchemaContract) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind is parameters[0].VAR_KEYWORD:
        return False
    schema = contract.canonical
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return not (isinstance(properties, Mapping) and parameters[0].name in properties)
