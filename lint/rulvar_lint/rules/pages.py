"""The rules by code."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import DOCS, RuleInfo
from rulvar_lint.rules.table import ROWS

_FAMILIES: Final = (
    ("RLV00", "comments"),
    ("RLV1", "ambient"),
    ("RLV2", "values"),
    ("RLV3", "context"),
    ("RLV4", "identity"),
    ("RLV5", "cassettes"),
)
RULES: Final[dict[str, RuleInfo]] = {
    row.code: RuleInfo(
        code=row.code,
        name=row.name,
        severity=row.severity,  # type: ignore[arg-type]
        fix=row.fix,  # type: ignore[arg-type]
        summary=row.advice,
        why="",
        bad="",
        good="",
        suppress="",
        family=next(family for prefix, family in _FAMILIES if row.code.startswith(prefix)),
        default_on=row.default_on,
        advice=row.advice,
    )
    for row in ROWS
}
CODES: Final = frozenset(RULES)
__all__ = ["CODES", "DOCS", "RULES", "rule_info"]


def rule_info(code: str) -> RuleInfo:
    """The description of a rule.

    Raises:
        KeyError: there is no such rule.
    """
    return RULES[code.upper()]
