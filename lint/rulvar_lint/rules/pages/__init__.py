"""The rules as people read them.

One text serves as message, hover, `rulvar-lint rule`, documentation and test.
"""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import DOCS, RuleInfo
from rulvar_lint.rules.pages import ambient, cassettes, comments, context, identity, values

FAMILIES: Final = (comments, ambient, values, context, identity, cassettes)
RULES: Final[dict[str, RuleInfo]] = {rule.code: rule for family in FAMILIES for rule in family.RULES}
CODES: Final = frozenset(RULES)

__all__ = ["CODES", "DOCS", "FAMILIES", "RULES", "rule_info"]


def rule_info(code: str) -> RuleInfo:
    """The description of a rule, by code or by name.

    Raises:
        KeyError: there is no such rule.
    """
    found = RULES.get(code.upper())
    if found is not None:
        return found
    return (
        next(rule for rule in RULES.values() if rule.name == code.lower()) if _is_name(code) else RULES[code]
    )


def _is_name(code: str) -> bool:
    return any(rule.name == code.lower() for rule in RULES.values())
