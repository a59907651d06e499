"""RLV501-RLV505: committed cassettes, and tests that would go live."""

from __future__ import annotations

import ast
import json
import re
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


# Secrets


_SHAPES: Final = (
    ("an API key", re.compile(r"(?<![A-Za-z0-9_-])[spr]k-[A-Za-z0-9_-]{16,}")),
    ("an API key", re.compile(r"(?<![A-Za-z0-9])[spr]k_(?:live|test|prod)_[A-Za-z0-9]{8,}")),
    (
        "a GitHub token",
        re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ),
    ("a GitLab token", re.compile(r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}")),
    ("an AWS access key", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])")),
    ("a Google API key", re.compile(r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{30,}")),
    ("a Google access token", re.compile(r"(?<![A-Za-z0-9])ya29\.[0-9A-Za-z_-]{20,}")),
    ("a Slack token", re.compile(r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a Hugging Face token", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{24,}")),
    ("an npm token", re.compile(r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}")),
    ("a SendGrid key", re.compile(r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}")),
    (
        "a JSON web token",
        re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}"),
    ),
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")),
    ("a bearer token", re.compile(r"(?<![A-Za-z])[Bb](?:earer|EARER)\s+([A-Za-z0-9._~+/=-]{12,})")),
    (
        "an authorization value",
        re.compile(
            r"(?:authorization|x-api-key|api[-_]?key|access[-_]?token|client[-_]?secret|password|secret[-_]?key)"
            r'\\*"?\s*[:=]\s*\\*"?(?:(?:Basic|Bearer|Token)\s+)?([A-Za-z0-9._~+/=-]{12,})',
            re.I,
        ),
    ),
)
_GATE: Final = re.compile(
    r"[spr]k[-_]|gh[pousr]_|github_pat|glpat|AKIA|ASIA|AIza|ya29|xox|hf_|npm_|SG\.|eyJ|PRIVATE "
    "KEY|earer|EARER"
    r"|authorization|api[-_]?key|token|secret|password",
    re.I,
)
_PLACEHOLDER: Final = re.compile(
    r"x{4,}|X{4,}|\*{3,}|\.\.\.|your|example|placeholder|redacted|dummy|change[-_]?me|<[^>]*>|0{8,}|insert",
    re.I,
)
# What these begin with is nothing else, whatever follows.
_CERTAIN: Final = re.compile(r"[spr]k_|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|AIza|xox|hf_|npm_|SG\.")
_DIGEST: Final = re.compile(
    r"(?:[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z",
    re.I,
)


def find_secret(text: str) -> tuple[int, int, str] | None:
    """(start, end, what) of the first secret-shaped text in a line."""
    if not _GATE.search(text):
        return None
    for what, shape in _SHAPES:
        for match in shape.finditer(text):
            value = match[1] if shape.groups else match[0]
            if what == "a private key" or _is_credential(value):
                return match.start(), match.end(), what
    return None


def _is_credential(value: str) -> bool:
    """Whether a text is a credential rather than words, a placeholder or a digest."""
    shown = value.removesuffix("EXAMPLE") if value.startswith(("AKIA", "ASIA")) else value
    if _PLACEHOLDER.search(shown) or _DIGEST.match(value):
        return False
    if _CERTAIN.match(value):
        return len(set(value)) > 6
    body = re.sub(r"^(?:[spr]k[-_](?:ant|proj|live|test|prod|or|svcacct)?[-_]?|Bearer\s+)", "", value)
    if len(set(body)) < 4:
        return False
    has_digit = any(char.isdigit() for char in body)
    mixed = any(char.islower() for char in body) and any(char.isupper() for char in body)
    upper = body.isupper() and has_digit
    return has_digit or mixed or upper
