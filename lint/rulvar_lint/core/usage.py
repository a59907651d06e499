"""Which module-level names, class attributes and instance attributes code changes after import."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rulvar_lint.core.inventory import FUNCTIONS, FunctionNode, Inventory
from rulvar_lint.core.lineage import order_of_classes
from rulvar_lint.core.nodes import LEAVES, children, statements
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Ext,
    Func,
    Inst,
    LazyImport,
    ModuleRef,
    Obj,
    Value,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.decls import ClassDecl, Module
    from rulvar_lint.core.machine import Machine

CONSTRUCTORS: Final = names("""__init__ __new__ __post_init__ __init_subclass__ __set_name__
__attrs_post_init__ model_post_init""")
_K = TypeVar("_K")
_AT_IMPORT: Final = frozenset({"__init_subclass__", "__set_name__"})


class Usage:
    """What the functions among some top-level statements change. Function names say who does it."""

    __slots__ = (
        "attributes",
        "called",
        "class_attributes",
        "foreign",
        "imported",
        "imports",
        "names",
        "referenced",
        "self_attributes",
    )

    def __init__(self, body: list[ast.stmt]) -> None:
        # global name -> functions that change the object or rebind the name
        self.names: dict[str, set[str]] = {}
        # (global name, attribute) -> functions that set the attribute
        self.attributes: dict[tuple[str, str], set[str]] = {}
        # attribute of `self` -> methods that set it or change what it holds
        self.self_attributes: dict[str, set[str]] = {}
        # attribute of `cls` or `type(self)` -> methods that set it
        self.class_attributes: dict[str, set[str]] = {}
        # (global name, attribute) -> functions that change `name.attribute` as a container
        self.foreign: dict[tuple[str, str], set[str]] = {}
        # name -> the imports that bind it: (import, name there)
        self.imported: dict[str, list[tuple[ast.ImportFrom, str]]] = {}
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.referenced: set[str] = set()
        self.called: set[str] = set()
        self._scan(body)

    def _scan(self, body: list[ast.stmt]) -> None:
        functions: list[FunctionNode] = []
        todo: list[Any] = list(body)
        while todo:
            node = todo.pop()
            cls = node.__class__
            if cls in FUNCTIONS:
                functions.append(node)
                todo += [node.args, *node.decorator_list]
                if node.returns is not None:
                    todo.append(node.returns)
            elif cls is ast.Name:
                if node.ctx.__class__ is ast.Load:
                    self.called.add(node.id)
            elif cls not in LEAVES:
                if cls is ast.Attribute:
                    self.called.add(node.attr)
                todo += children(node)
        for fn in functions:
            self._function(fn, frozenset(), fn.name)
        for stmt in statements(body):
            if isinstance(stmt, ast.ImportFrom):
                self.imports.append(stmt)
                for alias in stmt.names:
                    self.imported.setdefault(alias.asname or alias.name, []).append((stmt, alias.name))
            elif isinstance(stmt, ast.Import):
                self.imports.append(stmt)

    def add(self, other: Usage) -> None:
        """Add what stands further down in the same module."""
        _add(self.names, other.names)
        _add(self.attributes, other.attributes)
        _add(self.self_attributes, other.self_attributes)
        _add(self.class_attributes, other.class_attributes)
        _add(self.foreign, other.foreign)
        for name, origins in other.imported.items():
            self.imported.setdefault(name, []).extend(origins)
        self.imports += other.imports
        self.referenced |= other.referenced
        self.called |= other.called

    def said_of(self, name: str) -> tuple[object, ...]:
        """All that can tell another module whether this one changes or calls what it names so."""
        aliases = {name}
        for alias, origins in self.imported.items():
            if any(original == name for _, original in origins):
                aliases.add(alias)
        changes: list[tuple[str, str, set[str]]] = [
            (alias, "", self.names[alias]) for alias in aliases if alias in self.names
        ]
        for table in (self.attributes, self.foreign):
            changes += [(root, attr, by) for (root, attr), by in table.items() if attr == name]
        by = sorted({function for _, _, functions in changes for function in functions})
        return (
            name in self.referenced,
            name in self.called,
            sorted((root, attr, sorted(functions)) for root, attr, functions in changes),
            [(function in self.referenced, function in self.called) for function in by],
        )

    def _function(self, fn: FunctionNode, outer: frozenset[str], name: str) -> None:
        """Look at a function once: what it binds decides what its other names mean."""
        seen = Inventory()
        shielded = seen.own(list(fn.body))
        seen.inside(shielded)
        args = fn.args
        params = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        params |= {a.arg for a in (args.vararg, args.kwarg) if a is not None}
        local = outer | ((seen.bound | params) - seen.declared)
        first = args.args[0].arg if args.args else ""
        self.referenced |= seen.loaded - local
        self.referenced |= seen.attributes
        for changed in seen.stored & seen.declared:
            self.names.setdefault(changed, set()).add(name)
        for node in seen.told:
            self._change_by(node, local, first, name)
        for nested in seen.inner:
            self._function(nested, local, name)

    def _change_by(self, node: Any, local: set[str] | frozenset[str], first: str, name: str) -> None:
        """What an attribute or item that is set, or a call, changes."""
        if node.__class__ is ast.Attribute:
            self._set_attribute(node, local, first, name)
        elif node.__class__ is ast.Subscript:
            self._change(node.value, local, first, name)
        elif node.func.__class__ is ast.Attribute:
            self._change(node.func.value, local, first, name)
        else:
            self._change(node.args[0], local, first, name)

    def _set_attribute(
        self, node: ast.Attribute, local: set[str] | frozenset[str], first: str, name: str
    ) -> None:
        base = node.value
        if isinstance(base, ast.Name):
            if base.id == first and first in ("self", "cls"):
                self.self_attributes.setdefault(node.attr, set()).add(name)
                if first == "cls":
                    self.class_attributes.setdefault(node.attr, set()).add(name)
            elif base.id not in local:
                self.attributes.setdefault((base.id, node.attr), set()).add(name)
        elif _is_class_of_self(base, first):
            self.class_attributes.setdefault(node.attr, set()).add(name)
        else:
            self._change(base, local, first, name)

    def _change(self, base: ast.expr, local: set[str] | frozenset[str], first: str, name: str) -> None:
        """The object that an expression gives is changed."""
        while isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name):
            if base.id not in local:
                self.names.setdefault(base.id, set()).add(name)
        elif isinstance(base, ast.Attribute):
            root = base.value
            if isinstance(root, ast.Name):
                if root.id == first and first in ("self", "cls"):
                    self.self_attributes.setdefault(base.attr, set()).add(name)
                elif root.id not in local:
                    self.foreign.setdefault((root.id, base.attr), set()).add(name)

    def import_only(self, functions: set[str]) -> bool:
        """Whether the functions run only while the module is imported: used at top level and
        nowhere else.
        """
        return all(
            name in _AT_IMPORT or (name in self.called and name not in self.referenced) for name in functions
        )


def _add(mine: dict[_K, set[str]], more: dict[_K, set[str]]) -> None:
    for key, functions in more.items():
        mine.setdefault(key, set()).update(functions)


def _is_class_of_self(node: ast.AST, first: str) -> bool:
    """`type(self)` or `self.__class__`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
        node = node.args[0] if len(node.args) == 1 else node
    elif isinstance(node, ast.Attribute) and node.attr == "__class__":
        node = node.value
    return isinstance(node, ast.Name) and node.id == first == "self"


