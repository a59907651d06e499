"""JSON Schemas: their canonical form, checking values, and schemas of Python types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.schema_types import describe_type
from rulvar.errors import SchemaError

__all__ = ["SchemaContract", "SchemaIssue", "canonical_schema", "names_formats", "schema_contract"]

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
_DROPPED = _ANNOTATIONS | {"$defs", "definitions", "$anchor"}
_DYNAMIC = ("$dynamicRef", "$dynamicAnchor")
_ONE = frozenset(
    {
        "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
        "unevaluatedItems", "unevaluatedProperties", "contentSchema",
    }
)  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_INDEX = re.compile(r"[0-9]{0,9}")


def canonical_schema(schema: Any) -> Any:
    """Return a schema without annotations and local references.

    Local ``$ref``s are inlined, annotation keywords, ``$defs`` and ``definitions`` dropped, and what stands
    beside a ``$ref`` becomes a sibling of ``allOf``. A list where a schema or a map of them stands is read as
    an object of index to item.

    Raises:
        SchemaError: no schema, or a recursive, remote, dynamic or unresolvable reference.
    """
    if not _is_schema(schema):
        raise SchemaError(f"schema: expected an object or a boolean, got {type(schema).__name__}")
    try:
        return _Canonicalizer(schema).node(schema, ())
    except RecursionError:
        raise SchemaError("schema: nested too deeply") from None


class _Canonicalizer:
    """Walks one schema; ``root`` is where local references are looked up."""

    def __init__(self, root: Any) -> None:
        self.root = root

    def node(self, node: Any, expanding: tuple[str, ...]) -> Any:
        node = _members(node)
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
        if not _is_schema(target):
            raise SchemaError(f"schema: {ref} points at {type(target).__name__}, which is no schema")
        inlined = self.node(target, (*expanding, ref))
        beside = self.keywords({k: v for k, v in node.items() if k != "$ref"}, expanding)
        if not beside:
            return inlined
        more = beside.get("allOf")
        beside["allOf"] = [*more, inlined] if isinstance(more, list) else [inlined]
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
        if keyword in _NAMED:
            members = _members(value)
            if isinstance(members, Mapping):
                return {name: self.node(item, expanding) for name, item in members.items()}
        return value

    def resolve(self, ref: str) -> Any:
        if not ref.startswith("#"):
            raise SchemaError(f"schema: {ref} is remote; only references into the schema work")
        fragment = ref[1:]
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


def _is_schema(value: Any) -> bool:
    return isinstance(value, (bool, Mapping, Sequence)) and not isinstance(value, str)


def _members(value: Any) -> Any:
    """Return a list as an object of index to item, and anything else as it is."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {str(index): item for index, item in enumerate(value)}
    return value


def _step(node: Any, token: str, ref: str) -> Any:
    if isinstance(node, Mapping) and token in node:
        return node[token]
    if isinstance(node, (list, tuple)) and _INDEX.fullmatch(token) and int(token or 0) < len(node):
        return node[int(token or 0)]
    raise SchemaError(f"schema: {ref} points at nothing")


def _find_anchor(node: Any, name: str) -> Any:
    """Return the first object that carries an anchor, outer ones and earlier ones first."""
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, Mapping):
            if here.get("$anchor") == name:
                return here
            pending.extend([*here.values()][::-1])
        elif isinstance(here, (list, tuple)):
            pending.extend(reversed(here))
    return None


