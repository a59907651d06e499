"""Values that carry ctx with them: whoever keeps one keeps ctx."""

from __future__ import annotations

from rulvar_lint.core.alternatives import element_of
from rulvar_lint.core.freevars import free_names_of
from rulvar_lint.core.values import (
    ATOMS,
    Container,
    Ctx,
    CtxMember,
    Dict,
    Func,
    Inst,
    Partial,
    Star,
    Union,
    Value,
)


def carries_ctx(value: Value | None, depth: int = 0, seen: set[Value] | None = None) -> bool:
    """Whether ctx is, or is inside, a value."""
    if value is None or depth > 4:
        return False
    if value.__class__ in ATOMS:
        return isinstance(value, Ctx)
    if isinstance(value, CtxMember):
        return True
    seen = set() if seen is None else seen
    if value in seen:
        return False
    seen.add(value)
    inner: list[Value | None] = []
    if isinstance(value, Inst):
        inner = list(value.attrs.values())
    elif isinstance(value, Dict):
        inner = [*value.entries.values(), value.elem]
    elif isinstance(value, Container):
        inner = [element_of(value)]
    elif isinstance(value, Union):
        inner = list(value.options)
    elif isinstance(value, Star):
        inner = [value.value]
    elif isinstance(value, Partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, Func):
        inner = [value.bound, *closed_over(value)]
    return any(carries_ctx(item, depth + 1, seen) for item in inner)


def closed_over(func: Func) -> list[Value | None]:
    """What a closure has of the variables around it that are ctx."""
    if func.frame is None:
        return []
    env = func.frame.env if func.env is None else func.env
    return [value for name in free_names_of(func.decl) if isinstance(value := env.get(name), Ctx)]
