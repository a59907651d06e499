"""JSON Schemas: their canonical form, checking values, and schemas of Python types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from rulvar.contracts.schema_types import describe_type
from rulvar.errors import SchemaError

__all__ = ["SchemaContract", "SchemaIssue", "canonical_schema", "schema_contract"]

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


class SchemaContract:
    """A shape that values are checked against: a JSON Schema, and maybe the Python type behind it.

    Attributes:
        json: the JSON Schema as given or as made of the type.
        canonical: the same without annotations and references; this is what models are sent.
    """

    __slots__ = ("_revive", "_validator", "canonical", "json")

    def __init__(self, schema: Any, revive: Callable[[Any], Any] | None = None) -> None:
        self.json = schema
        self.canonical = canonical_schema(schema)
        self._revive = revive
        self._validator: Any = None

    @property
    def revives(self) -> bool:
        """Whether a Python value stands behind a JSON value that fits."""
        return self._revive is not None

    def issues(self, value: Any) -> list[SchemaIssue]:
        """Return what is wrong with a JSON value, nothing when it fits."""
        if self._validator is None:
            self._validator = _compile(self.canonical)
        if self._validator.is_valid(value):
            return self._type_issues(value)
        errors = self._validator.iter_errors(value)
        return [SchemaIssue(error.message, tuple(error.instance_path)) for error in errors]

    def revive(self, value: Any) -> Any:
        """Return the Python value behind a JSON value that fits."""
        return value if self._revive is None else self._revive(value)

    def _type_issues(self, value: Any) -> list[SchemaIssue]:
        # a type may know more than its schema says: validators, custom types
        if self._revive is None:
            return []
        try:
            self._revive(value)
        except (ValueError, TypeError) as error:
            return [SchemaIssue(str(error), ())]
        return []


@dataclass(frozen=True, slots=True)
class SchemaIssue:
    """One thing that is wrong with a value: what, and at which path."""

    message: str
    path: tuple[str | int, ...]

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        wire: dict[str, Any] = {"message": self.message}
        if self.path:
            wire["path"] = list(self.path)
        return wire


def schema_contract(schema: Any, what: str = "schema") -> SchemaContract:
    """Return the contract of a JSON Schema, a pydantic model, a dataclass, a TypedDict or another type.

    Args:
        what: names the option in messages.

    Raises:
        SchemaError: nothing a schema can be made of, or a schema that cannot be used.
    """
    if isinstance(schema, SchemaContract):
        return schema
    if isinstance(schema, (dict, bool)):
        contract = SchemaContract(schema)
        _compile(contract.canonical, what)
        return contract
    try:
        made = describe_type(schema)
    except (TypeError, NameError) as error:
        raise SchemaError(
            f"{what}: cannot make a JSON Schema of {schema!r} ({error}); pass a JSON Schema, a pydantic "
            "model, a dataclass or a TypedDict",
            data={"field": what},
        ) from None
    return SchemaContract(made.whole(), made.convert)


def _compile(schema: Any, what: str = "schema") -> Any:
    import jsonschema_rs  # costs an eighth of the package's import time, and only schemas need it

    try:
        return jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise SchemaError(f"{what}: not a JSON Schema: {first}", data={"field": what}) from None
