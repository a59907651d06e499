"""Where a node is inside a function: what contains it, and what lies between two positions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rulvar_lint.core.nodes import children, walk

Position = tuple[int, int]


def start_of(node: ast.AST) -> Position:
    """Where a node begins: line, and offset in bytes."""
    try:
        return node.lineno, node.col_offset  # type: ignore[attr-defined]
    except AttributeError:
        return 0, 0


def end_of(node: ast.AST) -> Position:
    """Where a node ends: line, and offset in bytes."""
    try:
        return node.end_lineno or 0, node.end_col_offset or 0  # type: ignore[attr-defined]
    except AttributeError:
        return 0, 0


def ancestors(root: ast.AST, node: ast.AST) -> list[ast.AST]:
    """The node, what contains it, and so on up to the root; empty if it is not below it."""
    found = _descend(root, node, start_of(node), end_of(node))
    return found or _search(root, node)


def _descend(root: ast.AST, node: ast.AST, start: Position, end: Position) -> list[ast.AST]:
    """Follow positions down. They are not exact inside f-strings."""
    if root is node:
        return [node]
    for child in children(root):
        if hasattr(child, "lineno") and child is not node:
            decorated = bool(getattr(child, "decorator_list", None))
            if end_of(child) < end or (start < start_of(child) and not decorated):
                continue
        found = _descend(child, node, start, end)
        if found:
            return [*found, root]
    return []


def _search(root: ast.AST, node: ast.AST) -> list[ast.AST]:
    parents = {child: parent for parent in walk(root) for child in children(parent)}
    chain = [node]
    while chain[-1] in parents:
        chain.append(parents[chain[-1]])
    return chain if chain[-1] is root else []


def between(root: ast.AST, start: Position, end: Position) -> Iterator[ast.AST]:
    """The nodes below the root that begin between two positions."""
    todo = [root]
    while todo:
        node = todo.pop()
        if hasattr(node, "lineno"):
            begin = start_of(node)
            if begin > end and not getattr(node, "decorator_list", None):
                continue
            if end_of(node) < start and not isinstance(node, (ast.FormattedValue, ast.JoinedStr)):
                continue
            if start <= begin <= end:
                yield node
        todo.extend(children(node))
