"""Interpreting imports and definitions of functions and classes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.arguments import Args, eval_args
from rulvar_lint.core.calls import call_value
from rulvar_lint.core.decls import ClassDecl, Field, FunctionDecl
from rulvar_lint.core.frame import FALLS, HOST, REGION, Frame
from rulvar_lint.core.freevars import bound_by, free_names_of
from rulvar_lint.core.lasting import outlive
from rulvar_lint.core.nodes import statements
from rulvar_lint.core.statements import exec_block
from rulvar_lint.core.values import (
    Class,
    Container,
    Ext,
    Func,
    Inst,
    LazyImport,
    Obj,
    Partial,
    Value,
    options_of,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionNode, Module
    from rulvar_lint.core.machine import Machine


def exec_import(f: Frame, node: ast.Import) -> int:
    for alias in node.names:
        top = alias.name if alias.asname else alias.name.partition(".")[0]
        f.env[alias.asname or top] = _imported(f, top, None)
    return FALLS


def exec_importfrom(f: Frame, node: ast.ImportFrom) -> int:
    name = f.m.absolute(f.module, node.module or "", node.level)
    for alias in node.names:
        if alias.name == "*":
            if name not in f.module.stars:
                f.module.stars.append(name)
        else:
            f.env[alias.asname or alias.name] = _imported(f, name, alias.name)
    return FALLS


def typing_imports(m: Machine, module: Module, body: list[ast.stmt]) -> None:
    """Names that only annotations use."""
    for node in body:
        if isinstance(node, ast.ImportFrom):
            name = m.absolute(module, node.module or "", node.level)
            for alias in node.names:
                module.typing[alias.asname or alias.name] = LazyImport(name, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name if alias.asname else alias.name.partition(".")[0]
                module.typing[alias.asname or top] = LazyImport(top, None)


def _imported(f: Frame, name: str, attr: str | None) -> Value | None:
    if f.is_module():
        return LazyImport(name, attr)
    return f.m.resolve_import(f.module, name, attr)


def late_globals(m: Machine, module: Module) -> None:
    """Values that functions give to global names, such as a client that is built on first use."""
    for fn in statements(module.tree.body):
        if not isinstance(fn, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        body = list(statements(fn.body))
        names = {name for node in body if isinstance(node, ast.Global) for name in node.names}
        for node in body if names else ():
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id in names:
                        frame = m.new_frame(module, None, HOST, {}, m.host_frame(module))
                        value = frame.ev[node.value.__class__](frame, node.value)
                        if isinstance(value, Obj):
                            value = Obj(value.type)
                        if value is not None and value.taint is None:
                            module.env[target.id] = join(module.env.get(target.id), value)


# Functions


def declare(f: Frame, node: FunctionNode, cls: ClassDecl | None) -> FunctionDecl:
    """The declaration of a function node; the same one each time it is asked for."""
    decl = f.module.decls.get(node)
    if decl is None:
        decl = FunctionDecl(node, f.module, cls, f.decl)
        f.module.decls[node] = decl
    return decl


def _defaults(f: Frame, decl: FunctionDecl) -> None:
    for param in decl.params:
        if param.default is not None:
            value = f.ev[param.default.__class__](f, param.default)
            if isinstance(value, Container) and f.mode == HOST:
                value.scope = "default"
            decl.defaults[param.name] = outlive(value) if value.__class__ is Obj and f.mode == HOST else value


def closure(f: Frame, node: ast.Lambda) -> Func:
    """The value of a lambda."""
    decl = declare(f, node, None)
    _defaults(f, decl)
    return _make_closure(f, decl)


def _make_closure(f: Frame, decl: FunctionDecl) -> Func:
    if f.is_module():
        func = Func(decl)
    else:
        func = Func(decl, f, dict(f.env) if f.loops else f.env)
        if f.loops:
            func.late = _late_names(f, decl)
    if f.mode == REGION:
        f.closures.append(func)
    return func


def _late_names(f: Frame, decl: FunctionDecl) -> tuple[tuple[ast.AST, str], ...]:
    """(loop, name) for the variables of enclosing loops that the function reads when it runs."""
    names = free_names_of(decl)
    return tuple((loop.node, name) for loop in f.loops for name in names if name in bound_by(loop))


def exec_functiondef(f: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    decl = declare(f, node, None)
    f.env[node.name] = define(f, node, decl)
    return FALLS


def define(f: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef, decl: FunctionDecl) -> Value | None:
    """The value that a `def` binds, decorators applied."""
    heads: list[tuple[ast.expr, Value | None, Value | None]] = []
    for expr in node.decorator_list:
        if isinstance(expr, ast.Attribute) and expr.attr in ("setter", "deleter", "getter"):
            known = f.env.get(node.name)
            if expr.attr == "setter" and isinstance(known, Func):
                known.decl.setter = _make_closure(f, decl)
            return known
        heads.append((expr, *_decorator(f, expr)))
    _defaults(f, decl)
    decl.decorators = [(expr, head) for expr, head, _ in heads]
    func = _make_closure(f, decl)
    if f.mode == HOST:
        f.module.functions.append(func)
    value: Value | None = func
    for expr, head, applied in reversed(heads):
        _add_variant(f, expr, func)
        value = _decorate(f, expr, head, applied, func, value)
    return value


def _add_variant(f: Frame, expr: ast.expr, func: Func) -> None:
    """`@show.register`: a call of `show` may run this function as well."""
    target = expr.func if isinstance(expr, ast.Call) else expr
    if isinstance(target, ast.Attribute) and target.attr == "register" and isinstance(target.value, ast.Name):
        known = f.env.get(target.value.id)
        heads = [
            head
            for option in options_of(known)
            if isinstance(option, Func)
            for _, head in option.decl.decorators
        ]
        if any(isinstance(head, Ext) and head.path.startswith("functools.singledispatch") for head in heads):
            f.env[target.value.id] = join(known, func)


def _decorator(f: Frame, expr: ast.expr) -> tuple[Value | None, Value | None]:
    """(the decorator's name, the decorator to apply): for `@retry(3)` what `retry` is and what the
    call gives.
    """
    if isinstance(expr, ast.Call):
        head = f.ev[expr.func.__class__](f, expr.func)
        args = eval_args(f, expr)
        return head, call_value(f, expr, head, args) if head is not None else None
    value = f.ev[expr.__class__](f, expr)
    return value, value


_FLAGS: Final = {
    "builtins.property": "property",
    "functools.cached_property": "property",
    "builtins.staticmethod": "staticmethod",
    "builtins.classmethod": "classmethod",
    "contextlib.contextmanager": "contextmanager",
    "contextlib.asynccontextmanager": "contextmanager",
    "rulvar.tool": "tool",
    "pytest.fixture": "fixture",
    "pytest_asyncio.fixture": "fixture",
    "typing.overload": "overload",
}


def _decorate(
    f: Frame,
    expr: ast.expr,
    head: Value | None,
    applied: Value | None,
    func: Func,
    value: Value | None,
) -> Value | None:
    decl = func.decl
    if isinstance(head, Ext):
        flag = _FLAGS.get(head.path)
        if flag is not None:
            decl.flags.add(flag)
            if flag == "tool":
                f.m.exempt(f, expr, func, "tool")
            # What a decorator gave may serve other functions as well, so it carries no flag.
            return value if flag != "property" or value is func else Partial(head, [value], {})
        if head.path.startswith("rulvar."):
            f.m.register(f, expr, head.path, func, value)
        return value
    if isinstance(applied, (Func, Class, Partial, Inst)):
        made = call_value(f, expr, applied, Args([value], {}))
        if isinstance(made, (Func, Inst, Partial, Class)) and made is not value:
            decl.wrapped = (expr, made)
            return made
    elif isinstance(applied, Ext) and applied.path.startswith("rulvar."):
        f.m.register(f, expr, applied.path, func, value)
    return value


# Classes


def exec_classdef(f: Frame, node: ast.ClassDef) -> int:
    decl = ClassDecl(node, f.module)
    decl.is_local = f.mode != HOST
    f.module.classes.append(decl)
    for base in node.bases:
        origin = base.value if isinstance(base, ast.Subscript) else base  # `Base[int]` is a `Base`
        decl.bases.append(f.ev[origin.__class__](f, origin))
    for keyword in node.keywords:
        f.ev[keyword.value.__class__](f, keyword.value)
    for expr in node.decorator_list:
        decl.decorators.append(_decorator(f, expr)[0])
    outer, f.env = f.env, _ClassScope(f.env)
    try:
        _class_body(f, node, decl)
    finally:
        body, f.env = f.env, outer
    decl.attrs = {name: value for name, value in dict.items(body) if name in body.own}
    f.env[node.name] = Class(decl)
    f.m.machine_class(f, decl)
    return FALLS


class _ClassScope(dict[str, "Value | None"]):
    """Variables of a class body: those outside are visible, its own are remembered."""

    __slots__ = ("own",)

    def __init__(self, outer: dict[str, Value | None]) -> None:
        super().__init__(outer)
        self.own: set[str] = set()

    def __setitem__(self, name: str, value: Value | None) -> None:
        self.own.add(name)
        super().__setitem__(name, value)

    def copy(self) -> _ClassScope:
        made = _ClassScope(self)
        made.own = set(self.own)
        return made


def _class_body(f: Frame, node: ast.ClassDef, decl: ClassDecl) -> None:
    for stmt in node.body:
        if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)):
            method = declare(f, stmt, decl)
            method.cls = decl
            f.env[stmt.name] = define(f, stmt, method)
            _default_of_field(stmt, decl, f.env[stmt.name])
        elif isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name):
            _field(f, stmt, decl)
        else:
            exec_block(f, [stmt])
    for name in getattr(f.env, "own", ()) if f.mode == HOST else ():
        if name in f.env:  # a variable of a comprehension is gone
            dict.__setitem__(f.env, name, outlive(f.env[name]))


def _default_of_field(
    node: ast.FunctionDef | ast.AsyncFunctionDef, decl: ClassDecl, value: Value | None
) -> None:
    """`@name.default` of attrs: the method makes the value of a field that is not given."""
    for expr in node.decorator_list:
        if isinstance(expr, ast.Attribute) and expr.attr == "default" and isinstance(expr.value, ast.Name):
            field = decl.fields.get(expr.value.id)
            if field is not None and field.factory is None:
                field.factory = value


_FIELD_MAKERS: Final = names("""dataclasses.field pydantic.Field pydantic.fields.Field
pydantic.PrivateAttr sqlmodel.Field msgspec.field attr.ib attr.field attr.attrib attrs.field
attr.Factory attrs.Factory""")


def _field(f: Frame, stmt: ast.AnnAssign, decl: ClassDecl) -> None:
    name = stmt.target.id  # type: ignore[union-attr]
    factory: Value | None = None
    value: Value | None = None
    if stmt.value is not None:
        factory, is_maker = _factory(f, stmt.value)
        if not is_maker:
            value = f.ev[stmt.value.__class__](f, stmt.value)
            f.env[name] = value
    else:
        factory = _annotated_factory(f, stmt.annotation)
    decl.fields[name] = Field(stmt, value, factory, _aliases(stmt.value))


def _annotated_factory(f: Frame, annotation: ast.expr) -> Value | None:
    """The factory in `Annotated[type, Field(default_factory=...)]`."""
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return None
    head = annotation.value
    if (head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "")) != "Annotated":
        return None
    found = (_factory(f, expr)[0] for expr in annotation.slice.elts[1:])
    return next((factory for factory in found if factory is not None), None)


def _aliases(expr: ast.expr | None) -> tuple[str, ...]:
    """The names in `Field(alias="...")` and the like."""
    return tuple(
        keyword.value.value
        for keyword in (expr.keywords if isinstance(expr, ast.Call) else ())
        if keyword.arg in ("alias", "validation_alias")
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    )


def _factory(f: Frame, expr: ast.expr) -> tuple[Value | None, bool]:
    if not isinstance(expr, ast.Call):
        return None, False
    head = f.ev[expr.func.__class__](f, expr.func)
    if not (isinstance(head, Ext) and head.path in _FIELD_MAKERS):
        return None, False
    args = eval_args(f, expr)
    factory = args.kw.get("default_factory") or args.kw.get("factory")
    if head.path.endswith("Factory") and args.pos:
        factory = args.pos[0]
    default = next((k.value for k in expr.keywords if k.arg == "default"), None)
    if factory is None and isinstance(default, ast.Call):
        factory = _factory(f, default)[0]
    return factory, True


def exec_type_alias(f: Frame, node: ast.AST) -> int:
    name = getattr(node, "name", None)
    if isinstance(name, ast.Name):
        f.env[name.id] = None
    return FALLS


STATEMENTS: Final[dict[type, Callable[[Frame, Any], int]]] = {
    ast.Import: exec_import,
    ast.ImportFrom: exec_importfrom,
    ast.FunctionDef: exec_functiondef,
    ast.AsyncFunctionDef: exec_functiondef,
    ast.ClassDef: exec_classdef,
    **{getattr(ast, name): exec_type_alias for name in ("TypeAlias",) if hasattr(ast, name)},
}
