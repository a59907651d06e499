"""RLV310: a step that is given something else than a function."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ancestry import ancestors
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.freevars import free_names, loop_bound
from rulvar_lint.core.nodes import mentions, walk
from rulvar_lint.core.values import (
    Class,
    Const,
    Coro,
    CtxMember,
    Dict,
    Ext,
    Func,
    Inst,
    Partial,
    Seq,
    Set,
    Value,
    options_of,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame

# Expressions whose value is never a function.
_DATA: Final = (
    ast.Await,
    ast.JoinedStr,
    ast.Constant,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.Tuple,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Compare,
)
_RUNNING: Final = frozenset({ast.Call, ast.Await})
# What cannot be moved into a lambda, or is not the same there.
_UNMOVABLE: Final = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Starred)


def report_eager(f: Frame, call: CtxCall, expr: ast.expr) -> None:
    """Report that `expr`, the function of the step `call`, is not a function."""
    label = call.expr("label")
    if label is not None and _is_function(label, call.value("label")) and _is_text(expr, call.value("fn")):
        what = "the label and the function of `ctx.step` have changed places"
        fix = _swap(f, label, expr)
    elif any(node.__class__ in _RUNNING for node in walk(expr)):
        what = f"`{f.segment(expr)}` is called at once instead of being passed as a function"
        fix = _wrap(f, call, expr)
    else:
        what, fix = f"`{f.segment(expr)}` is a value, not a function", None
    call.refused = True
    f.emit(expr, Cause("RLV310", what, f.place(expr)), fix=fix)


# Names of functions that give a function: they say so, or what they give is an agent noun.
_FACTORY: Final = re.compile(
    r"(^|_)(make|bind|wrap|partial|factory|curry|compose|defer|lazy|thunk|callback|func|fn|function|with|using|for|"
    r"step|task|job|body|action|hook)(_|$)|^(build|create|prepare)$|^__|Factory$|er$",
)
# Words that look like agent nouns and are none.
_NO_AGENT: Final = re.compile(
    r"(^|_)(upper|lower|filter|answer|customer|number|order|user|header|footer|folder|letter|newsletter|register|"
    r"render|transfer|enter|trigger|deliver|gather|server|paper|member|after|other|offer|layer|filter|parameter|"
    r"chapter|character|cluster|buffer|pointer|identifier|integer|manager|owner|partner|voucher|weather|"
    r"discover|recover|cover|alter|consider|remember|refer|infer|answer|power|tier|over)$"
)


_CALLABLE: Final = frozenset({Func, Partial, Class, CtxMember})
_NO_FUNCTION: Final = frozenset({Const, Seq, Set, Dict})


def is_eager(f: Frame, expr: ast.expr, fn: Value | None) -> bool:
    """Whether the step function is the result of a call rather than a function."""
    if isinstance(expr, _DATA):
        return True
    options = options_of(fn)
    if not options:
        return isinstance(expr, ast.Call) and _called_value_is_data(f, expr)
    kinds = {option.__class__ for option in options}
    if kinds & _CALLABLE:
        return False
    if Coro in kinds:
        return True
    if Inst in kinds:
        return isinstance(expr, ast.Call) and not any(
            "__call__" in cls.attrs for option in options if isinstance(option, Inst) for cls in [option.decl]
        )
    if kinds & _NO_FUNCTION:
        return True
    if not isinstance(expr, ast.Call):
        return False
    if any(isinstance(option, Ext) and option.receiver is None for option in options):
        return False
    return _called_value_is_data(f, expr)


_MAKERS: Final = names("""functools.partial operator.itemgetter operator.attrgetter
operator.methodcaller functools.partialmethod functools.lru_cache functools.cache
functools.wraps functools.singledispatch builtins.getattr""")


def _called_value_is_data(f: Frame, expr: ast.Call) -> bool:
    func = expr.func
    if isinstance(func, ast.Lambda):
        return True
    callee = _quietly(f, func)
    if isinstance(callee, Ext):
        if callee.path in _MAKERS:
            return False
        if callee.path[0] != "." and (
            f.m.catalog.effects(callee.path) or callee.path.partition(".")[0] in f.m.stdlib
        ):
            return True
    if isinstance(callee, Func):
        return _returns_data(callee)
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if name == "get":
        return isinstance(func, ast.Name)  # of a mapping it may be a function
    return bool(name) and (_NO_AGENT.search(name) is not None or _FACTORY.search(name) is None)


def _returns_data(func: Func) -> bool:
    """Whether a project function that gives an unknown value is no factory, by its annotation."""
    returns = getattr(func.decl.node, "returns", None)
    return returns is None or not mentions(returns, "Callable")


def _quietly(f: Frame, expr: ast.expr) -> Value | None:
    """The value of a name or attribute, without findings."""
    mark = f.m.quiet(f)
    value = f.ev[expr.__class__](f, expr) if isinstance(expr, (ast.Name, ast.Attribute)) else None
    f.m.loud(f, mark)
    return value


def _is_function(expr: ast.expr, value: Value | None) -> bool:
    options = options_of(value)
    return isinstance(expr, ast.Lambda) or (
        bool(options) and all(isinstance(option, (Func, Partial)) for option in options)
    )


def _is_text(expr: ast.expr, value: Value | None) -> bool:
    return isinstance(expr, ast.JoinedStr) or (isinstance(value, Const) and isinstance(value.value, str))


def _swap(f: Frame, label: ast.expr, function: ast.expr) -> Plan | None:
    texts = [f.module.source.segment(expr) for expr in (label, function)]
    if None in texts:
        return None
    return ("safe", "Swap them", [(label, str(texts[1])), (function, str(texts[0]))], "replace")


def _wrap(f: Frame, call: CtxCall, expr: ast.expr) -> Plan | None:
    """Put the expression behind a lambda. The variables of a loop are bound if the step runs later."""
    inner = expr.value if isinstance(expr, ast.Await) else expr
    text = f.module.source.segment(inner)
    read = free_names(ast.Lambda(ast.arguments([], [], None, [], [], None, []), inner))
    movable = not any(
        isinstance(node, _UNMOVABLE)
        or (isinstance(node, ast.comprehension) and node.is_async)
        or (isinstance(node, ast.Attribute) and node.attr == "ctx")
        for node in walk(inner)
    )
    if text is None or not movable or f.ctx_name() in read or f.decl is None:
        return None
    bound = ""
    chain = ancestors(f.decl.node, call.node)
    if not (len(chain) > 1 and isinstance(chain[1], ast.Await)):
        looped = {name for node in chain for name in loop_bound(node)}
        bound = ", ".join(f"{name}={name}" for name in read if name in looped)
    return (
        "safe",
        "Pass a function",
        [(expr, f"lambda {bound}: {text}" if bound else f"lambda: {text}")],
        "replace",
    )
