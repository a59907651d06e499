"""Going over syntax trees, as fast as Python can."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final

from rulvar_lint.core.words import names

# Fields that hold no nodes, or operators and contexts.
_LEAVES: Final = names(
    """id attr ctx op ops kind value_ arg name asname module level n s lineno type_comment
conversion simple is_async tag"""
)
# Lists in these fields hold nothing but nodes; other fields of these classes hold a node or None.
_SIMPLE: Final = names("""FunctionDef AsyncFunctionDef ClassDef Return Delete Assign AugAssign AnnAssign
For AsyncFor While If With AsyncWith Match Raise Try TryStar Assert Import ImportFrom Expr BoolOp NamedExpr
BinOp UnaryOp Lambda IfExp Set ListComp SetComp DictComp GeneratorExp Await Yield YieldFrom Compare Call
FormattedValue JoinedStr Attribute Subscript Starred List Tuple Slice comprehension keyword withitem
match_case MatchValue MatchSequence MatchOr Module Expression Name Pass Break Continue alias
ExceptHandler arg""")
_PLAIN: Final = {int, str, object, type(None)}


def _holds_nodes(cls: type[ast.AST], name: str) -> bool:
    """Whether a field holds nodes; of fields that are newer than this table, newer Pythons tell the type."""
    if name in _LEAVES:
        return cls is ast.ExceptHandler and name == "type"
    kind = getattr(cls, "_field_types", {}).get(name)
    return kind is None or not _PLAIN.issuperset(getattr(kind, "__args__", (kind,)))


_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    cls: tuple(name for name in cls._fields if _holds_nodes(cls, name))
    for cls in vars(ast).values()
    if isinstance(cls, type) and issubclass(cls, ast.AST)
}


def _reader(cls: type) -> tuple[str | None, Callable[[ast.AST], Any] | None]:
    """How the children of nodes of a class are read: (the only field, or the reader of several)."""
    fields = _FIELDS[cls]
    if cls in _READ_BY:
        return None, _READ_BY[cls]
    if cls.__name__ not in _SIMPLE:
        return None, _searched
    return (fields[0], None) if len(fields) == 1 else (None, attrgetter(*fields) if fields else None)


def _searched(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for name in _FIELDS[node.__class__]:
        value = getattr(node, name, None)
        parts = value if value.__class__ is list else (value,)
        found += [part for part in parts if isinstance(part, ast.AST)]
    return found


def _dict(node: Any) -> tuple[Any, ...]:
    keys = node.keys
    return ([key for key in keys if key is not None] if None in keys else keys), node.values


def _arguments(node: Any) -> tuple[Any, ...]:
    given = [default for default in node.kw_defaults if default is not None]
    return node.posonlyargs, node.args, node.vararg, node.kwonlyargs, given, node.kwarg, node.defaults


_READ_BY: Final[dict[type, Callable[[Any], Any] | None]] = {
    ast.Dict: _dict,
    ast.arguments: _arguments,
    ast.Constant: None,
    ast.Global: None,
    ast.Nonlocal: None,
}
_READERS: Final = {cls: _reader(cls) for cls in _FIELDS}
# Kinds of nodes that have no nodes below them.
LEAVES: Final = frozenset(cls for cls, reader in _READERS.items() if reader == (None, None))


_CLOSED: Final = LEAVES | {ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef}


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below a node; operators and contexts are left out."""
    name, read = _READERS[node.__class__]
    if read is not None:
        found: list[ast.AST] = []
        for value in read(node):
            if value.__class__ is list:
                found += value
            elif value is not None:
                found.append(value)
        return found
    if name is None:
        return []
    value = getattr(node, name)
    if value.__class__ is list:
        return value.copy()
    return [] if value is None else [value]


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes below it, in no particular order."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        if current.__class__ not in LEAVES:
            todo += children(current)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body that run when it does, without inner functions."""
    todo: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(getattr(node, "body", ()))
    while todo:
        current = todo.pop()
        yield current
        if current.__class__ not in _CLOSED:
            todo += children(current)


def mentions(node: ast.AST, word: str) -> bool:
    """Whether a name, an attribute or a quoted annotation in an expression is `word`."""
    for inner in walk(node):
        text = getattr(inner, "id", None) or getattr(inner, "attr", None) or getattr(inner, "value", None)
        if isinstance(text, str) and (text == word or (isinstance(inner, ast.Constant) and word in text)):
            return True
    return False


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements below `body`, however deep, functions and classes included."""
    todo = body[::-1]
    while todo:
        node = todo.pop()
        yield node
        cls = node.__class__
        if cls in _FLAT:
            continue
        for name in ("body", "orelse", "finalbody"):
            todo.extend(reversed(getattr(node, name, ())))
        for handler in getattr(node, "handlers", ()):
            todo.extend(reversed(handler.body))
        for case in getattr(node, "cases", ()):
            todo.extend(reversed(case.body))


_FLAT: Final = frozenset(
    {ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert, ast.Pass}
    | {ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Delete, ast.Break, ast.Continue}
)
