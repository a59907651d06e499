"""JSON Schemas: their canonical form, checking values, and schemas of Python types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from rulvar.errors import SchemaError

__all__ = ["canonical_schema"]

_ANNOTATIONS = frozenset(
    {
        "title",
        "description",
        "default",
        "deprecated",
        "readOnly",
        "writeOnly",
        "examples",
        "$comment",
    }
)
_DROPPED = _ANNOTATIONS | {"$defs", "$anchor"}
_DYNAMIC = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_ONE = frozenset(
    {
        "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
        "unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems",
    }
)  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})


def canonical_schema(schema: Any) -> Any:
    """Return a schema without annotations and local references.

    Local ``$ref``s are inlined, annotation keywords and ``$defs`` dropped, and what stands beside a
    ``$ref`` becomes a sibling of ``allOf``.

    Raises:
        SchemaError: a recursive, remote, dynamic or unresolvable reference.
    """
    try:
        return _Canonicalizer(schema).node(schema, ())
    except RecursionError:
        raise SchemaError("schema: nested too deeply") from None


class _Canonicalizer:
    """Walks one schema; ``root`` is where local references are looked up."""

    def __init__(self, root: Any) -> None:
        self.root = root

    def node(self, node: Any, expanding: tuple[str, ...]) -> Any:
        if isinstance(node, Sequence) and not isinstance(node, str):
            node = {str(index): item for index, item in enumerate(node)}
        if not isinstance(node, Mapping):
            return node
        for keyword in _DYNAMIC:
            if keyword in node:
                raise SchemaError(f"schema: {keyword} is not supported; write the schema out")
        ref = node.get("$ref")
        if not isinstance(ref, str):
            return self.keywords(node, expanding)
        if ref in expanding:
            raise SchemaError(f"schema: {ref} is recursive; a hashed schema must be finite")
        target = self.resolve(ref)
        if target is None:
            raise SchemaError(f"schema: {ref} points at null")
        inlined = self.node(target, (*expanding, ref))
        beside = self.keywords({k: v for k, v in node.items() if k != "$ref"}, expanding)
        if not beside:
            return inlined
        more = beside.get("allOf")
        beside["allOf"] = [inlined, *more] if isinstance(more, list) else [inlined]
        return beside

    def keywords(self, node: Mapping[str, Any], expanding: tuple[str, ...]) -> dict[str, Any]:
        return {
            keyword: self.keyword(keyword, value, expanding)
            for keyword, value in node.items()
            if keyword not in _DROPPED
        }

    def keyword(self, keyword: str, value: Any, expanding: tuple[str, ...]) -> Any:
        if keyword in _ONE:
            return self.node(value, expanding)
        if keyword in _MANY and isinstance(value, (list, tuple)):
            return [self.node(item, expanding) for item in value]
        if keyword in _NAMED and isinstance(value, Mapping):
            return {name: self.node(item, expanding) for name, item in value.items()}
        return value

    def resolve(self, ref: str) -> Any:
        if not ref.startswith("#"):
            raise SchemaError(f"schema: {ref} is remote; only references into the schema work")
        fragment = unquote(ref[1:])
        if fragment == "":
            return self.root
        if not fragment.startswith("/"):
            found = _find_anchor(self.root, fragment)
            if found is None:
                raise SchemaError(f"schema: no $anchor named {fragment!r}")
            return found
        node = self.root
        for token in fragment[1:].split("/"):
            node = _step(node, token.replace("~1", "/").replace("~0", "~"), ref)
        return node


def _step(node: Any, token: str, ref: str) -> Any:
    if isinstance(node, Mapping) and token in node:
        return node[token]
    if isinstance(node, (list, tuple)) and token.isdigit() and int(token) < len(node):
        return node[int(token)]
    raise SchemaError(f"schema: {ref} points at nothing")


def _find_anchor(node: Any, name: str) -> Any:
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, Mapping):
            if here.get("$anchor") == name:
                return here
            pending.extend(here.values())
        elif isinstance(here, (list, tuple)):
            pending.extend(here)
    return None
