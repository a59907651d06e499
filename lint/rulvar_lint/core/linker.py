"""Names across modules: imports, global names, and the modules behind them."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, Final, Protocol

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.calls import call_function
from rulvar_lint.core.edges import Edges
from rulvar_lint.core.frame import HOST, STEP
from rulvar_lint.core.libraries.catalog import canonical
from rulvar_lint.core.values import (
    Class,
    Const,
    Ext,
    Func,
    LazyChoice,
    LazyImport,
    ModuleRef,
    Seq,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from rulvar_lint.core.decls import Module
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.libraries.catalog import Catalog

_MISSING: Final = object()
_BUILTINS: Final = {name: Ext(f"builtins.{name}") for name in dir(builtins)}
# What these hold is read when they are used, however long ago a name was given to them.
_LIVE: Final = frozenset({"os.environ", "os.environb"})


def _is_public(module: Module, name: str) -> bool:
    """Whether a star import of a module brings a name."""
    names = module.env.get("__all__")
    if isinstance(names, Seq) and names.items and names.elem is None:
        given = [item.value if isinstance(item, Const) else None for item in names.items]
        if None not in given:
            return name in given
    return not name.startswith("_")


class Files(Protocol):
    """Where modules come from."""

    def find(self, name: str, importer: str) -> str | None:
        """The path of the module `name` as seen from the file `importer`; "" for a package without
        a file.
        """

    def module(self, path: str) -> Module | None:
        """The parsed module at `path`, or None if it does not parse."""

    def mentions(self, word: str, path: str) -> list[str]:
        """Paths of the files that contain `word` and import the module at `path`."""


class Linker:
    """Resolves names, over all files of the project. `edges` remembers who uses whom."""

    def __init__(self, files: Files, catalog: Catalog, hooks: Hooks) -> None:
        self.files = files
        self.catalog = catalog
        self.hooks = hooks
        self.edges = Edges()

    def prepare(self, module: Module) -> None:
        """Interpret the top level of a module, once."""
        raise NotImplementedError

    def absolute(self, module: Module, name: str, level: int) -> str:
        """The name of an imported module; for a relative import "/" and its path without suffix."""
        if not level:
            return name
        parts = module.path.split("/")[:-1]
        base = parts[: len(parts) - (level - 1)] if level - 1 <= len(parts) else []
        return "/" + "/".join([*base, *name.split(".")] if name else base)

    def resolve_import(self, importer: Module, name: str, attr: str | None) -> Value | None:
        """What `import name` or `from name import attr` binds."""
        if name.partition(".")[0] == "rulvar":
            return Ext(name if attr is None else f"{name}.{attr}")
        path = self.files.find(name, importer.path)
        if path is None:
            top = name.partition(".")[0]
            known = name.startswith("/") or (top and self.files.find(top, importer.path) is not None)
            full = name if attr is None else f"{name}.{attr}"
            return Ext(f".{full}" if known else canonical(full))
        reference = ModuleRef(name, self.load(path, importer) if path else None)
        return reference if attr is None else self.module_member(reference, attr, importer)

    def load(self, path: str, importer: Module | None) -> Module | None:
        """The module at `path`, with its top level interpreted."""
        if importer is not None:
            self.edges.add(importer.path, path)
        module = self.files.module(path)
        if module is not None:
            self.prepare(module)
        return module

    def module_member(self, reference: ModuleRef, attr: str, importer: Module | None = None) -> Value | None:
        """`module.attr`: a global name, else a submodule."""
        module = reference.module
        if module is not None:
            value = self.binding(module, attr)
            if value is not _MISSING:
                return value  # type: ignore[no-any-return]
        origin = module or importer
        path = self.files.find(f"{reference.name}.{attr}", origin.path if origin is not None else "")
        if path is not None:
            return ModuleRef(f"{reference.name}.{attr}", self.load(path, origin) if path else None)
        return None

    def binding(self, module: Module, name: str) -> Any:
        """The value of a global name, or a marker if there is none."""
        value: Any = module.env.get(name, _MISSING)
        if value is _MISSING:
            return self._from_star(module, name) if module.stars else _MISSING
        if isinstance(value, LazyImport):
            # A package that imports its own submodule by `from . import name` means the submodule.
            return _MISSING if value.busy else self.force(module, name, value)
        return value

    def _from_star(self, module: Module, name: str) -> Any:
        for star in module.stars:
            path = self.files.find(star, module.path)
            if path:
                loaded = self.load(path, module)
                if loaded is not None and _is_public(loaded, name):
                    value = self.binding(loaded, name)
                    if value is not _MISSING:
                        return value
            elif path is None:
                full = canonical(f"{star}.{name}")
                known = self.catalog.effects(full) or self.catalog.read(full) or self.catalog.result(full)
                if known or star.partition(".")[0] == "rulvar":
                    return Ext(full)
        return _MISSING

    def force(self, module: Module, name: str, lazy: LazyImport) -> Value | None:
        """Resolve an import that is needed now."""
        if lazy.busy:
            return None
        lazy.busy = True
        value: Value | None = None
        if isinstance(lazy, LazyChoice):
            for option in lazy.options:
                found = self.force(module, "", option) if isinstance(option, LazyImport) else option
                value = join(value, found)
        else:
            value = self.resolve_import(module, lazy.name, lazy.attr)
        lazy.busy = False
        if module.env.get(name) is lazy:
            module.env[name] = value
        return value

    def global_name(self, f: Frame, node: ast.AST, module: Module, name: str) -> Value | None:
        """A global or builtin name that code in `f` reads."""
        value = self.binding(module, name)
        if value is _MISSING:
            return _BUILTINS.get(name)
        return self._read_global(f, node, module, name, value)

    def _read_global(
        self, f: Frame, node: ast.AST, module: Module, name: str, value: Value | None
    ) -> Value | None:
        if f.mode == HOST:
            return value
        cls = value.__class__
        if cls is Func or cls is Class or cls is ModuleRef:
            return value
        if f.mode == STEP:
            return Unknown(None, outer=True) if value is None else value
        if isinstance(value, Ext):
            entry = self.catalog.read(value.path)
            if entry is not None and (value.taint is None or value.path in _LIVE):
                fresh = Ext(value.path)
                fresh.taint = frozenset((f.effect(node, entry.code, f"`{value.path}` {entry.does}"),))
                return fresh
        for hook in self.hooks.global_read:
            hook(f, node, module, name, value)
        return value

    def module_attribute(self, f: Frame, node: ast.AST, base: ModuleRef, name: str) -> Value | None:
        """`module.name` in an expression."""
        value = self.module_member(base, name, f.module)
        if base.module is None:
            return value
        if value is None and name not in base.module.env:
            getter = base.module.env.get("__getattr__")
            return (
                call_function(f, node, getter, Args([Const(name)], {})) if isinstance(getter, Func) else None
            )
        return self._read_global(f, node, base.module, name, value)

    def static_global(self, module: Module, name: str) -> Value | None:
        """A global or builtin name, without it counting as a read. Imports for type checking are
        seen too.
        """
        value = self.binding(module, name)
        if value is _MISSING:
            lazy = module.typing.get(name)
            if lazy is not None:
                return self.force(module, "", lazy)
            return _BUILTINS.get(name)
        return value  # type: ignore[no-any-return]
