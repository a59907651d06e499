"""Replayed code: which functions it begins with, and what is done when one of them has been run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core import calls, hints
from rulvar_lint.core.alternatives import join
from rulvar_lint.core.arguments import Args, bind, holds_ctx
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import HOST, PLAIN, REGION, STEP
from rulvar_lint.core.lineage import external_bases
from rulvar_lint.core.nodes import statements as all_statements
from rulvar_lint.core.values import (
    Bound,
    Class,
    Container,
    Ctx,
    Ext,
    Func,
    Inst,
    Obj,
    Partial,
    Unknown,
    Value,
    options_of,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.decls import ClassDecl, FunctionDecl, Module
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.machine import Machine
    from rulvar_lint.core.values import Env

_REGISTER: Final = frozenset({"workflow", "define_workflow"})
_FOREIGN_CTX: Final = names("""click typer discord invoke fabric celery fastapi aiogram telegram
strawberry flask starlette nextcord disnake rich_click asyncclick cloup sanic litestar graphene
hikari arc crescent lightbulb temporalio prefect dagster airflow""")


def finish(f: Frame) -> None:
    """After a replayed function: judge its closures, then let the rules look at the whole."""
    seen: set[FunctionDecl] = set()
    # A function is usually written above those that use it, and how it is used decides.
    for func in reversed(f.closures):
        if func.decl not in f.exempt and func.decl not in seen:
            seen.add(func.decl)
            run_closure(f, func)
    for user, func, node in f.closure_uses:
        if func.decl in f.exempt:
            env = _bound(f, func)
            for cause in f.m.run(func, env, PLAIN, None, f.depth + 1).effects.values():
                user.emit(node, cause.through(func.decl.qualname, user.place(node)))
    for hook in f.m.hooks.region_end:
        hook(f)


def run_closure(f: Frame, func: Func) -> None:
    """Run a closure of replayed code on its own, as replayed code."""
    f.m.run(func, _bound(f, func), REGION, None, f.depth + 1)


def _bound(f: Frame, func: Func) -> Env:
    """The parameters of a closure, of the types that its calls gave."""
    env, _ = f.m.bind(f, func, Args([], {}))
    for name, value in (func.decl.given or {}).items():
        if env.get(name) is None:
            env[name] = value
    return env


# Registration


def register(f: Frame, node: ast.AST, path: str, func: Func, value: Value | None) -> None:
    """A decorator or function of rulvar is given a function."""
    name = path.rpartition(".")[2]
    if name in _REGISTER:
        f.m.registered[func.decl] = func
        f.m.registrars[func.decl] = f.module.path
        func.decl.flags.add("workflow")
    elif name == "transition":
        func.decl.flags.add("transition")
    elif name == "tool":
        func.decl.flags.add("tool")


def rulvar_call(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`define_workflow("name", fn)`, `workflow(name=...)`, `tool(execute=fn)` and the rest of
    rulvar.
    """
    name = ext.path.rpartition(".")[2]
    given = [option for value in args.values() for option in options_of(value)]
    if name in _REGISTER:
        found: Value | None = None
        for value in given:
            func = _function_of(value)
            if func is not None:
                register(f, node, ext.path, func, value)
                if isinstance(value, Partial):
                    func.decl.flags.add("partial")
                found = join(found, func)
        return found if found is not None else Ext(ext.path)
    if name == "tool":
        for value in given:
            if isinstance(value, (Func, Partial, Container)):
                f.m.exempt(f, node, value, "tool")
        return next((value for value in given if isinstance(value, Func)), Ext(ext.path))
    if name == "transition":
        for option in options_of(args.kw.get("guard")):
            if isinstance(option, Func):
                option.decl.flags.add("guard")
                f.m.registered[option.decl] = option
        return Ext(ext.path)
    for value in args.values():
        calls.escape(f, node, value)
    if holds_ctx(args):
        return calls.ctx_work(f, node)
    return Obj(f"{ext.path}()")


def _function_of(value: Value | None) -> Func | None:
    if isinstance(value, Func):
        return value
    if isinstance(value, Partial):
        return _function_of(value.func)
    return None


def state_machine(f: Frame, decl: ClassDecl) -> None:
    """Transitions and guards of a state machine are replayed code."""
    if not any(
        base.startswith("rulvar.") and base.endswith(".StateMachine") for base in external_bases(decl)
    ):
        return
    guards = {
        keyword.value.value
        for node in ast.walk(decl.node)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "guard" and isinstance(keyword.value, ast.Constant)
    }
    for name, value in decl.attrs.items():
        if isinstance(value, Func) and (name in guards or {"transition", "guard"} & value.decl.flags):
            value.decl.flags.add("machine")
            f.m.registered[value.decl] = value


# Roots


def roots(m: Machine, module: Module) -> list[Func]:
    """The replayed functions that a module begins with: registered ones and those that take ctx."""
    before = set(m.registered)
    m.prepare(module)
    _run_hosts(m, module)
    found: dict[FunctionDecl, Func] = {}
    for func in module.functions:
        decl = func.decl
        if decl in m.registered or _is_ctx_helper(m, func):
            found[decl] = func
    for decl, func in m.registered.items():
        if decl not in before or decl.module is module:
            found.setdefault(decl, func)
    return list(found.values())


