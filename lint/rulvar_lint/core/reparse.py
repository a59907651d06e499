"""Parse only what an edit touched. A file is a sequence of top-level statements; when the number of
lines stays the same, those before and after the edit keep their trees.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

_BOM: Final = b"\xef\xbb\xbf"


def reparse(
    old: ast.Module, before: bytes, after: bytes, parse: Callable[[bytes], object]
) -> ast.Module | None:
    """The tree of `after`, made of parts of `old`, which is the tree of `before`; None if the whole
    file has to be parsed.
    """
    was, now = before.split(b"\n"), after.split(b"\n")
    if len(was) != len(now) or _is_odd(before) or _is_odd(after):
        return None
    if before == after:
        return old
    first = next(n for n, (left, right) in enumerate(zip(was, now, strict=True), 1) if left != right)
    last = len(now)
    while was[last - 1] == now[last - 1]:
        last -= 1
    if first <= 2 and b"coding" in b"".join((*was[:2], *now[:2])):
        return None
    body = old.body
    begin = next((n for n, stmt in enumerate(body) if (stmt.end_lineno or 0) >= first), len(body))
    end = next((n for n in range(begin, len(body)) if _start(body[n]) > last), len(body))
    start = (body[begin - 1].end_lineno or 0) + 1 if begin else 1
    stop = _start(body[end]) - 1 if end < len(body) else len(now)
    if not _stands_alone(body, begin) or not _stands_alone(body, end):
        return None
    part = b"\n".join(now[start - 1 : stop])
    if part.rstrip().endswith(b"\\"):
        return None  # the line goes on, or is cut off by the end of the file
    made = parse(b"\n" * (start - 1) + part + b"\n")
    if not isinstance(made, ast.Module):
        return None
    return ast.Module([*body[:begin], *made.body, *body[end:]], [])


def _is_odd(data: bytes) -> bool:
    """Whether lines are not what newlines alone say, or bytes are not what they look like."""
    head = data[:400]
    return (
        data.startswith(_BOM)
        or b"\0" in data
        or data.count(b"\r") != data.count(b"\r\n")
        or b"coding" in b"".join(head.split(b"\n", 2)[:2])
    )


def _start(stmt: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    return min(stmt.lineno, *(expr.lineno for expr in decorators)) if decorators else stmt.lineno


def _stands_alone(body: list[ast.stmt], at: int) -> bool:
    """Whether a statement begins on a line of its own."""
    return not (0 < at < len(body)) or _start(body[at]) > (body[at - 1].end_lineno or 0)
