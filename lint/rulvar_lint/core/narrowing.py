"""What `isinstance` tells about a variable on either side of a test."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.lineage import order_of_classes
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Dict,
    Ext,
    Inst,
    Obj,
    Seq,
    Set,
    Unknown,
    Value,
    options_of,
    with_taint,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

TESTS: Final = (ast.Call, ast.BoolOp, ast.UnaryOp)
_ABSTRACT: Final = names("Iterable Collection Sized Container")
_KINDS: Final = {
    "set": names("set frozenset Set MutableSet AbstractSet") | _ABSTRACT,
    "dict": names("dict Mapping MutableMapping") | _ABSTRACT,
    "list": names("list Sequence MutableSequence") | _ABSTRACT,
    "tuple": names("tuple Sequence") | _ABSTRACT,
    "iter": names("Iterable Iterator Generator"),
}
_KNOWN: Final = frozenset().union(*_KINDS.values()) | names("str bytes int float bool")
_TEXTS: Final = names("str bytes")
_SCALARS: Final = names("str bytes int float bool NoneType")


class Told(NamedTuple):
    """A variable, and what it is where the test holds and where it does not."""

    name: str
    yes: Value | None
    no: Value | None

    def evaluate(self, f: Frame, body: ast.expr, orelse: ast.expr) -> Value | None:
        """`body if test else orelse`."""
        before = f.env[self.name]
        f.env[self.name] = self.yes
        found = f.ev[body.__class__](f, body)
        f.env[self.name] = self.no
        found = join(found, f.ev[orelse.__class__](f, orelse))
        f.env[self.name] = before
        return found


def narrow(f: Frame, test: ast.expr) -> Told | None:
    """What a test tells about a variable, if it tells anything."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for part in test.values:
            told = narrow(f, part)
            if told is not None:
                return told._replace(no=f.env.get(told.name))  # another part may have failed
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        told = narrow(f, test.operand)
        return None if told is None else Told(told.name, told.no, told.yes)
    if not isinstance(test, ast.Call) or getattr(test.func, "id", "") != "isinstance" or len(test.args) != 2:
        return None
    return is_a(f, test.args[0], test.args[1])


def is_a(f: Frame, subject: ast.expr, *kinds: ast.expr) -> Told | None:
    """What the variable `subject` is if it is an instance of one of `kinds`, and if it is of none."""
    if not isinstance(subject, ast.Name) or subject.id not in f.env or f.is_module():
        return None
    value = f.env[subject.id]
    made = f.m.from_annotation(f.module, kinds[0]) if len(kinds) == 1 else None
    if value is None:
        return Told(subject.id, made, None) if made is not None else None
    known = [kind for node in kinds for kind in _kinds(f, node)]
    yes: Value | None = None
    no: Value | None = None
    for option in options_of(value):
        answer = _is_any(option, known)
        if answer is None and made is not None and isinstance(option, (Ext, Obj, Unknown)):
            yes = join(yes, with_taint(made, option.taint))
        elif answer is not False:
            yes = join(yes, option)
        if answer is not True:
            no = join(no, option)
    return None if yes is value is no else Told(subject.id, yes, no)


def by_pattern(f: Frame, subject: ast.expr, pattern: ast.pattern) -> Told | None:
    """What `case Kind():` tells about the variable that is matched."""
    inner = pattern.pattern if isinstance(pattern, ast.MatchAs) else pattern
    choices = inner.patterns if isinstance(inner, ast.MatchOr) else [inner]
    parts = [choice for choice in choices if isinstance(choice, ast.MatchClass)]
    if len(parts) < len(choices):
        return None
    told = is_a(f, subject, *(part.cls for part in parts))
    is_whole = not any(part.patterns or part.kwd_patterns for part in parts)
    return told if told is None or is_whole else told._replace(no=f.env.get(told.name))


def _kinds(f: Frame, node: ast.expr) -> list[Value | None]:
    if isinstance(node, ast.Tuple):
        return [kind for part in node.elts for kind in _kinds(f, part)]
    if isinstance(node, ast.BinOp):
        return [*_kinds(f, node.left), *_kinds(f, node.right)]
    return [f.ev[node.__class__](f, node)] if isinstance(node, (ast.Name, ast.Attribute)) else [None]


def _is_any(option: Value, kinds: list[Value | None]) -> bool | None:
    answers = {_is(option, kind) for kind in kinds}
    if True in answers:
        return True
    return None if None in answers else False


def _is(option: Value, kind: Value | None) -> bool | None:
    if isinstance(kind, Class):
        if isinstance(option, Inst):
            return True if kind.decl in order_of_classes(option.decl) else None
        return False if isinstance(option, (Const, Container)) else None
    if not isinstance(kind, Ext) or kind.receiver is not None:
        return None
    owner, _, name = kind.path.rpartition(".")
    if owner not in ("builtins", "collections.abc", "typing") or name not in _KNOWN:
        return None
    own = _own_kind(option)
    if own in _SCALARS:
        return own == name if name in _SCALARS or own not in _TEXTS else None
    return name in _KINDS[own] if own in _KINDS else None


def _own_kind(option: Value) -> str:
    if isinstance(option, Set):
        return "set"
    if isinstance(option, Dict):
        return "dict"
    if isinstance(option, Seq):
        return option.kind if option.kind in ("list", "tuple") else "iter"
    if isinstance(option, Const):
        return type(option.value).__name__
    return option.type.removeprefix("builtins.") if isinstance(option, Obj) else ""
