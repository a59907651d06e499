"""A machine's state while a transition works on it, and the patches that a commit keeps of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

import orjson

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.schema import schema_contract
from rulvar.errors import NonSerializableValueError

__all__ = [
    "Draft",
    "Frozen",
    "apply_patch",
    "close_draft",
    "copy_json",
    "open_draft",
    "patch_between",
    "same_json",
]


class Draft(MutableMapping[str, Any]):
    """A mapping to work on: its items are attributes as well (``draft.turns += 1``).

    What it stands on is never changed: a list or an object is copied when it is first looked at, so that
    a transition costs what it touches, however large the state is.
    """

    __slots__ = ("_base", "_gone", "_own")

    def __init__(self, base: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "_base", base or {})
        object.__setattr__(self, "_own", {})
        object.__setattr__(self, "_gone", set())

    def __getitem__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        if name in self._gone or name not in self._base:
            raise KeyError(name)
        value = self._base[name]
        if isinstance(value, (dict, list)):
            value = self._own[name] = copy_json(value)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self._gone.discard(name)
        self._own[name] = value

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._own.pop(name, None)
        if name in self._base:
            self._gone.add(name)

    def __contains__(self, name: object) -> bool:
        return name in self._own or (name in self._base and name not in self._gone)

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._base if name not in self._gone)
        yield from (name for name in self._own if name not in self._base)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(sorted(self)) or "none"
            raise AttributeError(f"no {name!r} yet; set so far: {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self) -> str:
        return repr(dict(self))

    def patch(self, what: str) -> dict[str, Any]:
        """Return what was changed, per top-level key.

        Raises:
            NonSerializableValueError: a value that JSON cannot hold; names it.
        """
        own = decode_json(journal_form(self._own, what)) if self._own else {}
        patch: dict[str, Any] = {}
        changed = {
            name: value
            for name, value in own.items()
            if name not in self._base or not same_json(self._base[name], value)
        }
        if changed:
            patch["set"] = changed
        if self._gone:
            patch["unset"] = [name for name in self._base if name in self._gone]
        return patch


class Frozen(Mapping[str, Any]):
    """A read-only mapping whose items are attributes as well."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_items", MappingProxyType(dict(items)))

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Any:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._items[name]
        except KeyError:
            known = ", ".join(sorted(self._items)) or "none"
            raise AttributeError(f"no {name!r}; there are: {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot set {name!r}: arguments and the state that a guard sees are read-only")

    def __repr__(self) -> str:
        return repr(dict(self._items))


def open_draft(state: Mapping[str, Any], kind: type | None) -> Any:
    """Return a state to work on: an instance of its type, or a mapping over it."""
    return Draft(state) if kind is None else _instance(kind, copy_json(dict(state)))


def copy_json(value: Any) -> Any:
    """Return a copy of a JSON value that shares nothing with it."""
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:  # a number or a text that only the exact encoder knows
        return decode_json(encode_json(value))


def close_draft(draft: Any, what: str) -> dict[str, Any]:
    """Return a draft as the JSON object that is kept.

    Raises:
        NonSerializableValueError: a value that JSON cannot hold, or something that is no object.
    """
    if isinstance(draft, Mapping):
        plain = decode_json(journal_form(dict(draft), what))
    elif dataclasses.is_dataclass(draft) and not isinstance(draft, type):
        names = [item.name for item in dataclasses.fields(draft)]
        held = {name: getattr(draft, name) for name in names if hasattr(draft, name)}
        plain = decode_json(journal_form(held, what))
    elif hasattr(draft, "model_dump") and hasattr(type(draft), "model_fields"):
        plain = decode_json(journal_form(draft.model_dump(mode="json", warnings=False), what))
    else:
        plain = decode_json(journal_form(draft, what))
    if not isinstance(plain, dict):
        raise NonSerializableValueError(
            f"{what}: expected an object, got {type(draft).__name__}", data={"path": what}
        )
    return plain


def patch_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes one object of another, per top-level key; nothing when they are equal."""
    changed = {
        key: value for key, value in after.items() if key not in before or not same_json(before[key], value)
    }
    gone = [key for key in before if key not in after]
    patch: dict[str, Any] = {}
    if changed:
        patch["set"] = changed
    if gone:
        patch["unset"] = gone
    return patch


def apply_patch(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with a patch applied."""
    after = {**before, **patch.get("set", {})}
    for key in patch.get("unset", ()):
        after.pop(key, None)
    return after


def same_json(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1, 1.0 and true are three values, the order of keys does not count."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def _instance(kind: type, values: dict[str, Any]) -> Any:
    """Return an instance of a state's type; one whose fields are not all set yet holds those that are."""
    contract = schema_contract(kind)
    if not contract.issues(values):
        return contract.revive(values)
    construct = getattr(kind, "model_construct", None)
    if construct is not None:
        return construct(**values)
    made: Any = object.__new__(kind)
    if dataclasses.is_dataclass(kind):
        for item in dataclasses.fields(kind):
            if item.name in values:
                object.__setattr__(made, item.name, values[item.name])
            elif item.default is not dataclasses.MISSING:
                object.__setattr__(made, item.name, item.default)
            elif item.default_factory is not dataclasses.MISSING:
                object.__setattr__(made, item.name, item.default_factory())
    return made
