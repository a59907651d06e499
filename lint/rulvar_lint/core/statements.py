"""Interpreting statements. A block tells how it ends, so that code behind a `return` is not looked
at.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.choices import chosen, decided
from rulvar_lint.core.frame import FALLS, HOST, JUMPS, LEAVES, PLAIN
from rulvar_lint.core.freevars import depends_on_element
from rulvar_lint.core.narrowing import TESTS, by_pattern, narrow
from rulvar_lint.core.order import order_event
from rulvar_lint.core.targets import exec_annassign, exec_assign, exec_augassign, exec_delete
from rulvar_lint.core.values import (
    Coro,
    Ext,
    Value,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.values import Env

# How a block ends.


def exec_block(f: Frame, body: list[ast.stmt]) -> int:
    """Run statements until one of them leaves."""
    ex = f.ex
    for node in body:
        ends = ex[node.__class__](f, node)
        if ends:
            return ends
    return FALLS


def exec_expr(f: Frame, node: ast.Expr) -> int:
    value_node = node.value
    cls = value_node.__class__
    if cls is ast.Constant:
        return FALLS
    value = f.ev[cls](f, value_node)
    if value.__class__ is Coro:
        for hook in f.m.hooks.dropped:
            hook(f, value_node, value)
    if f.loops and cls is ast.Call:
        _discarded_call(f, value_node)
    return FALLS


_QUIET_CALLS: Final = names("""add discard update log debug info warning error setdefault append extend""")


def _discarded_call(f: Frame, node: ast.expr) -> None:
    """A call that is made for its effect: in a loop over a set the effects come in an arbitrary
    order.
    """
    func = node.func  # type: ignore[attr-defined]
    if any(loop.order is not None for loop in f.loops) and not f.m.is_quiet(f, func):
        order_event(f, node)


def exec_return(f: Frame, node: ast.Return) -> int:
    value: Value | None = None
    if node.value is not None:
        value = f.ev[node.value.__class__](f, node.value)
        for loop in f.loops:
            if loop.order is not None and depends_on_element(loop, node.value, "", None):
                order_event(f, node)
    f.returned.append((node, value))
    return LEAVES


def exec_raise(f: Frame, node: ast.Raise) -> int:
    for part in (node.exc, node.cause):
        if part is not None:
            f.ev[part.__class__](f, part)
    return LEAVES


_CLASSES: Final = (ast.MatchAs, ast.MatchClass, ast.MatchOr)


def exec_if(f: Frame, node: ast.If) -> int:
    test = node.test
    value = f.ev[test.__class__](f, test)
    known = decided(f, test)
    if known is not None:
        return exec_block(f, node.body if known else node.orelse)
    if value is not None:
        f.m.test(f, test, value)
        constant = _known_test(value)
        if constant is not None:
            if f.is_module():
                f.m.typing_imports(f.module, node.body)
            return exec_block(f, node.body if constant else node.orelse)
    base, returns = f.fork(), len(f.returned)
    told = narrow(f, test) if test.__class__ in TESTS else None
    if told is not None:
        before = base.get(told.name)
        f.env[told.name], base[told.name] = told.yes, told.no
    first = exec_block(f, node.body)
    after_body = f.env
    if told is not None and before is None and after_body.get(told.name) is told.yes:
        after_body[told.name] = None
    f.env = base
    second = exec_block(f, node.orelse) if node.orelse else FALLS
    if value is not None and value.taint is not None and f.mode in (HOST, PLAIN):
        _taint_branches(f, [*node.body, *node.orelse], value, (f.env, after_body), returns)
    if first and second:
        f.merge(after_body)
        return LEAVES if LEAVES in (first, second) and first == second else JUMPS
    if second:
        f.env = after_body
    elif not first:
        f.merge(after_body)
    f.settle()
    return FALLS


def _known_test(value: Value) -> bool | None:
    """Tests that are decided: `TYPE_CHECKING` is false when the program runs."""
    if isinstance(value, Ext) and value.path in (
        "typing.TYPE_CHECKING",
        "typing_extensions.TYPE_CHECKING",
    ):
        return False
    return None


def _taint_branches(f: Frame, body: list[ast.stmt], by: Value, envs: tuple[Env, ...], returns: int) -> None:
    """What a branch on an unstable value sets or returns is unstable too."""
    for inner in body:
        if isinstance(inner, ast.Assign):
            for target in inner.targets:
                if isinstance(target, ast.Name):
                    for env in envs:
                        if target.id in env:
                            env[target.id] = chosen(f, env[target.id], by)
    f.returned[returns:] = [(at, chosen(f, value, by)) for at, value in f.returned[returns:]]


def exec_assert(f: Frame, node: ast.Assert) -> int:
    value = f.ev[node.test.__class__](f, node.test)
    if value is not None:
        f.m.test(f, node.test, value)
    if node.msg is not None:
        f.ev[node.msg.__class__](f, node.msg)
    told = narrow(f, node.test) if node.test.__class__ in TESTS else None
    if told is not None:
        f.env[told.name] = told.yes
    return FALLS


def exec_pass(f: Frame, node: ast.AST) -> int:
    return FALLS


def exec_jump(f: Frame, node: ast.AST) -> int:
    if f.jumps is not None:
        f.jumps.append(f.env)
    return JUMPS


def exec_scope(f: Frame, node: ast.Global | ast.Nonlocal) -> int:
    kind = "global" if isinstance(node, ast.Global) else "nonlocal"
    if f.mode == HOST and f.is_module():
        return FALLS
    f.declared = {**(f.declared or {}), **dict.fromkeys(node.names, kind)}
    return FALLS


def exec_match(f: Frame, node: ast.Match) -> int:
    subject = f.ev[node.subject.__class__](f, node.subject)
    if subject is not None:
        f.m.test(f, node.subject, subject)
    base, returns = f.env, len(f.returned)
    if isinstance(node.subject, ast.Name) and not f.is_module():
        base = base.copy()
    ends: list[int] = []
    merged: dict[str, Value | None] | None = None
    exhaustive = False
    for case in node.cases:
        f.env = base.copy()
        for inner in ast.walk(case.pattern):
            if isinstance(inner, ast.MatchValue):
                f.ev[inner.value.__class__](f, inner.value)
            name = getattr(inner, "name", None) or getattr(inner, "rest", None)
            if isinstance(name, str):
                f.env[name] = subject if inner is case.pattern else None
        if case.pattern.__class__ in _CLASSES:
            _narrow_case(f, base, node.subject, case)
        if case.guard is not None:
            guard = f.ev[case.guard.__class__](f, case.guard)
            if guard is not None:
                f.m.test(f, case.guard, guard)
        elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
            exhaustive = True
        end = exec_block(f, case.body)
        if subject is not None and subject.taint is not None and f.mode in (HOST, PLAIN):
            _taint_branches(f, case.body, subject, (f.env,), returns)
        ends.append(end)
        if not end:
            if merged is not None:
                f.merge(merged)
            merged = f.env
    if merged is None:
        f.env = base
        return max(ends) if exhaustive and all(ends) else FALLS
    f.env = merged
    if not exhaustive:
        f.merge(base)
    f.settle()
    return FALLS


def _narrow_case(f: Frame, base: Env, subject: ast.expr, case: ast.match_case) -> None:
    """`case Order() as order`: what the subject and the new name are, and what other cases get."""
    pattern = case.pattern
    name, inner = getattr(pattern, "name", None), getattr(pattern, "pattern", None)
    told = by_pattern(f, subject, pattern)
    if told is not None:
        f.env[told.name] = told.yes
        if base[told.name] is not None and case.guard is None:
            base[told.name] = told.no
        if name is not None:
            f.env[name] = told.yes
    elif name is not None and isinstance(inner, ast.MatchClass) and f.env[name] is None:
        f.env[name] = f.m.from_annotation(f.module, inner.cls)


TABLE: Final[dict[type, Callable[[Frame, Any], int]]] = {
    ast.Expr: exec_expr,
    ast.Assign: exec_assign,
    ast.AnnAssign: exec_annassign,
    ast.AugAssign: exec_augassign,
    ast.Return: exec_return,
    ast.Raise: exec_raise,
    ast.If: exec_if,
    ast.Assert: exec_assert,
    ast.Delete: exec_delete,
    ast.Pass: exec_pass,
    ast.Break: exec_jump,
    ast.Continue: exec_jump,
    ast.Global: exec_scope,
    ast.Nonlocal: exec_scope,
    ast.Match: exec_match,
}
