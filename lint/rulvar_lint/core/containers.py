"""Methods of lists, dicts, sets and strings that are followed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.alternatives import element_of, join, pairs
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.calls import consume, escape, escape_all
from rulvar_lint.core.choices import chosen
from rulvar_lint.core.expressions import INT, STR
from rulvar_lint.core.order import grow, order_of, see_order, use_order
from rulvar_lint.core.values import Bound, Const, Container, Dict, Seq, Set, Star, Unknown, Value
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulvar_lint.core.frame import Frame

GROWS: Final = names("""append extend insert appendleft extendleft add update setdefault put
put_nowait __setitem__ push""")
SHRINKS: Final = names("""pop popleft popitem remove discard clear sort reverse difference_update
    intersection_update symmetric_difference_update rotate move_to_end subtract""")
MUTATORS: Final = GROWS | SHRINKS


def container_method(f: Frame, node: ast.AST, callee: Bound, args: Args) -> Value | None:
    """Call a method of a tracked container."""
    receiver = callee.receiver
    name = callee.name
    if name in MUTATORS and isinstance(receiver, Container):
        for hook in f.m.hooks.mutation:
            hook(f, node, receiver, name, args)
    if isinstance(receiver, Set):
        return _set_method(f, node, receiver, name, args)
    if isinstance(receiver, Seq):
        return _seq_method(f, node, receiver, name, args)
    if isinstance(receiver, Dict):
        return _dict_method(f, node, receiver, name, args)
    for value in args.values():
        escape(f, node, value)
    return Unknown(receiver.taint) if receiver.taint is not None else None


_SET_MAKERS: Final = names("union intersection difference symmetric_difference copy")
_SET_TESTS: Final = frozenset(["issubset", "issuperset", "isdisjoint"])


def _set_method(f: Frame, node: ast.AST, receiver: Set, name: str, args: Args) -> Value | None:
    if name in _SET_MAKERS:
        others = [value for value in args.values() if isinstance(value, Container)]
        elem = receiver.elem
        for other in others:
            elem = join(elem, element_of(other))
        stable = receiver.stable and (
            name in ("copy", "difference", "intersection")
            or all(isinstance(other, Set) and other.stable for other in others)
        )
        return f.new_set(elem, stable)
    if name in ("add", "update"):
        for value in args.values():
            if name == "add":
                consume(value)
                receiver.elem = join(receiver.elem, value)
            elif isinstance(value, Container):
                receiver.elem = join(receiver.elem, element_of(value))
        if receiver.stable:
            receiver.stable = all(_stable_argument(value, name) for value in args.pos)
        return None
    if name == "pop":
        see_order(f, node, receiver, "takes an element of")
        return receiver.elem
    if name not in _SET_TESTS and name not in MUTATORS:
        escape_all(f, node, args)
    return None


def _stable_argument(value: Value | None, name: str) -> bool:
    if name == "update":
        return isinstance(value, Set) and value.stable
    return (isinstance(value, Const) and isinstance(value.value, int)) or (
        getattr(value, "type", "") == "builtins.int"
    )


def _seq_method(f: Frame, node: ast.AST, receiver: Seq, name: str, args: Args) -> Value | None:
    if name in ("append", "appendleft", "insert", "add", "put", "put_nowait", "push"):
        value = args.pos[-1] if args.pos else None
        receiver.elem = join(receiver.elem, value)
        grow(f, node, receiver)
        return None
    if name in ("extend", "extendleft", "update"):
        value = args.pos[0] if args.pos else None
        if isinstance(value, Container):
            receiver.order = receiver.order or order_of(f, node, value, "extends a list by")
            receiver.elem = join(receiver.elem, element_of(value))
        grow(f, node, receiver)
        return None
    if name == "sort":
        receiver.order = None
        f.m.call_key(f, node, args.kw.get("key"), [element_of(receiver)])
        if "key" not in args.kw:
            f.m.sort(f, node, element_of(receiver))
        return None
    if name in ("count", "index", "remove"):
        f.m.contains(f, node, receiver, args.get(0, "value"))
    if name in ("count", "remove", "clear", "discard"):
        return INT if name == "count" else None
    if name in ("pop", "popleft", "index", "__getitem__"):
        use_order(f, node, receiver)
        return None if name == "index" else element_of(receiver)
    if name == "copy":
        made = f.new_seq(
            receiver.kind, None if receiver.items is None else list(receiver.items), receiver.elem
        )
        made.order = receiver.order
        return made
    if name != "reverse":
        escape_all(f, node, args)
    return None


def _dict_method(f: Frame, node: ast.AST, receiver: Dict, name: str, args: Args) -> Value | None:
    key = args.get(0, "key")
    if name in ("get", "pop", "setdefault", "__getitem__"):
        default = args.get(1, "default")
        if name == "setdefault":
            if isinstance(default, Container):
                default.born = min(default.born, receiver.born)  # it lives as long
            receiver.elem = join(receiver.elem, default)
            grow(f, node, receiver)
        found: Value | None
        if isinstance(key, Const) and isinstance(key.value, (str, int)) and key.value in receiver.entries:
            found = receiver.entries[key.value]
            if not isinstance(next(iter(getattr(node, "args", ())), None), ast.Constant):
                f.m.keyed()
        else:
            found = element_of(receiver)
        return chosen(f, join(found, default), key)
    if name in ("keys", "values", "items"):
        return _view(f, receiver, name)
    if name == "update":
        _update(f, node, receiver, args)
        return None
    if name == "copy":
        made = f.new_dict(dict(receiver.entries), receiver.elem)
        made.order = receiver.order
        return made
    if name == "popitem":
        use_order(f, node, receiver)
        return element_of(receiver)
    if name in ("elements", "most_common"):
        made_seq = f.new_seq("list")
        made_seq.order = receiver.order
        return made_seq
    if name != "clear":
        escape_all(f, node, args)
    return None


def _view(f: Frame, receiver: Dict, name: str) -> Seq:
    made = f.new_seq("keys" if name in ("keys", "items") else "iter")
    made.order = receiver.order
    if name == "values":
        made.items = [*receiver.entries.values()] if receiver.elem is None else None
        made.elem = element_of(receiver) if made.items is None else None
    elif name == "items":
        inner = element_of(receiver)
        made.elem = f.new_seq("tuple", [None, inner]) if inner is not None else None
    return made


def _update(f: Frame, node: ast.AST, receiver: Dict, args: Args) -> None:
    for value in args.pos:
        if isinstance(value, Dict):
            receiver.entries.update(value.entries)
            receiver.elem = join(receiver.elem, value.elem)
            receiver.order = receiver.order or value.order
        elif isinstance(value, Container):
            receiver.order = receiver.order or order_of(f, node, value, "fills a mapping from")
            entries, elem = pairs(value)
            receiver.entries.update(entries)
            receiver.elem = join(receiver.elem, elem)
    receiver.entries.update(args.kw)
    grow(f, node, receiver)


# Methods by name, for receivers of any kind


def join_text(f: Frame, node: ast.AST, args: Args) -> Value | None:
    """`separator.join(values)`."""
    value = args.pos[0] if args.pos else None
    if value is None:
        return STR
    see_order(f, node, value, "joins")
    if isinstance(value, Container):
        inner = element_of(value)
        if inner is not None and not isinstance(inner, Container):
            f.m.text(f, node, inner)
    return f.m.tainted_text(value.taint)


def format_text(f: Frame, node: ast.AST, args: Args) -> Value | None:
    """`text.format(...)`."""
    taint = None
    for value in args.values():
        if isinstance(value, Star):
            see_order(f, node, value.value, "unpacks")
        else:
            f.m.text(f, node, value)
        taint = value.taint or taint
    return f.m.tainted_text(taint)


def sort_in_place(f: Frame, node: ast.AST, args: Args) -> Value | None:
    """`values.sort(key=...)`."""
    f.m.call_key(f, node, args.kw.get("key"), [None])
    return None


NAMED: Final[dict[str, Callable[[Frame, ast.AST, Args], Value | None]]] = {
    "join": join_text,
    "format": format_text,
    "sort": sort_in_place,
}
