"""JSON Schemas of Python types, and the Python value behind a JSON one.

msgspec knows the types of the standard library. A type in which pydantic has a say, a model or one of its
constraints at any depth, is pydantic's; it is not loaded before somebody hands such a type over.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

__all__ = ["TypeSchema", "describe_type", "is_plain", "makes_objects"]

Convert = Callable[[Any], Any]
_PLAIN = frozenset({Any, object, str, bool, int, type(None), None, dict, list})
_CONSTRAINTS = ("pydantic", "annotated_types")


@dataclasses.dataclass(frozen=True, slots=True)
class TypeSchema:
    """A type as JSON Schema.

    Attributes:
        json: the schema; what it refers to is in ``definitions``.
        definitions: schemas by name.
        convert: makes the Python value of a JSON value; raises ValueError or TypeError for one that does not fit.
    """

    json: dict[str, Any]
    definitions: dict[str, Any]
    convert: Convert

    def whole(self) -> dict[str, Any]:
        """Return the schema with what it refers to."""
        return {**self.json, "$defs": self.definitions} if self.definitions else self.json


def describe_type(kind: Any) -> TypeSchema:
    """Return a type's schema.

    Raises:
        TypeError, NameError: JSON cannot carry the type; says which part of it.
    """
    if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
        made = kind.model_json_schema()
        return TypeSchema(
            made, made.pop("$defs", {}), _lenient(kind.model_validate, kind.model_validate_json)
        )
    if "pydantic" in sys.modules and _is_of_pydantic(kind, set()):
        return _by_pydantic(kind)
    (made,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return TypeSchema(made, definitions, lambda value: msgspec.convert(value, kind))


def is_plain(kind: Any) -> bool:
    """Whether a value of a type is the JSON value itself, so that there is nothing to convert."""
    try:
        return kind in _PLAIN
    except TypeError:  # an annotation may be anything
        return False


def makes_objects(kind: Any) -> bool:
    """Whether a value of a type is, or holds, an instance of a class that describes a JSON object."""
    if isinstance(kind, type) and not typing.get_args(kind):
        is_class = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
        return is_class or hasattr(kind, "model_json_schema")
    return any(makes_objects(part) for part in typing.get_args(kind))


def _by_pydantic(kind: Any) -> TypeSchema:
    import pydantic

    try:
        adapter = pydantic.TypeAdapter(kind)
        made = adapter.json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(str(error)) from None
    return TypeSchema(made, made.pop("$defs", {}), _lenient(adapter.validate_python, adapter.validate_json))


def _lenient(of_python: Convert, of_json: Convert) -> Convert:
    """Return what makes a value: a strict model takes a date's text from JSON only."""

    def convert(value: Any) -> Any:
        try:
            return of_python(value)
        except ValueError as refused:
            try:
                return of_json(orjson.dumps(value))
            except (ValueError, TypeError):
                raise refused from None

    return convert


def _is_of_pydantic(kind: Any, seen: set[int]) -> bool:
    if id(kind) in seen:
        return False
    seen.add(id(kind))
    if isinstance(kind, type) and not typing.get_args(kind):
        return hasattr(kind, "model_json_schema") or any(_is_of_pydantic(f, seen) for f in _fields(kind))
    if type(kind).__module__.partition(".")[0] in _CONSTRAINTS:
        return True
    origin = typing.get_origin(kind)
    inside = (*typing.get_args(kind), *getattr(kind, "__metadata__", ()))
    return any(_is_of_pydantic(part, seen) for part in (*inside, *(() if origin is None else (origin,))))


def _fields(kind: type) -> list[Any]:
    """Return the types of a class's fields, of those classes whose fields are their value."""
    has_fields = dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields")
    if not has_fields:
        return []
    try:
        return list(typing.get_type_hints(kind, include_extras=True).values())
    except Exception:  # an annotation may name anything; whoever makes the schema says what is wrong with it
        return []
