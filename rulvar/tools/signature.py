"""The signature of a tool's function: what the model is told of it, and what it is called with."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rulvar.contracts.schema import SchemaContract, canonical_schema, schema_contract
from rulvar.contracts.schema_types import TypeSchema, describe_type, is_plain
from rulvar.errors import ConfigError
from rulvar.tools.injection import Injected, ToolContext

__all__ = ["Signature", "read_signature"]

_OBJECT_NAMES = frozenset({"args", "arguments", "input", "params"})


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function is called.

    Attributes:
        parameters: contract of the arguments object.
        takes_object: whether one parameter takes the whole arguments object.
        revives: whether parameters get instances of their types where those are no plain JSON.
        context: name of the parameter that takes the ToolContext.
        injected: parameters that the engine fills, by name.
    """

    parameters: SchemaContract
    takes_object: bool = False
    revives: bool = False
    context: str | None = None
    injected: Mapping[str, Injected] = field(default_factory=dict)


def read_signature(function: Callable[..., Any], name: str, parameters: Any = None) -> Signature:
    """Read a function's signature.

    Args:
        name: the tool's name, for messages.
        parameters: JSON Schema or type of the arguments object, when the signature does not tell.

    Raises:
        ConfigError: a parameter that cannot be told to a model; names it.
    """
    hints = _hints(function, name)
    declared = list(inspect.signature(function).parameters.values())
    context = next((p.name for p in declared if hints.get(p.name) is ToolContext), None)
    injected = {p.name: p.default for p in declared if isinstance(p.default, Injected)}
    told = [p for p in declared if p.name != context and p.name not in injected]
    if parameters is not None:
        contract = schema_contract(parameters, f"tool {name!r} parameters")
        takes_object = _takes_object(told, contract)
        revives = takes_object and hints.get(told[0].name) is parameters and is_object_type(parameters)
        return Signature(contract, takes_object, revives, context, injected)
    if len(told) == 1 and told[0].name in _OBJECT_NAMES and is_object_type(hints.get(told[0].name)):
        contract = schema_contract(hints[told[0].name], f"tool {name!r} parameters")
        return Signature(contract, True, revives=True, context=context, injected=injected)
    contract = _signature_contract(told, hints, name)
    return Signature(contract, revives=contract.revives, context=context, injected=injected)


def is_object_type(kind: Any) -> bool:
    """Whether a type describes a JSON object: a pydantic model, a dataclass, a TypedDict or a struct."""
    if not isinstance(kind, type):
        return False
    return (
        hasattr(kind, "model_json_schema")
        or dataclasses.is_dataclass(kind)
        or typing.is_typeddict(kind)
        or issubclass(kind, msgspec.Struct)
    )


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the types of a function's parameters; what it returns does not matter here."""
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:
        pass
    hints: dict[str, Any] = {}
    for parameter, annotation in getattr(target, "__annotations__", {}).items():
        if parameter == "return":
            continue
        if not isinstance(annotation, str):
            hints[parameter] = annotation
            continue
        try:
            hints[parameter] = eval(annotation, getattr(target, "__globals__", {}))
        except NameError as error:
            raise ConfigError(
                f"tool {name!r}: the type of parameter {parameter!r} cannot be found ({error}); define it at the "
                "top of a module, or pass parameters=",
                data={"field": parameter},
            ) from None
    return hints


def _signature_contract(told: list[inspect.Parameter], hints: Mapping[str, Any], name: str) -> SchemaContract:
    for parameter in told:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigError(
                f"tool {name!r}: parameter {parameter.name!r} cannot be passed by name; "
                "a model passes arguments by name",
                data={"field": parameter.name},
            )
    types = {
        parameter.name: _described(hints.get(parameter.name, Any), parameter.name, name) for parameter in told
    }
    definitions: dict[str, Any] = {}
    for made in types.values():
        definitions.update(made.definitions)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            parameter: made.json
            if made.definitions.items() <= definitions.items()
            else canonical_schema(made.whole())  # two classes of one name: the later one has taken it
            for parameter, made in types.items()
        },
        "required": [parameter.name for parameter in told if parameter.default is parameter.empty],
        "additionalProperties": False,
    }
    if definitions:
        schema["$defs"] = definitions
    made_of = {
        parameter: made.convert
        for parameter, made in types.items()
        if not is_plain(hints.get(parameter, Any))
    }
    return SchemaContract(schema, _reviver(made_of) if made_of else None)


def _described(kind: Any, parameter: str, name: str) -> TypeSchema:
    try:
        return describe_type(kind)
    except (TypeError, NameError) as error:
        raise ConfigError(
            f"tool {name!r}: parameter {parameter!r} has a type that JSON cannot carry ({error})",
            data={"field": parameter},
        ) from None


def _reviver(converters: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return what makes the arguments of a call of its JSON object."""

    def revive(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: converters[name](value) if name in converters else value
            for name, value in arguments.items()
        }

    return revive


def _takes_object(told: list[inspect.Parameter], contract: SchemaContract) -> bool:
    if len(told) != 1 or told[0].kind is told[0].VAR_KEYWORD:
        return False
    schema = contract.canonical
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return not (isinstance(properties, Mapping) and told[0].name in properties)
