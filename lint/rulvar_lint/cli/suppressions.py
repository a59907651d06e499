"""`--add-ignore`: accept today's findings by writing suppression comments."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from typing import TYPE_CHECKING, Final

from rulvar_lint.cli.fixing import write_text

if TYPE_CHECKING:
    from rulvar_lint.cli.session import Session

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_NATIVE: Final = re.compile(r"#\s*rulvar:\s*ignore\[([^\]\n]*)\]")
_NEVER: Final = frozenset({"RLV001", "RLV002", "RLV003"})


def add_ignores(session: Session) -> int:
    """Add a comment to each line with findings; tell how many, and where none can be put."""
    outcome = session.run()
    wanted: dict[str, dict[int, set[str]]] = {}
    for item in outcome.found:
        if item.path.endswith(".py") and item.code not in _NEVER:
            wanted.setdefault(item.path, {}).setdefault(item.line, set()).add(item.code)
    added = 0
    for path, lines in wanted.items():
        text, number, left = with_comments(session.source_text(path), lines)
        for line in left:
            sys.stderr.write(f"{path}:{line}: no place for a comment: the line continues with a backslash\n")
        if number and session.stdin_name is None:
            write_text(session.root / path, text)
        elif number:
            sys.stdout.write(text)
        added += number
    said = f"Added {added} suppression comment{'' if added == 1 else 's'}.\n"
    (sys.stderr if session.stdin_name is not None else sys.stdout).write(said)
    return 0


def with_comments(text: str, lines: dict[int, set[str]]) -> tuple[str, int, list[int]]:
    """The text with `# rulvar: ignore[...]` comments: (text, comments added or extended, lines
    without a place).
    """
    ends = _statement_ends(text)
    by_line: dict[int, set[str]] = {}
    for line, codes in lines.items():
        by_line.setdefault(ends.get(line, line), set()).update(codes)
    pieces = _NEWLINE.split(text)
    breaks = _NEWLINE.findall(text)
    left: list[int] = []
    number = 0
    for line, codes in by_line.items():
        body = pieces[line - 1]
        match = _NATIVE.search(body)
        if match is not None:
            known = {part.strip() for part in match[1].split(",") if part.strip()}
            listed = ", ".join(sorted(known | codes))
            pieces[line - 1] = f"{body[: match.start(1)]}{listed}{body[match.end(1) :]}"
        elif body.endswith("\\"):
            left.append(line)
            continue
        else:
            gap = "" if body.endswith(" ") else "  "
            pieces[line - 1] = f"{body}{gap}# rulvar: ignore[{', '.join(sorted(codes))}]"
        number += 1
    return (
        "".join(piece + end for piece, end in zip(pieces, [*breaks, ""], strict=True)),
        number,
        left,
    )


def _statement_ends(text: str) -> dict[int, int]:
    """For lines inside a text over several lines: the line where that text ends."""
    ends: dict[int, int] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.end[0] > token.start[0] and token.string.strip():
                for line in range(token.start[0], token.end[0]):
                    ends[line] = max(ends.get(line, 0), token.end[0])
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass
    return ends