def usage_of(module: Module) -> Usage:
    """The usage of a module, computed once."""
    if not isinstance(module.usage, Usage):
        module.usage = Usage(module.tree.body)
    return module.usage


def is_mutated(m: Machine, module: Module, name: str, value: Value | None) -> bool:
    """Whether code other than import code changes the global `name`."""
    known = module.changed_names.get(name)
    if known is None:
        known = module.changed_names[name] = _is_mutated(m, module, name, value)
    return known


def _is_mutated(m: Machine, module: Module, name: str, value: Value | None) -> bool:
    if isinstance(value, (Func, Class, ModuleRef, Ext, LazyImport)):
        return False
    if isinstance(value, Obj) and value.type.startswith(("logging.", "contextvars.")):
        return False
    holder = _defining(m, module, name)
    if holder is not module:
        return is_mutated(m, holder, _original(module, name), value)
    usage = usage_of(module)
    changers = usage.names.get(name, set())
    if isinstance(value, Inst):
        changers = set()
    if changers and not _only_at_import(m, module, changers):
        return True
    return not isinstance(value, Inst) and _changed_elsewhere(m, module, name, isinstance(value, Const))


def _defining(m: Machine, module: Module, name: str) -> Module:
    """The module that a global name is imported from, if it is."""
    for node, _ in usage_of(module).imported.get(name, ()):
        path = m.files.find(m.absolute(module, node.module or "", node.level), module.path)
        found = m.load(path, module) if path else None
        if found is not None and found is not module:
            return found
    return module


def _original(module: Module, name: str) -> str:
    return next((original for _, original in usage_of(module).imported.get(name, ())), name)


def _only_at_import(m: Machine, module: Module, functions: set[str]) -> bool:
    if not usage_of(module).import_only(functions):
        # Perhaps another module applies them as decorators.
        if any(name in usage_of(module).referenced for name in functions):
            return False
        return all(_applied_elsewhere(m, module, name) for name in functions)
    return not any(_called_elsewhere(m, module, name) for name in functions)


