"""Values that may be one of several: branches that meet, elements of a container, entries of a table.

The functions and classes of a table are all kept, as calling it may run any of them. Of literals and
containers the first few are: what the others hold is put into one of those.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.values import (
    Bound,
    Class,
    Const,
    Container,
    Dict,
    Ext,
    Func,
    Inst,
    LazyChoice,
    LazyImport,
    Obj,
    Partial,
    Seq,
    Set,
    Star,
    Union,
    Unknown,
    Value,
    merge_taint,
    options_of,
)

if TYPE_CHECKING:
    from rulvar_lint.core.values import Taint

MAX_OPTIONS: Final = 6
MAX_CALLEES: Final = 100
_CALLEES: Final = frozenset({Bound, Class, Ext, Func, Partial})
_DEEPEST: Final = 3


def join(left: Value | None, right: Value | None, depth: int = 0) -> Value | None:
    """A value that may be either. Unknown gives way to what is known: the analysis asks what *may*
    happen.
    """
    if left is right or right is None:
        return left
    if left is None:
        return right
    if left.__class__ is right.__class__:
        if isinstance(left, Obj) and isinstance(right, Obj):
            if left.type == right.type:
                return Obj(left.type, merge_taint(left.taint, right.taint), left.node)
        elif isinstance(left, Const) and isinstance(right, Const):
            if left.value == right.value and type(left.value) is type(right.value):
                return left
        elif isinstance(left, Unknown) and isinstance(right, Unknown):
            return Unknown(merge_taint(left.taint, right.taint), left.outer or right.outer)
        elif isinstance(left, Ext) and isinstance(right, Ext) and _name(left) == _name(right):
            return left
    if isinstance(left, LazyImport) or isinstance(right, LazyImport):
        return LazyChoice((*getattr(left, "options", (left,)), *getattr(right, "options", (right,))))
    options = list(options_of(left))
    for option in options_of(right):
        if option not in options:
            options.append(option)
    if len(options) > MAX_OPTIONS:
        options = _limited(options, depth)
    return options[0] if len(options) == 1 else Union(tuple(options))


def _name(value: Ext) -> tuple[object, ...]:
    return value.path, value.receiver, value.taint


def element_of(value: Container) -> Value | None:
    """Any element of a container."""
    found = value.elem
    if isinstance(value, Seq):
        for item in value.items or ():
            found = join(found, _starred(item.value) if isinstance(item, Star) else item)
    elif isinstance(value, Dict):
        for item in value.entries.values():
            found = join(found, item)
    return found


def _starred(value: Value | None) -> Value | None:
    """Any element of what is unpacked into a display."""
    found: Value | None = None
    for option in options_of(value):
        inner: Value | None = option
        if isinstance(option, Dict):
            inner = None  # its keys
        elif isinstance(option, Container):
            inner = element_of(option)
        found = join(found, inner)
    return found


def pairs(value: Container) -> tuple[dict[str, Value | None], Value | None]:
    """What a mapping made from pairs has at literal keys, and at others."""
    entries: dict[str, Value | None] = {}
    elem: Value | None = None
    known = places(value)
    for pair in known if known is not None else options_of(element_of(value)):
        held = places(pair) if pair is not None else None
        if held is None or len(held) != 2:
            elem = join(elem, element_of(pair) if isinstance(pair, Container) else pair)
        elif known is not None and isinstance(held[0], Const) and isinstance(held[0].value, (str, int)):
            entries[held[0].value] = held[1]  # type: ignore[index]
        else:
            elem = join(elem, held[1])
    return entries, elem


def places(value: Value) -> list[Value | None] | None:
    """What each place of a list or tuple holds, if that is known."""
    if not isinstance(value, Seq) or value.items is None or value.elem is not None:
        return None
    return None if any(isinstance(item, Star) for item in value.items) else value.items


def _limited(options: list[Value], depth: int) -> list[Value]:
    """Not more than can be gone through again and again."""
    kept: list[Value] = []
    callees = others = 0
    for option in options:
        if option.__class__ in _CALLEES or (isinstance(option, Inst) and _like(option, kept) < 0):
            callees += 1
            if callees <= MAX_CALLEES:
                kept.append(option)
        elif others < MAX_OPTIONS:
            others += 1
            kept.append(option)
        else:
            _fold(option, kept, depth)
    return kept


def _fold(option: Value, kept: list[Value], depth: int) -> None:
    """Put what an option holds into one of those that are kept."""
    at = _like(option, kept)
    if isinstance(option, (Container, Inst)):
        if at >= 0 and depth < _DEEPEST:
            kept[at] = _merged(kept[at], option, depth + 1)
        return
    _fold_taint(option.taint, kept)


def _fold_taint(taint: Taint, kept: list[Value]) -> None:
    if taint is None:
        return
    for at, other in enumerate(kept):
        if isinstance(other, Unknown):
            kept[at] = Unknown(merge_taint(other.taint, taint), other.outer)
            return
    kept.append(Unknown(taint))


def _like(option: Value, kept: list[Value]) -> int:
    """Which of those that are kept is of the same kind; -1 if none is."""
    for at, other in enumerate(kept):
        if other.__class__ is option.__class__ and (
            not isinstance(option, Inst) or other.decl is option.decl  # type: ignore[attr-defined]
        ):
            return at
    return -1


def _merged(left: Value, right: Value, depth: int) -> Value:
    """One container or object that holds what two of a kind hold."""
    made = copy(left)
    if isinstance(made, Inst) and isinstance(right, Inst):
        made.attrs = _by_name(made.attrs, right.attrs, depth)
        return made
    if isinstance(made, Container) and isinstance(right, Container):
        made.order = made.order or right.order
        if isinstance(made, Seq):
            ours, theirs = places(made), places(right)
            if ours is None or theirs is None or len(ours) != len(theirs):
                made.elem, made.items = join(element_of(made), element_of(right), depth), None
            else:
                made.items = [join(*pair, depth) for pair in zip(ours, theirs, strict=True)]
            return made
        if isinstance(made, Dict) and isinstance(right, Dict):
            made.entries = _by_name(made.entries, right.entries, depth)
        elif isinstance(made, Set) and isinstance(right, Set):
            made.stable = made.stable and right.stable
        made.elem = join(made.elem, right.elem, depth)
    return made


def _by_name(
    left: dict[str, Value | None], right: dict[str, Value | None], depth: int
) -> dict[str, Value | None]:
    made = dict(left)
    for name, value in right.items():
        made[name] = join(made.get(name), value, depth)
    return made
