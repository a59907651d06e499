"""Parse only what an edit touched. A file is a sequence of top-level statements; those before and
after the edit keep their trees.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from rulvar_lint.core.blocks import Block, blocks_of

_BOM: Final = b"\xef\xbb\xbf"

# What an edit touched may belong to the statement before it (a new last line of a function) or behind
# it (a decorator): (statements more in front, statements more behind), in the order they are tried.
_REACH: Final = ((0, 0), (1, 0), (0, 1))


def reparse(
    old: list[Block], before: bytes, after: bytes, parse: Callable[[bytes], object]
) -> list[Block] | None:
    """The statements of `after`, made of parts of `old`, which are those of `before`; None if the
    whole file has to be parsed.
    """
    if before == after:
        return old
    was, now = before.split(b"\n"), after.split(b"\n")
    if _is_odd(before) or _is_odd(after):
        return None
    first, last, shift = _difference(was, now)
    if first <= 2 and b"coding" in b"".join((*was[:2], *now[:2])):
        return None
    begin = next((n for n, block in enumerate(old) if block.last >= first), len(old))
    end = next((n for n in range(begin, len(old)) if old[n].first > last), len(old))
    for front, behind in _REACH:
        low, high = max(begin - front, 0), min(end + behind, len(old))
        if _stands_alone(old, low) and _stands_alone(old, high):
            start = old[low - 1].last + 1 if low else 1
            stop = old[high].first - 1 + shift if high < len(old) else len(now)
            made = _part(now, start, stop, parse)
            if made is not None:
                rest = old[high:]
                return [*old[:low], *made, *([block.moved(shift) for block in rest] if shift else rest)]
    return None


def _difference(was: list[bytes], now: list[bytes]) -> tuple[int, int, int]:
    """(first line that differs, last line of the old text that does, lines that were added)."""
    shorter = min(len(was), len(now))
    head = next((n for n in range(shorter) if was[n] != now[n]), shorter)
    tail = next((n for n in range(shorter - head) if was[-1 - n] != now[-1 - n]), shorter - head)
    return head + 1, len(was) - tail, len(now) - len(was)


def _part(now: list[bytes], start: int, stop: int, parse: Callable[[bytes], object]) -> list[Block] | None:
    part = b"\n".join(now[start - 1 : stop])
    if part.rstrip().endswith(b"\\") or (start > 1 and now[start - 2].rstrip().endswith(b"\\")):
        return None  # a line goes on, or is cut off by the end of the file
    made = parse(b"\n" * (start - 1) + part + b"\n")
    return blocks_of(made.body) if isinstance(made, ast.Module) else None


def _is_odd(data: bytes) -> bool:
    """Whether lines are not what newlines alone say, or bytes are not what they look like."""
    head = data[:400]
    return (
        data.startswith(_BOM)
        or b"\0" in data
        or data.count(b"\r") != data.count(b"\r\n")
        or b"coding" in b"".join(head.split(b"\n", 2)[:2])
    )


def _stands_alone(blocks: list[Block], at: int) -> bool:
    """Whether a statement begins on a line of its own."""
    return not (0 < at < len(blocks)) or blocks[at].first > blocks[at - 1].last
