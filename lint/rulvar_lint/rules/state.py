"""RLV203-RLV205: values captured at import, impure default factories, and state that outlives a
run.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core import hints, usage
from rulvar_lint.core.ancestry import ancestors
from rulvar_lint.core.classes import fields_of, is_data_class
from rulvar_lint.core.decls import Field
from rulvar_lint.core.effects import Cause, in_order
from rulvar_lint.core.frame import HOST, PLAIN, REGION, STEP
from rulvar_lint.core.lasting import changed_inside
from rulvar_lint.core.lineage import external_bases
from rulvar_lint.core.values import (
    Class,
    Container,
    Ctx,
    Dict,
    Ext,
    Func,
    Inst,
    Obj,
    Partial,
    Seq,
    Value,
    options_of,
)
from rulvar_lint.core.words import names
from rulvar_lint.rules.shims import shim_of

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.decls import ClassDecl, Module
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks

_MAX_DEPTH: Final = 3
_CAPTURED: Final = names("RLV101 RLV102 RLV103 RLV107 RLV108 RLV203")
_CACHES: Final = names("""functools.cache functools.lru_cache functools.cached_property
cachetools.cached cachetools.func.ttl_cache cachetools.func.lru_cache async_lru.alru_cache
aiocache.cached aiocache.cached_stampede asyncache.cached joblib.Memory diskcache.Cache.memoize
cached_property.cached_property methodtools.lru_cache""")

_NUMPY: Final = names("""random integers choice bytes shuffle permutation permuted normal uniform
exponential poisson binomial beta gamma standard_normal rand randn randint random_sample""")
_DRAWS: Final = {
    "random.Random": names("""random uniform randint randrange choice choices sample shuffle gauss
    normalvariate lognormvariate expovariate betavariate gammavariate triangular vonmisesvariate
    paretovariate weibullvariate binomialvariate getrandbits randbytes seed setstate"""),
    "numpy.random.Generator": _NUMPY,
    "numpy.random.RandomState": _NUMPY,
}


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.global_read.append(_global)
    hooks.class_read.append(_class_attribute)
    hooks.closure_read.append(_closure_variable)
    hooks.instance_read.append(_instance_attribute)
    hooks.function_attribute.append(_function_attribute)
    hooks.construct.append(_factories)
    hooks.store.append(_store)
    hooks.store_item.append(_store_item)
    hooks.store_name.append(_store_name)
    hooks.mutation.append(_mutation)
    hooks.on_call(
        "contextvars.ContextVar.get contextvars.ContextVar.set contextvars.ContextVar.reset",
        _context_variable,
    )
    for kind, draws in _DRAWS.items():
        hooks.on_call(" ".join(f"{kind}.{name}" for name in draws), _draw)
    hooks.region_end.append(_defaults)
    hooks.region_end.append(_caches)


# RLV203


def captured(value: Value | None, depth: int = 0) -> Cause | None:
    """The unstable read that a value computed at import came from."""
    taint = value.taint if value is not None else None
    if taint is None and value.__class__ is Partial:
        for given in (*value.args, *value.keywords.values()):
            taint = taint or (given.taint if given is not None else None)
    if taint is None and isinstance(value, Container):
        inner = value.items or () if isinstance(value, Seq) else getattr(value, "entries", {}).values()
        for item in (*inner, value.elem):
            if item is not None and item.taint is not None:
                taint = item.taint
            elif isinstance(item, Container) and depth < _MAX_DEPTH:
                found = captured(item, depth + 1)
                if found is not None:
                    return found
    if taint is None and isinstance(value, Inst) and value.scope == "module":
        for item in value.attrs.values():
            if item is not None and item.taint is not None and not isinstance(item, Inst):
                return None
    return next((cause for cause in in_order(taint) if cause.code in _CAPTURED), None)


def _picked(f: Frame, node: ast.AST, value: Value | None) -> Value | None:
    """The entry of a container that a read takes, as in `CONFIG["words"]`; None if it takes none."""
    chain = ancestors(f.decl.node if f.decl is not None else f.module.tree, node)
    for child, parent, above in zip(chain, chain[1:], chain[2:], strict=False):
        key: ast.AST | None = None
        if isinstance(parent, ast.Subscript) and parent.value is child:
            key = parent.slice
        elif isinstance(parent, ast.Attribute) and parent.attr == "get" and isinstance(above, ast.Call):
            key = above.args[0] if above.func is parent and above.args else None
        elif isinstance(parent, ast.Compare) and all(
            isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops
        ):
            return value if child is parent.left else None
        elif isinstance(parent, ast.Call) and parent.func is child:
            continue
        entries: dict[object, Value | None] = {}
        if isinstance(value, Dict):
            entries = value.entries
        elif isinstance(value, Seq):
            entries = dict(enumerate(value.items or ()))
        if not isinstance(key, ast.Constant) or key.value not in entries:
            break
        value = entries[key.value]
    return value


def _capture(f: Frame, node: ast.AST, name: str, cause: Cause) -> None:
    f.emit(node, Cause("RLV203", f"`{name}` was computed at import: {cause.what}", cause.place))


def _global(f: Frame, node: ast.AST, module: Module, name: str, value: Value | None) -> None:
    cause = captured(value)
    if isinstance(value, Ext):
        if cause is not None and not value.path.startswith("os.environ"):
            _capture(f, node, name, cause)
        return
    if cause is not None and isinstance(value, Container):
        cause = captured(_picked(f, node, value))
    if cause is not None:
        _capture(f, node, name, cause)
    if isinstance(value, Inst) and _is_settings(value):
        origin = Cause("RLV108", f"`{value.decl.name}` reads the environment", f.place(node))
        _capture(f, node, name, origin)
    if usage.is_mutated(f.m, module, name, value):
        f.effect(node, "RLV205", f"`{name}` is module state that other code changes")


def _is_settings(inst: Inst) -> bool:

    return inst.scope == "module" and any(
        base.endswith(".BaseSettings") for base in external_bases(inst.decl)
    )


def _class_attribute(
    f: Frame, node: ast.AST, owner: ClassDecl, name: str, value: Value | None, base: Value
) -> None:
    if f.mode not in (REGION, PLAIN) or owner.is_local:
        return
    cause = captured(value)
    if cause is not None and isinstance(value, Container):
        cause = captured(_picked(f, node, value))
    is_field = name in owner.fields and isinstance(base, Inst) and is_data_class(owner)
    if cause is not None and not is_field:  # a field's default is judged where it is taken
        _capture(f, node, f"{owner.name}.{name}", cause)
    if usage.class_attribute_mutated(f.m, owner, name, value):
        f.effect(node, "RLV205", f"`{owner.name}.{name}` is class state that other code changes")


def _defaults(f: Frame) -> None:
    """Defaults of replayed functions that were computed at import."""
    decl = f.decl
    if decl is None or (f.outer is not None and f.outer.mode == REGION):
        return
    for param in decl.params if decl.defaults else ():
        cause = captured(decl.defaults.get(param.name))
        if cause is not None and param.default is not None:
            what = f"the default of `{param.name}` was computed at import: {cause.what}"
            f.m.report(f, param.default, Cause("RLV203", what, cause.place))


# RLV204


def _factories(f: Frame, node: ast.AST, inst: Inst, given: dict[str, Value | None]) -> None:
    causes: list[Cause] = []
    missing: list[str | None] = []
    for name, field in fields_of(inst.decl).items():
        if name in given or not isinstance(field, Field):
            continue
        if field.factory is not None:
            for cause in f.m.effects_of(f, node, field.factory).values():
                what = f"`{inst.decl.name}.{name}` is filled by its default factory: {cause.what}"
                causes.append(Cause("RLV204", what, cause.place, cause.chain))
                value = shim_of(f, field.factory)
                missing.append(f"{name}={value}" if value is not None else None)
                break
        elif field.default is not None and f.mode in (REGION, PLAIN) and not inst.decl.is_local:
            origin = captured(field.default)
            if origin is not None:
                _capture(f, node, f"{inst.decl.name}.{name}", origin)
    if causes:
        f.emit(node, causes[0], fix=_pass_fields(f, node, inst, missing))


def _pass_fields(f: Frame, node: ast.AST, inst: Inst, missing: list[str | None]) -> Plan | None:
    """Fields are passed where the class itself is called, not where `map` or a class method does so."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    callees = options_of(f.ev[node.func.__class__](f, node.func))
    if not any(isinstance(callee, Class) and callee.decl is inst.decl for callee in callees):
        return None
    texts = [text for text in missing if text is not None]
    if len(texts) != len(missing):
        return None
    return ("unsafe", "Pass the fields", [(node, ", ".join(texts))], "argument")


