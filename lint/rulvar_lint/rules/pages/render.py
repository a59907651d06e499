"""A rule as plain text and as Markdown."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

    from rulvar_lint.core.rule import RuleInfo

_SAFETY: Final = {
    "safe": "`--fix` applies the fix.",
    "unsafe": (
        "`--fix --unsafe-fixes` applies the fix: it can change what a call is keyed by, or what a "
        "value is."
    ),
    "manual": "An editor offers a change; it is never applied by itself.",
    "none": "There is no automatic fix.",
}
_FENCE: Final = {"python": "python", "python-test": "python", "jsonl": "json"}


def as_text(rule: RuleInfo) -> str:
    """The page of a rule for a terminal."""
    default = "" if rule.default_on else ", off by default"
    parts = [
        f"{rule.code} {rule.name} ({rule.severity}{default})",
        "",
        rule.summary,
        "",
        _filled(f"Why it breaks replay: {rule.why}"),
        "",
        "Bad:",
        textwrap.indent(rule.bad, "    ").rstrip(),
        "",
        "Good:",
        textwrap.indent(rule.good, "    ").rstrip(),
        "",
        f"Instead: {rule.advice}.",
        f"Fix: {_SAFETY[rule.fix]}",
        _filled(f"When to suppress: {rule.suppress}"),
        f"See: {rule.url}",
        "",
    ]
    return "\n".join(parts)


def _filled(text: str) -> str:
    return textwrap.fill(text, 100)


def as_markdown(rule: RuleInfo) -> str:
    """The section of a rule in its family's page."""
    default = "" if rule.default_on else " Off by default; select it with `--extend-select`."
    fence = _FENCE[rule.language]
    return (
        f"## {rule.code} {rule.name}\n\n"
        f"{rule.summary} Severity: {rule.severity}.{default}\n\n"
        f"**Why it breaks replay.** {rule.why}\n\n"
        f"Bad:\n\n```{fence}\n{rule.bad.rstrip()}\n```\n\n"
        f"Good:\n\n```{fence}\n{rule.good.rstrip()}\n```\n\n"
        f"**Instead:** {rule.advice}. **Fix:** {_SAFETY[rule.fix]}\n\n"
        f"**When to suppress.** {rule.suppress}\n"
    )


def as_page(family: ModuleType) -> str:
    """The documentation page of a family."""
    head = f"# {family.TITLE}\n\n{family.INTRO}\n\n"
    return head + "\n".join(as_markdown(rule) for rule in family.RULES)
