"""Answers to what a run waits for: how a typed text becomes a value, and what may be typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rulvar.cli.arguments import json_argument, loose_value
from rulvar.cli.printable import clip
from rulvar.contracts.schema import canonical_schema
from rulvar.errors import ConfigError, SchemaError

if TYPE_CHECKING:
    from rulvar.contracts.outcome import Pending

__all__ = ["answer_value", "expectation", "inlined", "is_approval", "sole_field"]

_YES = frozenset({"y", "yes", "true"})
_NO = frozenset({"n", "no", "false"})
_MOST_CHOICES = 20
_LONGEST_SHOWN = 60
_KINDS: Mapping[str, str] = {
    "string": "a text",
    "boolean": "yes or no",
    "number": "a number",
    "integer": "a whole number",
}


def is_approval(key: str) -> bool:
    """Whether a wait is for the approval of a tool call."""
    return key.startswith("approval:")


def answer_value(text: str, pending: Pending) -> Any:
    """Return the value that a typed text means for a wait.

    ``@FILE`` and ``-`` are read as JSON. A wait for a text takes the text, one for a yes or no takes
    ``yes`` and ``no``, one for an object with one field takes that field's value, an approval takes
    ``allow`` and ``deny [reason]`` and nothing else, and a transition that takes no value takes ``yes``
    or its name; else JSON is read as JSON, and what is no JSON is a text.

    Raises:
        ConfigError: a file cannot be read, or the text is no answer to an approval or a transition.
    """
    is_reference = text == "-" or text.startswith("@")
    if is_approval(pending.key):
        return _decision(json_argument(text, "value")) if is_reference else _approval(text)
    if is_reference:
        return json_argument(text, "value")
    if pending.transition is not None and pending.schema is None:
        return _firing(text, pending.transition)
    schema = inlined(pending.schema)
    field = sole_field(schema)
    if field is not None and not text.lstrip().startswith(("{", "[")):
        return {field: _fitting(text, schema["properties"][field])}
    return _fitting(text, schema)


def sole_field(schema: Mapping[str, Any]) -> str | None:
    """Return the one field that an object must have, or the only one that it can have; None otherwise."""
    properties, required = schema.get("properties"), schema.get("required") or ()
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        return None
    names = list(required) or list(properties)
    return names[0] if len(names) == 1 and names[0] in properties else None


def inlined(schema: Any) -> Mapping[str, Any]:
    """Return a schema without references; an empty one where there is none."""
    try:
        inlined = canonical_schema(schema)
    except SchemaError:  # recursive, most often
        inlined = schema
    return inlined if isinstance(inlined, Mapping) else {}


def _fitting(text: str, schema: Any) -> Any:
    """Return the value that a text means where a schema says what is wanted."""
    schema = schema if isinstance(schema, Mapping) else {}
    choices = schema.get("enum")
    if isinstance(choices, list) and text in choices:
        return text
    kind = schema.get("type")
    if kind == "string":
        value = loose_value(text)
        return value if isinstance(value, str) else text
    if kind == "boolean" and text.strip().lower() in _YES | _NO:
        return text.strip().lower() in _YES
    return loose_value(text)


def _firing(text: str, transition: str) -> Any:
    """Return what a transition that declares no value is fired with."""
    word = text.strip()
    if word.lower() in _YES or word == transition:
        return None
    if word.lower() in _NO:
        raise ConfigError(
            f"{word!r} does not answer {transition!r}: whatever is sent fires the transition; write yes to do so, "
            "or leave it open",
            data={"field": "VALUE"},
        )
    return loose_value(text)


def expectation(item: Pending) -> str:
    """Return what may be typed for a wait, in a few words."""
    if is_approval(item.key):
        return "allow, or deny and why"
    if item.transition is not None and item.schema is None:
        return "yes to go on, or JSON"
    if not isinstance(item.schema, Mapping):
        return "JSON, or a text"
    schema = inlined(item.schema)
    field = sole_field(schema)
    if field is not None:
        return f"{_kind_of(schema['properties'][field])} ({field})"
    return _kind_of(schema)


def _kind_of(schema: Any) -> str:
    schema = schema if isinstance(schema, Mapping) else {}
    choices = schema.get("enum")
    if isinstance(choices, list) and len(choices) <= _MOST_CHOICES:
        return "one of " + ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]
    return f"JSON that fits {json.dumps(schema, ensure_ascii=False)}" if schema else "JSON, or a text"


def _approval(text: str) -> dict[str, str]:
    word, _, rest = text.strip().partition(" ")
    decision, rest = word.rstrip(":,").lower(), rest.strip()
    if decision in _YES | {"allow"} and not rest:
        return {"decision": "allow"}
    if decision in _NO | {"deny"}:
        return {"decision": "deny", "reason": rest} if rest else {"decision": "deny"}
    return _decision(loose_value(text))


def _decision(value: Any) -> dict[str, str]:
    """Return a value that decides an approval; it is final, so nothing is guessed."""
    if isinstance(value, dict) and value.get("decision") in ("allow", "deny"):
        if set(value) == {"decision"}:
            return value
        if set(value) == {"decision", "reason"} and isinstance(value["reason"], str):
            return value
    shown = clip(json.dumps(value, ensure_ascii=False), _LONGEST_SHOWN)
    raise ConfigError(
        f"{shown} does not answer an approval: write allow (or yes), deny (or no) and why if you like, "
        'or {"decision": "allow" | "deny", "reason": "..."}; the wait stays open',
        data={"field": "VALUE"},
    )