# RLV205


def _shared_write(f: Frame, node: ast.AST, what: str) -> None:
    f.effect(node, "RLV205", what)


def _instance_attribute(f: Frame, node: ast.AST, inst: Inst, name: str) -> None:
    if f.mode not in (REGION, PLAIN) or inst.scope != "module":
        return
    if usage.attribute_mutated(f.m, inst.decl, name):
        f.effect(
            node,
            "RLV205",
            f"`{name}` of a module-level `{inst.decl.name}` is changed while workflows run",
        )
        return
    cause = captured(inst.attrs.get(name))
    if cause is not None:
        _capture(f, node, f"{inst.decl.name}.{name}", cause)


def _function_attribute(f: Frame, node: ast.AST, func: Func, name: str) -> None:
    if f.mode in (REGION, PLAIN) and usage.is_attribute_assigned(f.m, func.decl.module, func.decl.name, name):
        f.effect(
            node,
            "RLV205",
            f"`{func.decl.name}.{name}` is an attribute of a function and outlives the run",
        )


def _closure_variable(f: Frame, node: ast.AST, owner: Frame, name: str, value: Value | None) -> None:
    """A variable of the host function that made this one: it lasts as long as the function does."""
    if owner.decl is None or owner.module.is_test:
        return
    changed, rebound = changed_inside(owner.decl)
    if isinstance(value, Container) and name in changed and value.scope == "local":
        value.scope = "module"
    if name in rebound or (isinstance(value, Container) and value.scope == "module"):
        f.effect(node, "RLV205", f"`{name}` of `{owner.decl.qualname}` outlives the run, and runs change it")