def _is_ctx_helper(m: Machine, func: Func) -> bool:
    decl = func.decl
    if not hints.ctx_parameters(m, decl):
        return False
    if "tool" in decl.flags or "fixture" in decl.flags or "overload" in decl.flags:
        return False
    if decl.module.is_test and decl.parent is None and decl.name.startswith("test"):
        return False
    for _, head in decl.decorators:
        if isinstance(head, Ext) and head.path.partition(".")[0] in _FOREIGN_CTX:
            return False
        if isinstance(head, Unknown):
            continue
    return True


def _run_hosts(m: Machine, module: Module) -> None:
    """Host functions are run only for the workflows that are defined or registered inside them."""
    if not module.imports_rulvar:
        return
    for func in list(module.functions):
        if func.decl in m.registered or (hints.ctx_parameters(m, func.decl) and not module.is_test):
            continue
        if _may_register(func.decl, module):
            run_host(m, func)


def _may_register(decl: FunctionDecl, module: Module) -> bool:
    node = decl.node
    last = getattr(node, "end_lineno", None) or node.lineno
    text = "\n".join(module.source.lines[node.lineno : last])
    if "workflow" in text:
        return True
    if "def " not in text:
        return False
    return any(
        isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (inner.decorator_list or any(arg.arg == "ctx" or arg.annotation for arg in inner.args.args))
        for inner in all_statements(decl.body)
    )


def run_all_hosts(m: Machine, module: Module) -> None:
    """Run every host function of a module, for what host code itself is judged by."""
    for func in list(module.functions):
        if func.decl not in m.registered:
            run_host(m, func)


def run_host(m: Machine, func: Func) -> None:
    """Run a host function for the definitions inside it."""
    frame = m.host_frame(func.decl.module)
    env, _ = bind(frame, func, Args(_receiver(m, func), {}))
    m.run(func, env, HOST, None, 0)


def _receiver(m: Machine, func: Func) -> list[Value | None]:
    """What a method that is run on its own gets as `self` or `cls`."""
    decl = func.decl
    if decl.cls is None or "staticmethod" in decl.flags or func.bound is not None or func.frame is not None:
        return []
    return [Class(decl.cls) if "classmethod" in decl.flags else m.generic(decl.cls)]


def analyse(m: Machine, func: Func) -> None:
    """Run one root on its own."""
    decl = func.decl
    frame = m.host_frame(decl.module)
    bound = _receiver(m, func)
    env, _ = bind(frame, func, Args(bound, {}))
    _root_parameters(m, func, env, len(bound) + (func.bound is not None))
    m.run(func, env, REGION, None, 0)
    if decl.wrapped is not None and decl in m.registered:
        _wrapper(m, decl)


def _root_parameters(m: Machine, func: Func, env: Env, skip: int) -> None:
    decl = func.decl
    for param in decl.params[skip:]:
        if param.name in decl.defaults:  # who calls it may pass what the annotation says
            env[param.name] = join(m.annotated(decl, param), env[param.name])
    m.fill_ctx(decl, env)
    positional = [param.name for param in decl.params if param.kind == "pos"][skip:]
    if decl in m.registered and positional and not any(isinstance(v, Ctx) for v in env.values()):
        env[positional[0]] = Ctx()


def _wrapper(m: Machine, decl: FunctionDecl) -> None:
    """A decorator below `@workflow` wraps the body: what the wrapper does is replayed too."""
    assert decl.wrapped is not None
    node, wrapper = decl.wrapped
    frame = m.new_frame(decl.module, decl, REGION, {})
    scratch = m.new_frame(decl.module, decl, PLAIN, {})
    calls.call_value(scratch, node, wrapper, Args([None, None], {}))
    for cause in scratch.effects.values():
        frame.emit(node, cause)


# Small judgements


_QUIET: Final = names("""add discard update append extend insert setdefault remove pop clear
sort log debug info warning error exception""")


def is_quiet(f: Frame, func: ast.expr) -> bool:
    """Whether a call made for its effect is harmless in any order, or judged elsewhere."""
    if isinstance(func, ast.Attribute):
        if func.attr in _QUIET:
            return func.attr not in ("append", "extend", "insert") or _is_tracked(f, func.value)
        value = func.value
        return isinstance(value, ast.Name) and isinstance(f.env.get(value.id), Ctx)
    if isinstance(func, ast.Name):
        value_ = f.env.get(func.id)
        if value_ is None and func.id not in f.env:
            value_ = f.m.static_global(f.module, func.id)
        return isinstance(value_, Func) or (isinstance(value_, Ext) and value_.path.startswith("builtins."))
    return False


def _is_tracked(f: Frame, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return isinstance(f.env.get(node.id), (Container, Bound))
    if isinstance(node, ast.Subscript):
        return _is_tracked(f, node.value)
    return False


def _lasts(value: Value) -> bool:
    return isinstance(value, (Inst, Container)) and value.scope == "module"


def outward(f: Frame, node: ast.AST, cause: Cause, func: Func, args: Args) -> None:
    """A callee stored ctx in, or changed, what it was given: judged by where that lives."""
    if cause.code == "RLV304":
        receiver = func.bound
        if any(_lasts(value) for value in (args.values() if receiver is None else [receiver])):
            f.m.hide(f.module.path, getattr(node, "lineno", 1), "RLV205")
            f.emit(node, cause)
        elif receiver is None or (isinstance(receiver, Inst) and receiver.scope == "any"):
            f.outward.setdefault(cause.code, cause)
    elif cause.code == "RLV205":
        if func.lasts:
            f.emit(node, cause)
    elif cause.code == "RLV306" and f.mode == STEP:
        if f.step is not None and f.decl is f.step.decl:
            f.m.report(f, node, cause)
        else:
            f.outward.setdefault(cause.code, cause)