def _others(m: Machine, module: Module, name: str) -> list[Module]:
    m.words.setdefault(module.path, set()).add(name)
    found = []
    for path in m.files.mentions(name, module.path):
        other = m.files.module(path)
        if other is not None and not other.is_test:
            m.edges.add(module.path, path)
            found.append(other)
    return found


def _called_elsewhere(m: Machine, module: Module, name: str) -> bool:
    return any(name in usage_of(other).referenced for other in _others(m, module, name))


def _applied_elsewhere(m: Machine, module: Module, name: str) -> bool:
    others = _others(m, module, name)
    return any(name in usage_of(o).called for o in others) and not any(
        name in usage_of(o).referenced for o in others
    )


def _changed_elsewhere(m: Machine, module: Module, name: str, scalar: bool) -> bool:
    """Whether another module changes the object or rebinds the name through the module."""
    for other in _others(m, module, name):
        usage = usage_of(other)
        for alias, member in _imports_of(m, other, module):
            if (
                member == name
                and not scalar
                and alias in usage.names
                and not _only_at_import(m, other, usage.names[alias])
            ):
                return True
            if member == "" and (
                (alias, name) in usage.attributes or (not scalar and (alias, name) in usage.foreign)
            ):
                return True
    return False


def _imports_of(m: Machine, other: Module, module: Module) -> list[tuple[str, str]]:
    """(local name, imported name or "" for the module itself) of what `other` imports from
    `module`.
    """
    found: list[tuple[str, str]] = []
    for node in usage_of(other).imports:
        if isinstance(node, ast.ImportFrom):
            base = m.absolute(other, node.module or "", node.level)
            path = m.files.find(base, other.path)
            for alias in node.names:
                if path == module.path:
                    found.append((alias.asname or alias.name, alias.name))
                elif m.files.find(f"{base}.{alias.name}", other.path) == module.path:
                    found.append((alias.asname or alias.name, ""))
        else:
            for alias in node.names:
                if m.files.find(alias.name, other.path) == module.path and (
                    alias.asname or "." not in alias.name
                ):
                    found.append((alias.asname or alias.name, ""))
    return found


def attribute_mutated(m: Machine, decl: ClassDecl, name: str) -> bool:
    """Whether methods other than constructors set the attribute `name` of an instance, or change
    what it holds.
    """
    for cls in order_of_classes(decl):
        usage = usage_of(cls.module)
        methods = {n.name for n in cls.node.body if isinstance(n, FunctionNode)}
        changers = (usage.self_attributes.get(name, set()) & methods) - CONSTRUCTORS
        if changers and not _only_at_import(m, cls.module, changers):
            return True
        for (root, attr), functions in (*usage.attributes.items(), *usage.foreign.items()):
            if attr == name and functions and _is_instance_of(m, cls.module, root, decl):
                return True
    return False


def _is_instance_of(m: Machine, module: Module, name: str, decl: ClassDecl) -> bool:
    value = m.static_global(module, name)
    return isinstance(value, Inst) and value.decl is decl


_OF_INSTANCES: Final = (b"cls", b"__class__", b"type")


def _may_be_set(owner: ClassDecl) -> bool:
    """Whether the text of the module allows for code that sets an attribute of a class: what is
    looked for is its name before a dot, or the class of an instance.
    """
    if owner.may_be_set is None:
        data = owner.module.source.data
        named = re.compile(re.escape(owner.name.encode()) + rb"[\s)\\]*[.#]")
        told = any(word in data for word in _OF_INSTANCES) or named.search(data) is not None
        owner.may_be_set = told or not data.isascii()
    return owner.may_be_set


def class_attribute_mutated(m: Machine, owner: ClassDecl, name: str, value: Value | None) -> bool:
    """Whether code changes a class attribute after import."""
    if isinstance(value, Func) or not (isinstance(value, Container) or _may_be_set(owner)):
        return False
    usage = usage_of(owner.module)
    methods = {n.name for n in owner.node.body if isinstance(n, FunctionNode)}
    setters = usage.attributes.get((owner.name, name), set())
    setters = setters | (usage.class_attributes.get(name, set()) & methods)
    if setters and not _only_at_import(m, owner.module, setters):
        return True
    if isinstance(value, Container):
        changers = usage.self_attributes.get(name, set()) | usage.foreign.get((owner.name, name), set())
        return bool(changers) and not _only_at_import(m, owner.module, changers)
    return False


def is_attribute_assigned(m: Machine, module: Module, name: str, attr: str) -> bool:
    """Whether functions set the attribute `attr` of the global `name`."""
    return bool(usage_of(module).attributes.get((name, attr)))