def _holds_ctx(value: Value | None) -> bool:
    return any(isinstance(option, Ctx) for option in options_of(value))


def _store(
    f: Frame,
    node: ast.AST,
    target: ast.AST | None,
    base: Value | None,
    name: str,
    value: Value | None,
) -> None:
    if f.mode not in (REGION, PLAIN) or _holds_ctx(value):
        return
    for option in options_of(base):
        if isinstance(option, Inst) and option.scope == "module":
            if f.decl is None or f.decl.name not in usage.CONSTRUCTORS:
                _shared_write(f, node, f"`{name}` of a module-level `{option.decl.name}` is written")
        elif isinstance(option, Obj) and option.type == "threading.local":
            _shared_write(f, node, f"`{name}` of a thread's state is written")
        elif isinstance(option, Class) and not option.decl.is_local:
            _shared_write(f, node, f"`{option.decl.name}.{name}` is class state and outlives the run")
        elif isinstance(option, Func) and option.frame is None:
            _shared_write(
                f,
                node,
                f"`{option.decl.name}.{name}` is an attribute of a function and outlives the run",
            )
        elif option.__class__.__name__ == "ModuleRef":
            _shared_write(f, node, f"`{name}` is module state and outlives the run")


def _shared(value: Value | None) -> bool:
    return any(
        isinstance(option, Container) and option.scope in ("module", "default")
        for option in options_of(value)
    )


def _store_item(f: Frame, node: ast.AST, target: ast.AST, base: Value | None, value: Value | None) -> None:
    if f.mode in (REGION, PLAIN) and not _holds_ctx(value):
        if _shared(base):
            _shared_write(f, node, f"`{f.segment(target)}` writes to state that outlives the run")
        elif isinstance(base, Ext) and base.path == "os.environ":
            f.effect(node, "RLV108", "the environment is changed")


def _store_name(f: Frame, node: ast.AST, name: str, kind: str, value: Value | None) -> None:
    if kind == "global" and f.mode in (REGION, PLAIN) and not _holds_ctx(value):
        _shared_write(f, node, f"the global `{name}` is written")
    elif kind == "nonlocal" and f.mode in (REGION, PLAIN):
        owner = f.owner_of(name)
        if owner is None or owner.in_region or owner.decl is None or owner.module.is_test:
            return
        what = f"`{name}` of `{owner.decl.qualname}`, which outlives the run, is written"
        if owner.mode == HOST:
            _shared_write(f, node, what)
        elif owner.mode == PLAIN and f.mode == PLAIN:
            # Who made the function, and so how long its variables live, is known where it is called.
            f.outward.setdefault("RLV205", Cause("RLV205", what, f.place(node)))


def _mutation(f: Frame, node: ast.AST, receiver: Value | None, method: str, args: Args | None) -> None:
    if f.mode not in (REGION, PLAIN):
        return
    if method == "__next__":
        _advance(f, node, receiver)
    elif _shared(receiver):
        if args is not None and any(_holds_ctx(value) for value in args.values()):
            return
        _shared_write(f, node, f"`{method}` changes state that outlives the run")


def _advance(f: Frame, node: ast.AST, receiver: Value | None) -> None:
    """`next(COUNTER)` of a counter or iterator that outlives the run."""
    for option in options_of(receiver):
        counter = isinstance(option, Obj) and option.lasts
        if counter or (isinstance(option, Seq) and option.scope == "module"):
            _shared_write(f, node, f"`{f.segment(node)}` advances a counter that outlives the run")
            return


def _draw(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    """A draw from a generator that outlives the run: the next run goes on where this one ended."""
    if f.mode in (REGION, PLAIN) and ext.receiver is not None and ext.receiver.lasts:
        _shared_write(f, node, f"`{f.segment(node)}` draws from a generator that outlives the run")


def _context_variable(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if f.mode not in (STEP, HOST) and not any(_holds_ctx(value) for value in args.values()):
        f.effect(
            node,
            "RLV205",
            f"`{f.segment(node)}` uses a context variable, which is not part of the run",
        )


def _caches(f: Frame) -> None:
    decl = f.decl
    if decl is None or not decl.decorators:
        return
    if not (hints.ctx_parameters(f.m, decl) or decl in f.m.registered or f.journals):
        return
    for node, head in decl.decorators:
        if isinstance(head, Ext) and head.path in _CACHES:
            cause = Cause(
                "RLV205",
                f"`@{f.segment(node)}` keeps results of journaled work in process memory",
                f.place(node),
            )
            f.m.report(f, node, cause)
