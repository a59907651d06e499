"""A rule as plain text and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

    from rulvar_lint.core.rule import RuleInfo

_SAFETY: Final = {
    "safe": "`--fix` applies the fix.",
    "unsafe": (
        "`--fix --unsafe-fixes` applies the fix: it can change what a call is keyed by, or what a value is."
    ),
    "manual": "An editor offers a change; it is never applied by itself.",
    "none": "There is no automatic fix.",
}
_LETTER: Final = {"safe": "S", "unsafe": "U", "manual": "Q", "none": "-"}
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


def as_index(families: Iterable[ModuleType]) -> str:
    """The documentation page that lists all rules."""
    out = [
        "# The rules\n\n",
        "`E` is an error, `W` a warning. Fixes: `S` safe, `U` unsafe, `Q` offered in an editor.\n",
        "A rule in italics is off by default.\n",
    ]
    for family in families:
        name = family.RULES[0].family
        out.append(f"\n## [{family.TITLE}]({name}.md)\n\n")
        out.append("| code | name | | fix | what it finds |\n| --- | --- | --- | --- | --- |\n")
        for rule in family.RULES:
            code = rule.code if rule.default_on else f"*{rule.code}*"
            link = f"[{rule.name}]({name}.md#{rule.code.lower()}-{rule.name})"
            row = (code, link, rule.severity[0].upper(), _LETTER[rule.fix], rule.summary)
            out.append(f"| {' | '.join(row)} |\n")
    return "".join(out)


def write_pages(folder: str | Path, families: Iterable[ModuleType]) -> None:
    """Write the documentation pages of all families, and their index, into a folder."""
    chosen = list(families)
    for family in chosen:
        page = Path(folder) / f"{family.RULES[0].family}.md"
        page.write_text(as_page(family), "utf-8")
    (Path(folder) / "index.md").write_text(as_index(chosen), "utf-8")
