"""Values on their way into the journal: JSON, or something that has one obvious JSON form.

Dataclass instances, pydantic models, msgspec structs and mappings are written as JSON objects. Whatever else
JSON cannot hold is refused with the path of the field, so that the first run and every replay see
the same value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.errors import NonSerializableValueError

__all__ = ["JSON_TYPES", "fragment", "is_deeper_than", "journal_form", "journal_value", "refused_at"]

JSON_TYPES = frozenset({str, int, float, bool, type(None), list, dict, tuple})
"""Types of plain JSON values; none of them is awaitable, and asking an object that would cost more."""


def journal_form(value: Any, what: str) -> bytes:
    """Return the JSON bytes of a value.

    Args:
        what: names the place in messages, for instance ``ctx.step('load')``.

    Raises:
        NonSerializableValueError: a value that JSON cannot hold; ``data["path"]`` names it.
    """
    try:
        return encode_json(value)
    except NonSerializableValueError:
        pass
    try:
        return encode_json(_plain(value, 0))
    except NonSerializableValueError as error:
        raise refused_at(error, what) from None


def journal_value(value: Any, what: str) -> Any:
    """Return a value after its round trip through its journal form."""
    return decode_json(journal_form(value, what))


def refused_at(error: NonSerializableValueError, what: str) -> NonSerializableValueError:
    """Return a refusal whose path starts at a place instead of at ``$``."""
    field = str(error.data.get("path", "$"))
    path = what + field.removeprefix("$")
    return NonSerializableValueError(error.message.replace(field, path, 1), data={"path": path})


def is_deeper_than(value: Any, levels: int) -> bool:
    """Whether a JSON value has containers within containers for more than so many levels."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            item
            for outer in layer
            if isinstance(outer, (dict, list, tuple))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return True


def fragment(data: bytes) -> orjson.Fragment:
    """Return bytes that orjson writes as they are."""
    return orjson.Fragment(data)


def _plain(value: Any, depth: int) -> Any:
    if depth > 200:
        return value
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.to_builtins(value), depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {item.name: _plain(getattr(value, item.name), depth + 1) for item in fields}
    if isinstance(value, Mapping):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and hasattr(type(value), "model_fields"):
        return dump(mode="json")
    if type(value) in _SUBCLASSED:
        return value
    for base in (str, bool, int, float):
        if isinstance(value, base):
            return base(value)
    return value


_SUBCLASSED = (str, bool, int, float, type(None))
