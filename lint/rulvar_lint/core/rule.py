"""The shape of a rule's description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from rulvar_lint.core.diagnostic import Severity

FixSafety = Literal["safe", "unsafe", "manual", "none"]


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """What is known about a rule; the same text makes its documentation page and its hover.

    Attributes:
        code: stable code such as "RLV101".
        name: stable kebab-case name.
        severity: of its findings, where a finding does not say otherwise.
        fix: the best fix it offers.
        default_on: whether it runs unless selected.
        summary: one line.
        why: why it breaks replay.
        bad: example with a finding; lines that have one end in `# RLVnnn`.
        good: the same, right.
        suppress: when it is reasonable to suppress it.
        advice: what to do instead; the end of each message.
        family: documentation page, `docs/rules/<family>.md`.
    """

    code: str
    name: str
    severity: Severity
    fix: FixSafety
    summary: str
    why: str
    bad: str
    good: str
    suppress: str
    family: str
    advice: str
    default_on: bool = True
    language: str = "python"

    @property
    def url(self) -> str:
        """Where the rule is described."""
        return f"{DOCS}{self.family}.md#{self.code.lower()}-{self.name}"


HOME: Final = "https://github.com/rulvar/rulvar"
DOCS: Final = f"{HOME}/blob/main/docs/rules/"
