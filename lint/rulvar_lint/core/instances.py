"""Instances of project classes that come about without a call of the class: by the constructors of
model libraries, and by copying.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.arguments import Args
from rulvar_lint.core.values import Class, Container, Ext, Inst, Unknown, Value
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

# Class methods of model libraries that make an instance, and methods that copy one.
MAKERS: Final = names("""model_validate model_validate_json model_validate_strings model_construct
    parse_obj parse_raw from_orm construct _make""")
COPIERS: Final = names("model_copy _replace __copy__")
_COPYING: Final = ("pydantic.", "pydantic_settings.", "sqlmodel.", "msgspec.")
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


def copies_defaults(bases: list[str], field: object) -> bool:
    """Whether each instance of a model gets its own copy of a field's list or mapping."""
    return isinstance(getattr(field, "default", None), Container) and any(
        base.startswith(_COPYING) for base in bases
    )


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
