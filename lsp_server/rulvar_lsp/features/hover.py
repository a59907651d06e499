"""Hover: what is known about the place under the pointer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rulvar_lsp.features.diagnostics import Finding
from rulvar_lsp.features.recorded import site_markdown
from rulvar_lsp.features.sites import PlacedSite
from rulvar_lsp.text import Span


@dataclass(frozen=True, slots=True)
class HoverText:
    """Markdown about a span."""

    markdown: str
    span: Span


def hover(
    line: int,
    column: int,
    placed: Iterable[PlacedSite],
    findings: Iterable[Finding],
    rule_text: Callable[[str], str | None],
) -> HoverText | None:
    """Return what the reports say of a call here, and what the rule of a finding here means."""
    blocks: list[str] = []
    span: Span | None = None
    for finding in findings:
        if finding.is_rule and finding.span.contains(line, column):
            text = rule_text(finding.code)
            if text:
                blocks.append(text)
                span = span or finding.span
    for site in placed:
        if site.span.contains(line, column):
            blocks.append(site_markdown(site))
            span = span or site.span
    return HoverText("\n\n---\n\n".join(blocks), span) if span is not None else None
