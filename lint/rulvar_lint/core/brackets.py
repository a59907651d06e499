"""Round brackets around an expression, which the tree does not show."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rulvar_lint.core.ancestry import Position
    from rulvar_lint.core.source import Source


def bracketed(source: Source, node: ast.AST, within: ast.AST | None = None) -> ast.Pass:
    """Where an expression is, with the round brackets that belong to it. The closing bracket of
    `within`, the call around it, is not one of them.
    """
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
    bound = None if within is None else (within.end_lineno, within.end_col_offset - 1)  # type: ignore[attr-defined]
    closing = _closing(source, last, bound)
    opening = _opening(source, first, len(closing))
    count = min(len(closing), len(opening))
    line, offset = opening[count - 1] if count else first
    end_line, end = closing[count - 1] if count else last
    return ast.Pass(lineno=line, col_offset=offset, end_lineno=end_line, end_col_offset=end)


def _closing(source: Source, start: Position, bound: Position | None) -> list[Position]:
    """The places behind the closing brackets that follow, with nothing but space between."""
    found: list[Position] = []
    line, offset = start
    while line <= len(source.lines):
        rest = source.line_text(line).encode("utf-8", "surrogatepass")
        while offset < len(rest):
            sign = rest[offset : offset + 1]
            if sign == b"#" or (sign == b"\\" and offset == len(rest) - 1):
                break
            if not sign.isspace():
                if sign != b")" or (bound is not None and (line, offset) >= bound):
                    return found
                found.append((line, offset + 1))
            offset += 1
        line, offset = line + 1, 0
    return found


def _opening(source: Source, start: Position, wanted: int) -> list[Position]:
    """The places of the opening brackets before, with nothing but space between."""
    found: list[Position] = []
    line, offset = start
    while line > 0 and len(found) < wanted:
        before = source.line_text(line).encode("utf-8", "surrogatepass")[:offset]
        if line < start[0]:
            before = before.partition(b"#")[0].rstrip(b"\\ \t\f")
        while before:
            before = before.rstrip()
            if not before.endswith(b"("):
                if before:
                    return found
                break
            before = before[:-1]
            found.append((line, len(before)))
        line, offset = line - 1, 1 << 30
    return found
