"""Attributes, classes and instances of the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.calls import call_external, call_function, call_value
from rulvar_lint.core.copies import deep_copied
from rulvar_lint.core.decls import ClassDecl, Field
from rulvar_lint.core.frame import HOST, STEP
from rulvar_lint.core.instances import COPIED, COPIERS, MADE, MAKERS, copies_defaults
from rulvar_lint.core.libraries.catalog import canonical
from rulvar_lint.core.lineage import external_bases, order_of_classes
from rulvar_lint.core.nodes import mentions
from rulvar_lint.core.values import (
    Bound,
    Class,
    Const,
    Coro,
    Ctx,
    CtxMember,
    Dict,
    Ext,
    Func,
    Inst,
    ModuleRef,
    Obj,
    Partial,
    Seq,
    Set,
    Super,
    Union,
    Unknown,
    Value,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

CTX_MEMBERS: Final = names("""agent parallel pipeline step workflow await_external phase log
brief now time random uuid budget orchestrate""")
DATACLASSES: Final = names("""dataclasses.dataclass pydantic.dataclasses.dataclass attr.s attr.attrs
    attr.dataclass attr.define attr.frozen attr.mutable attrs.define attrs.frozen
    attrs.mutable attr.attrib""")
MODELS: Final = names("""pydantic.BaseModel pydantic.main.BaseModel pydantic.RootModel
    pydantic_settings.BaseSettings pydantic.BaseSettings sqlmodel.SQLModel
    msgspec.Struct typing.NamedTuple typing_extensions.NamedTuple typing.TypedDict
    typing_extensions.TypedDict""")

_PROPERTIES: Final = names("builtins.property functools.cached_property")
_VALIDATORS: Final = names("""pydantic.field_validator pydantic.model_validator pydantic.validator
    pydantic.root_validator pydantic.functional_validators.field_validator""")


def attribute(f: Frame, node: ast.AST, base: Value, name: str) -> Value | None:
    """`base.name`."""
    cls = base.__class__
    if cls is Ctx:
        return CtxMember(name) if name in CTX_MEMBERS else None
    if cls is Seq or cls is Dict or cls is Set:
        return Bound(base, name)
    if cls is Ext:
        return _external_attribute(f, node, f"{base.path}.{name}", base)  # type: ignore[attr-defined, arg-type]
    if cls is Obj:
        return _external_attribute(f, node, f"{base.type}.{name}", base)  # type: ignore[attr-defined, arg-type]
    if cls is Inst:
        return instance_attribute(f, node, base, name)  # type: ignore[arg-type]
    if isinstance(base, Class):
        return class_attribute(f, node, base, name)
    if isinstance(base, ModuleRef):
        return f.m.module_attribute(f, node, base, name)
    if isinstance(base, Union):
        found: Value | None = None
        for option in base.options:
            found = join(found, attribute(f, node, option, name))
        return found
    if isinstance(base, Const):
        return Ext(f"builtins.str.{name}") if isinstance(base.value, str) else None
    if isinstance(base, Super):
        return _super_attribute(f, node, base, name)
    if isinstance(base, Func):
        for hook in f.m.hooks.function_attribute:
            hook(f, node, base, name)
        return None
    return base if isinstance(base, Unknown) else None


def _external_attribute(f: Frame, node: ast.AST, path: str, base: Ext | Obj) -> Value | None:
    path = canonical(path)
    catalog = f.m.catalog
    kind = catalog.member(path)
    if kind is not None:
        return Obj(kind, base.taint)
    ext = Ext(path, base if isinstance(base, Obj) else base.receiver)
    ext.taint = base.taint
    entry = catalog.read(path)
    if entry is not None and f.mode != STEP:
        ext.taint = frozenset((f.effect(node, entry.code, f"`{path}` {entry.does}"),))
    return ext


def find_attribute(
    decl: ClassDecl, name: str, after: ClassDecl | None = None
) -> tuple[ClassDecl, Value | None] | None:
    """The class attribute `name` and the class that has it; after `after` in look-up order if
    given.
    """
    classes = order_of_classes(decl)
    if after is not None and after in classes:
        classes = classes[classes.index(after) + 1 :]
    for cls in classes:
        if name in cls.attrs:
            return cls, cls.attrs[name]
    return None


def instance_attribute(f: Frame, node: ast.AST, inst: Inst, name: str) -> Value | None:
    """`inst.name`: the instance's own, then its classes', then what unresolved bases may have."""
    own = name in inst.attrs
    if own:
        for hook in f.m.hooks.instance_read:
            hook(f, node, inst, name)
        if inst.attrs[name] is not None:
            return inst.attrs[name]
    found = None if own else find_attribute(inst.decl, name)
    if found is not None:
        owner, value = found
        if isinstance(value, Func):
            return _method(f, node, inst, value)
        if isinstance(value, Partial) and isinstance(value.func, Ext) and value.func.path in _PROPERTIES:
            return result_of(call_value(f, node, value.args[0], Args([inst], {})))
        for hook in f.m.hooks.class_read:
            hook(f, node, owner, name, value, inst)
        if isinstance(value, Inst) and find_attribute(value.decl, "__get__") is not None:
            return call_special(f, node, value, "__get__", [inst, Class(inst.decl)])
        return value
    for cls in order_of_classes(inst.decl):
        field = cls.fields.get(name)
        if field is not None:
            return f.m.from_annotation(cls.module, field.annotation)
    if own:
        return None
    if find_attribute(inst.decl, "__getattr__") is not None:
        return call_special(f, node, inst, "__getattr__", [Const(name)])
    if name in COPIERS:
        return Partial(COPIED, [inst], {})
    for base in external_bases(inst.decl):
        if f.m.catalog.effects(f"{base}.{name}") or f.m.catalog.is_type(base):
            return Ext(f"{base}.{name}", Obj(base))
    for hook in f.m.hooks.instance_read:
        hook(f, node, inst, name)
    return None


def _method(f: Frame, node: ast.AST, inst: Inst, value: Func) -> Value | None:
    flags = value.decl.flags
    if "property" in flags:
        return result_of(call_function(f, node, value.bind(inst), Args([], {})))
    if "staticmethod" in flags or value.bound is not None:
        return value
    return value.bind(Class(inst.decl)) if "classmethod" in flags else value.bind(inst)


def class_attribute(f: Frame, node: ast.AST, base: Class, name: str) -> Value | None:
    """`Class.name`."""
    found = find_attribute(base.decl, name)
    if found is None:
        for path in external_bases(base.decl):
            if f.m.catalog.effects(f"{path}.{name}"):
                return Ext(f"{path}.{name}")
        return Partial(MADE, [base], {}) if name in MAKERS else None
    owner, value = found
    if isinstance(value, Func):
        return value.bind(base) if "classmethod" in value.decl.flags else value
    for hook in f.m.hooks.class_read:
        hook(f, node, owner, name, value, base)
    return Inst(base.decl) if _is_member(base.decl, name) else value


def class_item(base: Class) -> Value:
    """`Class[...]`: a member of an enumeration, else the class for one of its type parameters."""
    return Inst(base.decl) if _is_enumeration(base.decl) else base


def may_be_false(inst: Inst) -> bool:
    """Whether an instance may count as false in a test."""
    return bool(external_bases(inst.decl)) or any(
        find_attribute(inst.decl, name) is not None for name in ("__bool__", "__len__")
    )


def _is_member(decl: ClassDecl, name: str) -> bool:
    """Whether `Class.name` is a member of an enumeration that has methods of its own."""
    return (
        name[0] != "_"
        and any(isinstance(value, Func) for cls in order_of_classes(decl) for value in cls.attrs.values())
        and _is_enumeration(decl)
    )


def _is_enumeration(decl: ClassDecl) -> bool:
    return any(base.startswith("enum.") for base in external_bases(decl))


def _super_attribute(f: Frame, node: ast.AST, base: Super, name: str) -> Value | None:
    bound = base.bound
    decl = bound.decl if isinstance(bound, (Inst, Class)) else base.decl
    found = find_attribute(decl, name, base.decl)
    if found is not None and isinstance(found[1], Func):
        return found[1].bind(bound)
    for path in external_bases(base.decl):
        if f.m.catalog.effects(f"{path}.{name}"):
            return Ext(f"{path}.{name}", Obj(path))
    return None


def call_special(
    f: Frame, node: ast.AST, inst: Value | None, name: str, args: list[Value | None] | Args
) -> Value | None:
    """Call a special method of an instance, if its class has one. A coroutine is awaited."""
    if not isinstance(inst, Inst):
        return None
    given = args if isinstance(args, Args) else Args(list(args), {})
    found = find_attribute(inst.decl, name)
    if found is not None and isinstance(found[1], Func):
        value = call_function(f, node, found[1].bind(inst), given)
        return value if name == "__call__" else result_of(value)
    for base in external_bases(inst.decl):
        if f.m.catalog.effects(f"{base}.{name}"):
            return call_external(f, node, Ext(f"{base}.{name}"), given)
    return None


def result_of(value: Value | None) -> Value | None:
    """What awaiting a value gives."""
    if isinstance(value, Coro):
        value.used = True
        return value.result
    return value


def is_data_class(decl: ClassDecl) -> bool:
    """Whether instances are made from the annotated fields."""
    for cls in order_of_classes(decl):
        if any(isinstance(d, Ext) and d.path in DATACLASSES for d in cls.decorators):
            return True
    return any(base in MODELS for base in external_bases(decl))


def construct(f: Frame, node: ast.AST, decl: ClassDecl, args: Args) -> Value | None:
    """Make an instance of a project class."""
    inst = Inst(decl, "module" if f.is_module() else "local", f.step, f.m.tick)
    init = find_attribute(decl, "__init__")
    if init is not None and isinstance(init[1], Func):
        call_function(f, node, init[1].bind(inst), args)
    elif is_data_class(decl):
        _fill_fields(f, node, inst, args)
    new = find_attribute(decl, "__new__")
    if new is not None and isinstance(new[1], Func):
        call_function(f, node, new[1].bind(Class(decl)), args)
    for base in external_bases(decl):
        if f.m.catalog.effects(base):
            call_external(f, node, Ext(base), args)
    if init is None:
        _validate(f, node, inst)
    for name in ("__post_init__", "__attrs_post_init__", "model_post_init"):
        post = find_attribute(decl, name)
        if post is not None:
            call_special(f, node, inst, name, [])
    return inst


def _validate(f: Frame, node: ast.AST, inst: Inst) -> None:
    """The validators of a model run when it is made."""
    for cls in order_of_classes(inst.decl):
        for value in cls.attrs.values():
            heads = value.decl.decorators if isinstance(value, Func) else ()
            if any(isinstance(head, Ext) and head.path in _VALIDATORS for _, head in heads):
                assert isinstance(value, Func)
                call_function(f, node, value.bind(inst), Args([], {}))


def fields_of(decl: ClassDecl) -> dict[str, object]:
    """The fields of a data class, inherited ones first."""
    found: dict[str, object] = {}
    for cls in reversed(order_of_classes(decl)):
        found.update(cls.fields)
    return found


_EMPTY: Final = frozenset({"builtins.list", "builtins.dict", "builtins.set"})


def _fill_fields(f: Frame, node: ast.AST, inst: Inst, args: Args) -> None:
    given: dict[str, Value | None] = dict(args.kw)
    fields = fields_of(inst.decl)
    names = [name for name, field in fields.items() if _is_field(field)]
    for name in names if given else ():
        for alias in getattr(fields[name], "aliases", ()):
            if alias in given:
                given.setdefault(name, given[alias])
    for name, value in zip(names, args.pos, strict=False):
        given[name] = value
    for name in names:
        if name in given:
            inst.attrs[name] = given[name]
        factory = getattr(fields[name], "factory", None)
        if name not in given and (f.mode == HOST or getattr(factory, "path", "") in _EMPTY):
            inst.attrs[name] = call_value(f, node, factory, Args([], {})) if factory is not None else None
        elif name not in given and copies_defaults(external_bases(inst.decl), fields[name]):
            inst.attrs[name] = deep_copied(f, fields[name].default)  # type: ignore[attr-defined]
    if args.rest is not None or any(value.__class__.__name__ == "Star" for value in args.pos):
        return
    for hook in f.m.hooks.construct:
        hook(f, node, inst, given)


def _is_field(field: object) -> bool:
    if isinstance(field, Field) and field.is_given is None:
        field.is_given = not mentions(field.annotation, "ClassVar")
    return not isinstance(field, Field) or bool(field.is_given)


def store_attribute(
    f: Frame, node: ast.AST, target: ast.expr | None, base: Value, name: str, value: Value | None
) -> None:
    """`base.name = value`."""
    for hook in f.m.hooks.store:
        hook(f, node, target, base, name, value)
    for option in base.options if isinstance(base, Union) else (base,):
        if isinstance(option, Inst):
            if _set_by_class(f, node, option, name, value):
                continue
            if name in option.attrs and (f.decl is None or f.decl.name != "__init__"):
                option.attrs[name] = join(option.attrs[name], value)
            else:
                option.attrs[name] = value
        elif isinstance(option, Class) and f.mode == HOST:
            option.decl.attrs[name] = join(option.decl.attrs.get(name), value)


def _set_by_class(f: Frame, node: ast.AST, inst: Inst, name: str, value: Value | None) -> bool:
    """Whether a property, a descriptor or `__setattr__` takes the value."""
    found = find_attribute(inst.decl, name)
    if found is not None and isinstance(found[1], Func) and found[1].decl.setter is not None:
        call_function(f, node, found[1].decl.setter.bind(inst), Args([value], {}))
        return True
    descriptor = found[1] if found is not None else None
    if isinstance(descriptor, Inst) and find_attribute(descriptor.decl, "__set__") is not None:
        call_special(f, node, descriptor, "__set__", [inst, value])
        return True
    if find_attribute(inst.decl, "__setattr__") is not None and f.mode != HOST:
        call_special(f, node, inst, "__setattr__", [Const(name), value])
    return False


def call_key(f: Frame, node: ast.AST, func: Value | None, args: list[Value | None]) -> Value | None:
    """Call a function that another one was given as `key=` or `default=`."""
    return call_value(f, node, func, Args(list(args), {})) if func is not None else None


def store_target(
    f: Frame, node: ast.AST, target: ast.Attribute, base: Value | None, value: Value | None
) -> None:
    """`base.attr = value`."""
    if base is None:
        for hook in f.m.hooks.store:
            hook(f, node, target, base, target.attr, value)
    else:
        store_attribute(f, node, target, base, target.attr, value)
