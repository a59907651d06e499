"""Instances of project classes that come about without a call of the class: by the constructors of
model libraries, by copying, and by tests of a type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.arguments import Args
from rulvar_lint.core.values import Class, Ext, Inst, Unknown, Value
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

# Class methods of model libraries that make an instance, and methods that copy one.
MAKERS: Final = names("""model_validate model_validate_json model_validate_strings model_construct
    parse_obj parse_raw from_orm construct _make""")
COPIERS: Final = names("model_copy _replace __copy__")
MADE: Final = Ext("<instance>")
COPIED: Final = Ext("<copy>")


def _made(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """The instance that a model's own constructor gives; what its fields hold is not known."""
    base = args.pos[0] if args.pos else None
    if not isinstance(base, Class):
        return None
    given = Args([], {})
    given.rest = Unknown()
    return f.m.construct(f, node, base.decl, given)


def _copied(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """A copy of an instance, with some fields changed."""
    value = args.pos[0] if args.pos else None
    if not isinstance(value, Inst):
        return value
    made = copy(value)
    made.scope, made.home, made.born = "local", f.step, f.m.tick
    made.attrs = {**value.attrs, **args.kw}
    return made


def _cast(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`cast(Type, value)`."""
    value = args.pos[-1] if args.pos else None
    if value is not None or not isinstance(node, ast.Call) or not node.args:
        return value
    return f.m.from_annotation(f.module, node.args[0])


TABLE: Final[dict[str, Callable[[Frame, ast.AST, Ext, Args], Any]]] = {
    MADE.path: _made,
    COPIED.path: _copied,
    "dataclasses.replace": _copied,
    "attrs.evolve": _copied,
    "attr.evolve": _copied,
    "msgspec.structs.replace": _copied,
    "typing.cast": _cast,
}


def narrow(f: Frame, test: ast.expr) -> tuple[str, Value] | None:
    """The name that `isinstance(name, Class)` tells about, and what it is then, if nothing was known."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return next((found for part in test.values if (found := narrow(f, part)) is not None), None)
    if not isinstance(test, ast.Call) or getattr(test.func, "id", "") != "isinstance" or len(test.args) != 2:
        return None
    return is_a(f, test.args[0], test.args[1])


def is_a(f: Frame, subject: ast.expr, kind: ast.expr) -> tuple[str, Value] | None:
    """The variable `subject`, and an instance of the project's class `kind`."""
    if not isinstance(subject, ast.Name) or f.env.get(subject.id, subject) is not None:
        return None
    value = f.m.from_annotation(f.module, kind)
    return (subject.id, value) if isinstance(value, Inst) else None
