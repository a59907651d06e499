"""Hover: what is known about the place under the pointer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulvar_lsp.features.diagnostics import Finding
from rulvar_lsp.features.forecast import Forecast, forecast_markdown
from rulvar_lsp.features.recorded import site_markdown
from rulvar_lsp.features.sites import PlacedSite
from rulvar_lsp.text import Span

if TYPE_CHECKING:
    from rulvar_lint import RuleInfo

RULE = "\n\n---\n\n"


@dataclass(frozen=True, slots=True)
class HoverText:
    """Markdown about a span."""

    markdown: str
    span: Span


def hover(
    line: int,
    column: int,
    placed: Iterable[PlacedSite],
    forecasts: Iterable[Forecast],
    findings: Iterable[Finding],
    rule_of: Callable[[str], RuleInfo | None],
) -> HoverText | None:
    """Return what the reports or the text say of a call here, and what the rule of a finding here means."""
    blocks: list[str] = []
    span: Span | None = None
    for finding in findings:
        if finding.is_rule and finding.span.contains(line, column):
            rule = rule_of(finding.code)
            if rule is not None:
                blocks.append(rule_markdown(rule))
                span = span or finding.span
    for site in placed:
        if site.span.contains(line, column):
            blocks.append(site_markdown(site))
            span = span or site.span
    for forecast in forecasts:
        if forecast.span.contains(line, column):
            blocks.append(forecast_markdown(forecast))
            span = span or forecast.span
    return HoverText(RULE.join(blocks), span) if span is not None else None


def rule_markdown(rule: RuleInfo) -> str:
    """What a rule is about, why, and what to write instead."""
    return (
        f"**{rule.code}** {rule.name}: {rule.summary}\n\n{rule.why}\n\n"
        f"```{rule.language}\n{rule.good.strip()}\n```\n\n[{rule.code}]({rule.url})"
    )
