"""The classes that a class of the project inherits from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulvar_lint.core.values import Class, Ext, Obj

if TYPE_CHECKING:
    from rulvar_lint.core.decls import ClassDecl


def order_of_classes(decl: ClassDecl) -> list[ClassDecl]:
    """The class and its project bases in look-up order."""
    if decl.mro is None:
        found = [decl]
        decl.mro = found
        for base in decl.bases:
            if isinstance(base, Class):
                found += [cls for cls in order_of_classes(base.decl) if cls not in found]
    return decl.mro


def external_bases(decl: ClassDecl) -> list[str]:
    """Dotted names of the bases that are not part of the project."""
    found: list[str] = []
    for cls in order_of_classes(decl):
        for base in cls.bases:
            if isinstance(base, Ext):
                found.append(base.path)
            elif isinstance(base, Obj):
                found.append(base.type)
    return found


def has_unknown_base(decl: ClassDecl) -> bool:
    """Whether a base could not be resolved at all."""
    return any(base is None for cls in order_of_classes(decl) for base in cls.bases)
