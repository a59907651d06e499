"""Which top-level statements of a module can have to do with each other: those that mention what
others bind, directly or through others. Everything is decided by spelling alone, and more is taken
to belong together than does.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import Any, Final

from rulvar_lint.core.blocks import Block
from rulvar_lint.core.freevars import bound_in
from rulvar_lint.core.nodes import walk
from rulvar_lint.core.usage import Usage

_WORD: Final = re.compile(r"\w+")
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Values that are no other name of something.
_FRESH: Final = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Lambda)
_CHECKING: Final = frozenset({"TYPE_CHECKING"})

# What a statement is to the others.
SHARED: Final = 0  # an import or a comment: it binds names that never change
GROUPED: Final = 1  # it belongs to those that mention what it binds, and to those that it mentions
BRANCH: Final = 2  # as that; what it uses of the shared names may be known less exactly afterwards
LOOSE: Final = 3  # as that; it may also bind another name of something imported
ODD: Final = 4  # it may have to do with anything


class Facts:
    """The spelling of one statement. `binds` has the names of all functions and classes in it,
    `mentions` the names, attributes and the words of texts; `has_zones` is set if it imports from
    `datetime`; `imports` has the imports in it.
    """

    __slots__ = ("_stmt", "_usage", "binds", "has_zones", "imports", "kind", "mentions")

    def __init__(self, stmt: ast.stmt) -> None:
        self._stmt = stmt
        self._usage: Usage | None = None
        self.has_zones = False
        self.imports: list[tuple[Any, ...]] = []
        self.kind = _kind(stmt)
        self.binds: set[str] = bound_in([stmt])
        self.mentions: set[str] = set()
        if self.kind == LOOSE and not self.binds:
            self.kind = BRANCH if hasattr(stmt, "body") else GROUPED
        if self.binds != {"__all__"}:
            for node in walk(stmt):
                self._look(node)

    @property
    def usage(self) -> Usage:
        """What the functions in it change."""
        if self._usage is None:
            self._usage = Usage([self._stmt])
        return self._usage

    def _look(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.mentions.add(node.id)
        elif isinstance(node, ast.Attribute):
            self.mentions.add(node.attr)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.mentions.update(_WORD.findall(node.value))
        elif isinstance(node, ast.NamedExpr):
            self.binds.add(node.target.id)
        elif isinstance(node, _DEFINITIONS):
            self.binds.add(node.name)
            if isinstance(node, ast.ClassDef):  # methods of the same name are not told apart
                self.binds.add("class")
                self.mentions.add("class")
        elif isinstance(node, ast.Global):
            self.kind = ODD
        elif isinstance(node, ast.ImportFrom):
            self.has_zones |= (node.module or "").startswith("datetime")
            self.imports.append((node.level, node.module, *_names(node)))
        elif isinstance(node, ast.Import):
            self.has_zones |= any(alias.name.startswith("datetime") for alias in node.names)
            self.imports.append(tuple(_names(node)))


def _names(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str | None]]:
    return [(alias.name, alias.asname) for alias in node.names]


def _kind(stmt: ast.stmt) -> int:
    if isinstance(stmt, ast.Import):
        return SHARED
    if isinstance(stmt, ast.ImportFrom):
        return ODD if any(alias.name == "*" for alias in stmt.names) else SHARED
    if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant):
        return SHARED
    if isinstance(stmt, _DEFINITIONS):
        return GROUPED
    if isinstance(stmt, ast.If) and isinstance(stmt.test, ast.Name) and stmt.test.id in _CHECKING:
        kinds = {_kind(inner) for inner in stmt.body}
        return SHARED if kinds == {SHARED} and not stmt.orelse else LOOSE
    if isinstance(stmt, ast.Assign) and isinstance(stmt.value, _FRESH):
        return GROUPED
    return LOOSE


def facts_of(block: Block) -> Facts:
    """The facts of a statement, found once."""
    if not isinstance(block.facts, Facts):
        block.facts = Facts(block.identity)
    return block.facts


def groups(blocks: list[Block]) -> tuple[list[Block], list[list[Block]]] | None:
    """(the shared statements, groups of the others that have nothing to do with each other), each in
    the order of the file; None if the module cannot be taken apart.
    """
    shared = [block for block in blocks if facts_of(block).kind == SHARED]
    others = [block for block in blocks if facts_of(block).kind != SHARED]
    fixed: set[str] = set().union(*(facts_of(block).binds for block in shared))
    zones: set[str] = set().union(*(facts_of(b).binds for b in shared if facts_of(b).has_zones))
    if any(left.last >= right.first for left, right in pairwise(blocks)):
        return None
    binders: dict[str, int] = {}  # one of the statements that bind a name: they all meet there
    for index, block in enumerate(others):
        facts = facts_of(block)
        if facts.kind == ODD or (facts.kind != GROUPED and _is_delicate(facts, zones)):
            return None
        for name in facts.binds:
            binders.setdefault(name, index)
    if not fixed.isdisjoint(binders):
        return None
    for index, block in enumerate(others):
        for name in fixed.intersection(facts_of(block).usage.names):
            binders.setdefault(name, index)  # what an import gave is changed
    leaders = _joined([(facts_of(block).binds | facts_of(block).mentions) for block in others], binders)
    found: dict[int, list[Block]] = {}
    for index, block in enumerate(others):
        found.setdefault(_leader(leaders, index), []).append(block)
    return shared, list(found.values())


def _is_delicate(facts: Facts, zones: set[str]) -> bool:
    """Whether a statement may decide how the module as a whole can name the UTC zone."""
    if facts.has_zones:
        return True
    return bool(zones) and (facts.kind == LOOSE or not zones.isdisjoint(facts.mentions))


def _joined(names: list[set[str]], binders: dict[str, int]) -> list[int]:
    leaders = list(range(len(names)))
    known = binders.keys()
    for index, own in enumerate(names):
        for name in own & known:
            left, right = _leader(leaders, index), _leader(leaders, binders[name])
            if left != right:
                leaders[max(left, right)] = min(left, right)
    return leaders


def _leader(leaders: list[int], index: int) -> int:
    while leaders[index] != index:
        leaders[index] = index = leaders[leaders[index]]
    return index
