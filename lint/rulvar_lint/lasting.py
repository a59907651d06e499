"""Noticing that code changed a value which outlives it and belongs to another file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulvar_lint.core.frame import HOST
from rulvar_lint.core.values import (
    Bound,
    Class,
    Container,
    Dict,
    Func,
    Inst,
    Partial,
    Seq,
    Star,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rulvar_lint.core.decls import ClassDecl, Module
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.loaded import Loaded


class Watch:
    """Listens, while it is entered, to what is changed."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._is_on = False
        # Whether it happened at import, in which file, to what.
        self._changed: list[tuple[bool, str, Value]] = []
        hooks = loaded.machine.hooks
        hooks.mutation.append(self._mutation)
        hooks.store.append(self._store)
        hooks.store_item.append(self._store_item)

    def __enter__(self) -> None:
        self._is_on = True
        self._changed = []

    def __exit__(self, *_: object) -> None:
        self._is_on = False

    def _mutation(self, f: Frame, node: object, receiver: Value | None, *_: Any) -> None:
        self._note(f, receiver)

    def _store(self, f: Frame, node: object, target: object, base: Value | None, *_: Any) -> None:
        self._note(f, base)

    def _store_item(self, f: Frame, node: object, target: object, base: Value | None, *_: Any) -> None:
        self._note(f, base)

    def _note(self, f: Frame, value: Value | None) -> None:
        if self._is_on:
            self._changed += [
                (f.mode == HOST, f.module.path, option)
                for option in options_of(value)
                if isinstance(option, (Container, Inst, Class))
            ]

    def has_seen_lasting(self, path: str) -> bool:
        """Whether anything was changed that another file than the one at `path` holds."""
        # What a file does to its own values while it is imported is no news.
        changed = [value for at_import, name, value in self._changed if not at_import or name == path]
        self._changed = []
        if not changed:
            return False
        held = _Held()
        for name in self._loaded.paths():
            module = self._loaded.known(name)
            if module is not None and name != path:
                held.look_at(module)
        return any(held.holds(value) for value in changed)


class _Held:
    """The values that modules hold."""

    def __init__(self) -> None:
        self._found: set[object] = set()
        self._insides: set[int] = set()

    def holds(self, value: Value) -> bool:
        """Whether a module holds a value, or a list or mapping that the value shares."""
        if isinstance(value, Class):
            return value.decl in self._found
        return value in self._found or _inside_of(value) in self._insides

    def look_at(self, module: Module) -> None:
        """Add what can be reached from a module."""
        self._add(module.env.values())
        for decl in list(module.decls.values()):
            self._add(decl.defaults.values())
        for cls in list(module.classes):
            self._add_class(cls)

    def _add_class(self, decl: ClassDecl) -> None:
        if decl not in self._found:
            self._found.add(decl)
            self._add([decl.generic, *decl.attrs.values()])

    def _add(self, values: Any) -> None:
        todo = [value for value in values if value is not None]
        while todo:
            value = todo.pop()
            if isinstance(value, Class):
                self._add_class(value.decl)
            elif value not in self._found:
                self._found.add(value)
                self._insides.add(_inside_of(value))
                todo += [inner for inner in _inside(value) if inner is not None]


def _inside_of(value: Value) -> int:
    """The identity of what copies of a container have in common; that of the value if it has none."""
    if isinstance(value, Seq) and value.items is not None:
        return id(value.items)
    return id(value.entries if isinstance(value, Dict) else value)


def _inside(value: Value) -> Iterator[Value | None]:
    yield from () if len(options_of(value)) == 1 else options_of(value)
    if isinstance(value, Container):
        yield value.elem
        if isinstance(value, Seq):
            yield from value.items or ()
        elif isinstance(value, Dict):
            yield from value.entries.values()
    elif isinstance(value, Inst):
        yield from value.attrs.values()
    elif isinstance(value, Func):
        yield value.bound
    elif isinstance(value, Bound):
        yield value.receiver
    elif isinstance(value, Partial):
        yield value.func
        yield from (*value.args, *value.keywords.values())
    elif isinstance(value, Star):
        yield value.value
