"""What a type annotation says about a value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.calls import call_function
from rulvar_lint.core.classes import find_attribute
from rulvar_lint.core.expressions import BYTES, FLOAT, INT, STR
from rulvar_lint.core.libraries.catalog import canonical
from rulvar_lint.core.syntax import syntax_tree
from rulvar_lint.core.values import Class, Ctx, Dict, Ext, Func, Inst, ModuleRef, Obj, Seq, Set, Value
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.decls import ClassDecl, FunctionDecl, Module, Parameter
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.machine import Machine

_CTX_NAMES: Final = frozenset({"Ctx", "Context", "WorkflowContext", "WorkflowCtx"})
_SIMPLE: Final = {
    "builtins.int": INT,
    "builtins.str": STR,
    "builtins.float": FLOAT,
    "builtins.bytes": BYTES,
}
_WRAPPERS: Final = names(
    """Optional Annotated Union Final ClassVar Required NotRequired Awaitable Coroutine"""
)
_SEQUENCES: Final = names("""list List Sequence Iterable Iterator Collection deque tuple Tuple Generator""")
_MAPPINGS: Final = names("""dict Dict Mapping MutableMapping defaultdict OrderedDict Counter""")


def static_name(m: Machine, module: Module, expr: ast.expr) -> Value | None:
    """What a dotted name in an annotation stands for."""
    if isinstance(expr, ast.Name):
        return m.static_global(module, expr.id)
    if isinstance(expr, ast.Attribute):
        base = static_name(m, module, expr.value)
        if isinstance(base, Ext):
            return Ext(canonical(f"{base.path}.{expr.attr}"))
        if isinstance(base, ModuleRef):
            return m.module_member(base, expr.attr)
        if isinstance(base, Class):
            found = base.decl.attrs.get(expr.attr)
            return found if isinstance(found, Class) else None
    return None


def parsed(expr: ast.expr) -> ast.expr | None:
    """A quoted annotation, parsed."""
    if isinstance(expr, ast.Constant) and isinstance(expr.value, str):
        try:
            return syntax_tree(expr.value.strip(), "eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return expr


def is_ctx(m: Machine, module: Module, annotation: ast.expr, depth: int = 0) -> bool | None:
    """Whether an annotation names the workflow context; None when it cannot be told."""
    expr = parsed(annotation)
    if expr is None or depth > 6:
        return None
    if isinstance(expr, ast.BinOp):
        sides = (is_ctx(m, module, expr.left, depth + 1), is_ctx(m, module, expr.right, depth + 1))
        return True if True in sides else (None if None in sides else False)
    if isinstance(expr, ast.Subscript):
        head = expr.value
        name = head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "")
        if name in _WRAPPERS:
            inner = expr.slice.elts if isinstance(expr.slice, ast.Tuple) else [expr.slice]
            return any(is_ctx(m, module, part, depth + 1) for part in inner)
        return is_ctx(m, module, head, depth + 1)
    if isinstance(expr, ast.Constant):
        return False
    value = static_name(m, module, expr)
    if isinstance(value, Ext):
        if value.path.startswith("rulvar."):
            return value.path.rpartition(".")[2] in _CTX_NAMES
        return None if value.path in ("typing.Any", "builtins.object") or value.path[0] == "." else False
    if isinstance(value, Class):
        return any(
            isinstance(base, Ext)
            and base.path.startswith("rulvar.")
            and base.path.rpartition(".")[2] in _CTX_NAMES
            for base in value.decl.bases
        )
    return None


def ctx_parameters(m: Machine, decl: FunctionDecl) -> frozenset[str]:
    """The parameters of a function that receive the workflow context."""
    if decl.ctx_params is None:
        module = decl.module
        found = set()
        for param in decl.params:
            if param.kind in ("var", "varkw"):
                continue
            told = is_ctx(m, module, param.annotation) if param.annotation is not None else None
            if told or (told is None and param.name == "ctx" and module.imports_rulvar):
                found.add(param.name)
        decl.ctx_params = frozenset(found)
    return decl.ctx_params


def parameter_value(m: Machine, decl: FunctionDecl, param: Parameter) -> Value | None:
    """What the annotation of a parameter says about its value."""
    if param.annotation is None or param.kind in ("var", "varkw"):
        return None
    return from_annotation(m, decl.module, param.annotation)


def from_annotation(m: Machine, module: Module, annotation: ast.expr, depth: int = 0) -> Value | None:
    """A value of the annotated type, or None when the type does not matter."""
    expr = parsed(annotation)
    if expr is None or depth > 6:
        return None
    if isinstance(expr, ast.BinOp):
        left = from_annotation(m, module, expr.left, depth + 1)
        return join(left, from_annotation(m, module, expr.right, depth + 1))
    if isinstance(expr, ast.Subscript):
        return _generic(m, module, expr, depth)
    if isinstance(expr, ast.Constant):
        return None
    value = static_name(m, module, expr)
    if isinstance(value, Class):
        return m.generic(value.decl)
    if isinstance(value, Ext):
        return _instance(m, value.path)
    return None


def _instance(m: Machine, path: str) -> Value | None:
    if path in ("builtins.set", "builtins.frozenset"):
        return Set()
    if path in _SIMPLE:
        return _SIMPLE[path]
    if path.startswith("rulvar.") and path.rpartition(".")[2] in _CTX_NAMES:
        return Ctx()
    return Obj(path) if m.catalog.is_type(path) else None


def _generic(m: Machine, module: Module, expr: ast.Subscript, depth: int) -> Value | None:
    head = expr.value
    name = head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "")
    inner = expr.slice.elts if isinstance(expr.slice, ast.Tuple) else [expr.slice]
    if name in _WRAPPERS:
        if name == "Annotated":
            inner = inner[:1]
        elif name == "Coroutine":
            inner = inner[-1:]
        found: Value | None = None
        for part in inner:
            found = join(found, from_annotation(m, module, part, depth + 1))
        return found
    value = static_name(m, module, head)
    if not inner:
        return None
    if isinstance(value, Ext) and value.path in ("builtins.set", "builtins.frozenset"):
        elem = from_annotation(m, module, inner[0], depth + 1)
        return Set(elem, elem is INT)
    if isinstance(value, Class):
        return m.generic(value.decl)
    if name in _SEQUENCES:
        elem = from_annotation(m, module, inner[0], depth + 1)
        return Seq("list", None, elem) if _matters(elem) else None
    if name in _MAPPINGS and len(inner) == 2:
        elem = from_annotation(m, module, inner[1], depth + 1)
        return Dict(None, elem) if _matters(elem) else None
    return _instance(m, value.path) if isinstance(value, Ext) else None


def _matters(value: Value | None) -> bool:
    return isinstance(value, (Set, Inst, Dict, Seq, Obj)) and value not in (
        STR,
        INT,
        FLOAT,
        BYTES,
    )


def generic_instance(f: Frame, decl: ClassDecl) -> Inst:
    """Some instance of a class, as a parameter or `self` is: its attributes come from `__init__`
    with unknown arguments.
    """
    if isinstance(decl.generic, Inst):
        return decl.generic
    inst = Inst(decl, "any")
    decl.generic = inst
    init = find_attribute(decl, "__init__")
    if init is not None and isinstance(init[1], Func):
        host = f.m.host_frame(decl.module)
        call_function(host, decl.node, init[1].bind(inst), Args([], {}))
    return inst
