"""`rulvar-lint rule` and `rulvar-lint explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar_lint.cli.options import UsageError
from rulvar_lint.cli.settings import find_root
from rulvar_lint.core.spelling import nearest
from rulvar_lint.rules.pages import RULES, rule_info
from rulvar_lint.rules.pages.render import as_markdown, as_text

if TYPE_CHECKING:
    import argparse

    from rulvar_lint.core.diagnostic import Diagnostic
    from rulvar_lint.core.rule import RuleInfo


def rule(args: argparse.Namespace) -> int:
    """Print the pages of rules."""
    if args.all:
        chosen = list(RULES.values())
    elif args.codes:
        chosen = [_named(code) for code in args.codes]
    else:
        raise UsageError("rule: name a rule code, or use --all")
    if args.output_format == "json":
        import json

        data: Any = [as_json(item) for item in chosen]
        sys.stdout.write(json.dumps(data if args.all or len(data) > 1 else data[0], indent=2) + "\n")
    elif args.output_format == "markdown":
        sys.stdout.write("\n".join(as_markdown(item) for item in chosen))
    else:
        sys.stdout.write("\n".join(as_text(item) for item in chosen))
    return 0


def _named(code: str) -> RuleInfo:
    try:
        return rule_info(code)
    except KeyError:
        near = nearest(code, RULES)
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f"unknown rule `{code}`{hint}") from None


def as_json(item: RuleInfo) -> dict[str, Any]:
    """A rule as a JSON object."""
    return {
        "code": item.code,
        "name": item.name,
        "severity": item.severity,
        "fix": item.fix,
        "default": item.default_on,
        "family": item.family,
        "summary": item.summary,
        "why": item.why,
        "advice": item.advice,
        "bad": item.bad,
        "good": item.good,
        "suppress": item.suppress,
        "url": item.url,
    }


def explain(args: argparse.Namespace) -> int:
    """Print everything about the findings on one line, or about a rule."""
    path, colon, line = args.where.rpartition(":")
    if not colon or not line.isdigit():
        sys.stdout.write(as_text(_named(args.where)))
        return 0
    from rulvar_lint.project import Project

    if not Path(path).exists():
        raise UsageError(f"{path}: no such file")
    project = Project(find_root(args.root, [path]))
    found = [item for item in project.check_file(Path(path).resolve()) if item.line == int(line)]
    if not found:
        sys.stdout.write(f"No findings on line {line} of {path}.\n")
        return 0
    sys.stdout.write("\n".join(_story(item) for item in found))
    return 1


def _story(item: Diagnostic) -> str:
    lines = [
        f"{item.path}:{item.line}:{item.column}: {item.code} {item.name} ({item.severity})",
        "",
        item.message,
        "",
    ]
    if item.related:
        lines.append("How it gets there:")
        lines += [f"  {place.path}:{place.line}:{place.column}: {place.message}" for place in item.related]
        lines.append("")
    if item.fix is not None:
        kind = {"safe": "--fix", "unsafe": "--fix --unsafe-fixes", "manual": "in an editor"}[
            item.fix.applicability
        ]
        lines += [f"Fix ({kind}): {item.fix.message}", ""]
    info = RULES[item.code]
    lines += [f"Why: {info.why}", "", f"When to suppress: {info.suppress}", ""]
    return "\n".join(lines)
