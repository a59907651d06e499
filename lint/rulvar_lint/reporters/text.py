"""Findings for people: one line each, or with the source line and the chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rulvar_lint.core.diagnostic import Diagnostic

_STYLES: Final = {"error": "31", "warning": "33", "dim": "2", "bold": "1", "blue": "34"}
SourceLine = Callable[[str, int], str]


def paint(text: str, style: str, colour: bool) -> str:
    """The text in a colour, if colours are wanted."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour else text


def concise(found: Sequence[Diagnostic], colour: bool = False) -> str:
    """`path:line:column: CODE message`, one line each."""
    return "".join(f"{_head(item, colour)}\n" for item in found)


def _head(item: Diagnostic, colour: bool) -> str:
    mark = " [*]" if item.fix is not None and item.fix.applicability == "safe" else ""
    code = paint(item.code, item.severity, colour)
    where = paint(item.path, "bold", colour)
    return f"{where}:{item.line}:{item.column}: {code}{mark} {item.message}"


def full(found: Sequence[Diagnostic], source_line: SourceLine, colour: bool = False) -> str:
    """As `concise`, with the source line, the chain and the rule's page."""
    return "\n".join(_block(item, source_line, colour) for item in found) + ("\n" if found else "")


def _block(item: Diagnostic, source_line: SourceLine, colour: bool) -> str:
    text = source_line(item.path, item.line).replace("\t", " ")
    width = len(str(item.line))
    gutter = paint(f"{' ' * width} |", "blue", colour)
    lines = [_head(item, colour), gutter]
    if text.strip():
        end = item.end_column if item.end_line == item.line else len(text.rstrip()) + 1
        carets = "^" * max(end - item.column, 1)
        lines.append(f"{paint(f'{item.line} |', 'blue', colour)} {text.rstrip()}")
        lines.append(f"{gutter} {' ' * (item.column - 1)}{paint(carets, item.severity, colour)} {item.code}")
    for place in item.related:
        lines.append(f"{gutter} {place.path}:{place.line}:{place.column}: {place.message}")
    if item.fix is not None:
        kind = {"safe": "fix", "unsafe": "unsafe fix", "manual": "suggestion"}[item.fix.applicability]
        lines.append(f"{' ' * width} = {kind}: {item.fix.message}")
    lines.append(f"{' ' * width} = see: {item.url}")
    return "\n".join(lines) + "\n"


def statistics(found: Sequence[Diagnostic]) -> str:
    """How often each rule reports, most often first."""
    rows = count(found)
    width = max((len(str(number)) for _, _, number, _ in rows), default=1)
    return "".join(
        f"{number:>{width}}  {code}  [{'*' if fixable else ' '}] {name}\n"
        for code, name, number, fixable in rows
    )


def count(found: Sequence[Diagnostic]) -> list[tuple[str, str, int, bool]]:
    """(code, name, number of findings, whether any has a safe fix), most frequent first."""
    numbers: dict[str, tuple[str, int, bool]] = {}
    for item in found:
        name, number, fixable = numbers.get(item.code, (item.name, 0, False))
        safe = item.fix is not None and item.fix.applicability == "safe"
        numbers[item.code] = (name, number + 1, fixable or safe)
    rows = [(code, name, number, fixable) for code, (name, number, fixable) in numbers.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def summary(found: Sequence[Diagnostic], fixed: int = 0) -> str:
    """The closing lines of a text report."""
    parts = []
    if fixed:
        parts.append(f"Fixed {_number(fixed, 'finding')}.")
    if not found:
        parts.append("All checks passed." if not fixed else "No findings are left.")
        return " ".join(parts) + "\n"
    errors = sum(item.severity == "error" for item in found)
    warnings = len(found) - errors
    said = " and ".join(
        text
        for text, number in (
            (_number(errors, "error"), errors),
            (_number(warnings, "warning"), warnings),
        )
        if number
    )
    parts.append(f"Found {said}.")
    lines = [" ".join(parts)]
    safe = sum(item.fix is not None and item.fix.applicability == "safe" for item in found)
    unsafe = sum(item.fix is not None and item.fix.applicability == "unsafe" for item in found)
    if safe or unsafe:
        hidden = f" ({_number(unsafe, 'more')} with `--unsafe-fixes`)" if unsafe else ""
        lines.append(f"[*] {safe} fixable with `--fix`{hidden}.")
    return "\n".join(lines) + "\n"


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 or noun == 'more' else 's'}"
