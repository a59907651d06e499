"""The modules of a session that have been read, and what the interpreter has learned about them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.comments import read_comments
from rulvar_lint.core.decls import Module
from rulvar_lint.core.machine import Machine
from rulvar_lint.core.source import ParseFailure
from rulvar_lint.examine import let_go
from rulvar_lint.units import CtxCallSpan, calls_in

if TYPE_CHECKING:
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.libraries.catalog import Catalog
    from rulvar_lint.workspace import Workspace

_MISSING: Final = object()


class Loaded:
    """Modules by their paths, for one interpreter.

    Args:
        workspace: the files.
        catalog: what is known of libraries.
        hooks: the listeners of the interpreter.
    """

    def __init__(self, workspace: Workspace, catalog: Catalog, hooks: Hooks) -> None:
        self._workspace = workspace
        self._modules: dict[str, Module | None] = {}
        self._lent: dict[str, Callable[[], Module]] = {}
        self.machine = Machine(self, catalog, hooks)

    def paths(self) -> list[str]:
        """The files that have been read."""
        return list(self._modules)

    def calls(self) -> dict[str, set[CtxCallSpan]]:
        """The journaled calls that have been met, by file."""
        modules = self._modules.items()
        return {path: calls_in(module) for path, module in modules if module is not None and module.ctx_calls}

    def known(self, path: str) -> Module | None:
        """The module at `path`, if it has been read and parsed."""
        return self._modules.get(path)

    def is_broken(self, path: str) -> bool:
        """Whether a file that something uses does not parse."""
        if path in self._modules:
            return self._modules[path] is None
        source = self._workspace.source(path)
        return source is None or isinstance(source.blocks(), ParseFailure)

    # What the interpreter asks for

    def find(self, name: str, importer: str) -> str | None:
        """The path of a module."""
        return self._workspace.index.find(name, importer)

    def module(self, path: str) -> Module | None:
        """The parsed module at `path`."""
        if path in self._lent:
            return self._lent[path]()
        found = self._modules.get(path, _MISSING)
        if found is _MISSING:
            source = self._workspace.source(path)
            tree = source.parse() if source is not None else None
            if source is None or not isinstance(tree, ast.Module):
                found = None
            else:
                found = Module(source, tree, read_comments(source))
            self._modules[path] = found
        return found  # type: ignore[return-value]

    def mentions(self, word: str, path: str) -> list[str]:
        """Paths of the files that contain a word and import the module at `path`."""
        return self._workspace.mentions(word, path)

    def lend(self, path: str, module: Callable[[], Module] | None) -> None:
        """Let others see what a function gives in place of a file; None ends that."""
        if module is None:
            self._lent.pop(path, None)
        else:
            self._lent[path] = module

    # What is forgotten

    def forget_results(self) -> None:
        """Forget what running functions gave."""
        for module in self._modules.values():
            if module is not None:
                module.ctx_calls.clear()
                for decl in module.decls.values():
                    decl.memo.clear()

    def begin_anew(self) -> None:
        """Look at everything again as if for the first time, though no file has changed."""
        self.drop(self.paths())

    def drop(self, paths: Collection[str]) -> None:
        """Forget modules, all of what uses them among them."""
        machine = self.machine
        dropped: list[Module] = []
        for path in paths:
            module = self._modules.pop(path, None)
            machine.edges.take(path)
            machine.words.pop(path, None)
            if module is not None:
                for decl in module.decls.values():
                    machine.registered.pop(decl, None)
                dropped.append(module)
        for decl in [decl for decl, by in machine.registrars.items() if by in paths]:
            machine.registered.pop(decl, None)
            del machine.registrars[decl]
        machine.begin_unit()
        for module in dropped:
            module.dissolve()

    def release(self, path: str) -> None:
        """Forget the tree of a file that nothing else has used."""
        module = self._modules.get(path)
        if module is not None and not self.machine.edges.is_used(path):
            del self._modules[path]
            let_go(self.machine, module)
            self._workspace.release(path)
