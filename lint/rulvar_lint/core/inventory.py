"""What stands in one function: the names and attributes in it, without what they mean."""

from __future__ import annotations

import ast
from typing import Any, Final

from rulvar_lint.core.containers import MUTATORS
from rulvar_lint.core.nodes import LEAVES, children

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = frozenset({ast.FunctionDef, ast.AsyncFunctionDef})
_CHANGING: Final = frozenset({"next", "setattr", "delattr"})
_TELLING: Final = frozenset({ast.Attribute, ast.Subscript, ast.Call})
_SCOPES: Final = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda}
    | {ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp}
)
_BINDING: Final = frozenset({ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping})


class Inventory:
    """What stands in one function: names that are loaded, stored and bound, attributes that are
    loaded, and what may change an object.
    """

    __slots__ = ("attributes", "bound", "declared", "inner", "loaded", "stored", "told")

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.stored: set[str] = set()
        self.bound: set[str] = set()
        self.declared: set[str] = set()
        self.attributes: set[str] = set()
        self.inner: list[FunctionNode] = []
        self.told: list[ast.AST] = []

    def own(self, todo: list[Any]) -> list[ast.AST]:
        """Look at the nodes of the function's own scope. Returns what binds names of its own."""
        shielded: list[ast.AST] = []
        while todo:
            node = todo.pop()
            cls = node.__class__
            if cls is ast.Name:
                if node.ctx.__class__ is ast.Load:
                    self.loaded.add(node.id)
                else:
                    self.stored.add(node.id)
                    self.bound.add(node.id)
                continue
            if cls in LEAVES:
                if cls is ast.Global:
                    self.declared.update(node.names)
                elif cls is ast.alias:
                    self.bound |= bound_by_syntax(node)
                continue
            if cls in _TELLING:
                self._tell(node, cls)
            elif cls in _SCOPES:
                if cls in FUNCTIONS:
                    self.bound.add(node.name)
                    self.inner.append(node)
                else:
                    if cls is ast.ClassDef:
                        self.bound.add(node.name)
                    shielded += children(node)
                continue
            elif cls in _BINDING:
                self.bound |= bound_by_syntax(node)
            todo += children(node)
        return shielded

    def inside(self, todo: list[Any]) -> None:
        """Look at nodes that bind names of their own."""
        while todo:
            node = todo.pop()
            cls = node.__class__
            if cls is ast.Name:
                (self.loaded if node.ctx.__class__ is ast.Load else self.stored).add(node.id)
            elif cls in FUNCTIONS:
                self.inner.append(node)
            elif cls not in LEAVES:
                if cls in _TELLING:
                    self._tell(node, cls)
                elif cls is ast.NamedExpr:
                    self.bound.add(node.target.id)
                todo += children(node)

    def _tell(self, node: Any, cls: type) -> None:
        if cls is ast.Call:
            func = node.func
            if func.__class__ is ast.Attribute:
                if func.attr in MUTATORS:
                    self.told.append(node)
            elif func.__class__ is ast.Name and func.id in _CHANGING and node.args:
                self.told.append(node)
        elif node.ctx.__class__ is not ast.Load:
            self.told.append(node)
        elif cls is ast.Attribute:
            self.attributes.add(node.attr)


def bound_by_syntax(node: ast.AST) -> set[str]:
    """The name that a node binds by its own syntax."""
    if isinstance(node, ast.alias):
        return {(node.asname or node.name).partition(".")[0]}
    name = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
    return {name} if isinstance(name, str) else set()
