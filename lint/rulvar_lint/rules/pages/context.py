"""Using ctx: the rules as people read them."""

from __future__ import annotations

from typing import Final

from rulvar_lint.rules.pages import context_calls, context_steps

TITLE: Final = "Using ctx"
INTRO: Final = """\
How ctx is awaited, scheduled, passed on and kept out of steps."""

RULES: Final = (*context_calls.RULES, *context_steps.RULES)