class SchemaContract:
    """A shape that values are checked against: a JSON Schema, and maybe the Python type behind it.

    Attributes:
        json: the JSON Schema as given or as made of the type.
        canonical: the same without annotations and references; this is what models are sent.
        hides_values: whether its issues never show what they are about, for messages that outlive a value.
        asserts_formats: whether a text has to be of its ``format``. Where a type stands behind the schema, the
            type says which texts it takes, and the format is only said.
    """

    __slots__ = ("_masked", "_revive", "_validator", "asserts_formats", "canonical", "hides_values", "json")

    def __init__(
        self,
        schema: Any,
        revive: Callable[[Any], Any] | None = None,
        *,
        hides_values: bool = False,
        asserts_formats: bool | None = None,
    ) -> None:
        self.json = schema
        self.canonical = canonical_schema(schema)
        self.hides_values = hides_values
        self.asserts_formats = revive is None if asserts_formats is None else asserts_formats
        self._revive = revive
        self._validator: Any = None
        self._masked: Any = None

    @property
    def revives(self) -> bool:
        """Whether a Python value stands behind a JSON value that fits."""
        return self._revive is not None

    def issues(self, value: Any, *, hides_values: bool = False) -> list[SchemaIssue]:
        """Return what is wrong with a JSON value, nothing when it fits.

        Args:
            hides_values: tell of paths and rules only, and nothing of the value.
        """
        hides = hides_values or self.hides_values
        if self._validator is None:
            self._validator = _compile(self.canonical, asserts_formats=self.asserts_formats)
        if self._validator.is_valid(value):
            return self._type_issues(value, hides)
        if hides and self._masked is None:
            self._masked = _compile(self.canonical, mask="the value", asserts_formats=self.asserts_formats)
        errors = (self._masked if hides else self._validator).iter_errors(value)
        return [SchemaIssue(error.message, tuple(error.instance_path)) for error in errors]

    def revive(self, value: Any) -> Any:
        """Return the Python value behind a JSON value that fits."""
        return value if self._revive is None else self._revive(value)

    def _type_issues(self, value: Any, hides_values: bool) -> list[SchemaIssue]:
        # a type may know more than its schema says: validators, custom types
        if self._revive is None:
            return []
        try:
            self._revive(value)
        except (ValueError, TypeError) as error:
            return _refusals(error, hides_values)
        return []


def _refusals(error: Exception, hides_values: bool) -> list[SchemaIssue]:
    """Return why a type refused a value: what pydantic lists, or what was raised."""
    hidden, listed = "the value is refused by its type", getattr(error, "errors", None)
    if not callable(listed):
        return [SchemaIssue(hidden if hides_values else str(error), ())]
    return [
        SchemaIssue(f"{hidden} ({item['type']})" if hides_values else item["msg"], tuple(item["loc"]))
        for item in listed()
    ]


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


def schema_contract(schema: Any, what: str = "schema", *, asserts_formats: bool = True) -> SchemaContract:
    """Return the contract of a JSON Schema, a pydantic model, a dataclass, a TypedDict or another type.

    Args:
        what: names the option in messages.
        asserts_formats: whether a JSON Schema's formats are held; a type's own never are.

    Raises:
        SchemaError: nothing a schema can be made of, or a schema that cannot be used.
    """
    if isinstance(schema, SchemaContract):
        return schema
    if isinstance(schema, (dict, bool)):
        contract = SchemaContract(schema, asserts_formats=asserts_formats)
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


def _compile(
    schema: Any, what: str = "schema", mask: str | None = None, *, asserts_formats: bool = False
) -> Any:
    import jsonschema_rs  # costs an eighth of the package's import time, and only schemas need it

    formats = _formats() if asserts_formats and names_formats(schema) else None
    try:
        return jsonschema_rs.validator_for(
            schema, mask=mask, formats=formats, validate_formats=formats is not None
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise SchemaError(f"{what}: not a JSON Schema: {first}", data={"field": what}) from None


def names_formats(schema: Any) -> bool:
    """Whether a schema may hold texts to a format; False means that it does not."""
    if isinstance(schema, Mapping):
        return "format" in schema or any(map(names_formats, schema.values()))
    return isinstance(schema, (list, tuple)) and any(map(names_formats, schema))


def _formats() -> dict[str, Callable[[str], bool]]:
    """Return the checks of formats; those of the validator that are not in the table pass everything."""
    from rulvar.contracts.schema_formats import FORMATS, UNASSERTED  # its patterns take time to compile

    return {**FORMATS, **dict.fromkeys(UNASSERTED, _anything)}


def _anything(text: str) -> bool:
    return True
