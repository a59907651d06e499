"""RLV501-RLV505: committed cassettes, and tests that would go live."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.effects import Cause
from rulvar_lint.core.values import Const
from rulvar_lint.rules.wording import plain

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.diagnostic import Diagnostic
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.source import Source
    from rulvar_lint.core.values import Ext

CURRENT: Final = 2
TERMINAL: Final = frozenset({"finish", "error"})


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge in Python code."""
    hooks.on_call("rulvar.testing.replay rulvar.replay rulvar.testing.cassette.replay", _passthrough)


def _passthrough(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    """RLV504."""
    value = args.get(1, "on_miss")
    if f.module.is_test and isinstance(value, Const) and value.value == "passthrough":
        cause = Cause(
            "RLV504",
            "a miss goes to the live provider and costs money",
            f.place(node),
            (),
            "warning",
        )
        expr = args.kw_nodes.get("on_miss")
        fix = (
            ("unsafe", 'Replace by "throw"', [(expr, '"throw"')], "replace")
            if isinstance(expr, ast.Constant)
            else None
        )
        f.m.report(f, node, cause, fix=fix)


def check_cassette(source: Source) -> list[Diagnostic]:
    """RLV501, RLV502, RLV503 and RLV505 for one cassette file."""
    from rulvar_lint.rules.secrets import find_secret  # its many patterns take a while to compile

    found: list[Diagnostic] = []
    rows: list[tuple[int, str]] = []
    for number, text in enumerate(source.lines, 1):
        secret = find_secret(text)
        if secret is not None:
            start, end, what = secret
            found.append(
                plain("RLV501", source.path, number, start + 1, end + 1, f"the cassette holds {what}")
            )
        if text.strip():
            rows.append((number, text))
    if not rows:
        return [
            *found,
            plain("RLV502", source.path, 1, 1, 1, "the cassette is empty: it has no header"),
        ]
    found += _header(source, *rows[0])
    found += _rows(source, rows[1:])
    return found


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _header(source: Source, line: int, text: str) -> list[Diagnostic]:
    end = len(text) + 1
    header = _parse(text)
    if not isinstance(header, dict):
        return [plain("RLV502", source.path, line, 1, end, "the first line is no cassette header")]
    wrong = [
        name
        for name, good in (
            ("kind", header.get("kind") == "rulvar-vcr"),
            ("v", header.get("v") == 1 and header.get("v") is not True),
            ("hashVersion", _is_int(header.get("hashVersion"))),
            ("recordedAt", isinstance(header.get("recordedAt"), str)),
        )
        if not good
    ]
    if wrong:
        names = ", ".join(f"`{name}`" for name in wrong)
        return [
            plain(
                "RLV502",
                source.path,
                line,
                1,
                end,
                f"the header lacks {names}, or holds a wrong value there",
            )
        ]
    version = header["hashVersion"]
    if not CURRENT - 1 <= version <= CURRENT:
        what = f"hashVersion {version} is outside the supported window {CURRENT - 1} to {CURRENT}"
        return [plain("RLV503", source.path, line, 1, end, what)]
    return []


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _rows(source: Source, rows: list[tuple[int, str]]) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    groups: dict[tuple[str, str], list[tuple[int, int, Any]]] = {}
    for line, text in rows:
        row = _parse(text)
        if not isinstance(row, dict):
            found.append(_row(source, line, text, "the row is not a JSON object"))
            continue
        problem = _terminal_problem(row.get("events"))
        if problem:
            found.append(_row(source, line, text, problem))
        key = (str(row.get("adapterId")), str(row.get("requestHash")))
        groups.setdefault(key, []).append((line, len(text), row.get("occurrence")))
    for (_, request), members in groups.items():
        if not all(_is_int(number) for _, _, number in members):
            continue
        seen: set[int] = set()
        for line, length, number in members:
            if number in seen:
                what = f"occurrence {number} of request {request[:12]} is recorded twice"
                found.append(plain("RLV505", source.path, line, 1, length + 1, what))
            seen.add(number)
    return found


def _row(source: Source, line: int, text: str, what: str) -> Diagnostic:
    return plain("RLV505", source.path, line, 1, len(text) + 1, what)


def _terminal_problem(events: object) -> str:
    kinds = (
        [event.get("type") if isinstance(event, dict) else None for event in events]
        if isinstance(events, list)
        else []
    )
    count = sum(kind in TERMINAL for kind in kinds)
    if count == 0:
        return "the row has no terminal event"
    if count > 1:
        return "the row has more than one terminal event"
    return "" if kinds[-1] in TERMINAL else "the terminal event of the row is not its last event"
