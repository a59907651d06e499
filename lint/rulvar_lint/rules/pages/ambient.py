"""Clocks, chance, I/O and the host: the rules as people read them."""

from __future__ import annotations

from typing import Final

from rulvar_lint.rules.pages import ambient_effects, ambient_reads

TITLE: Final = "Clocks, chance, I/O and the host"
INTRO: Final = """\
Replayed code runs again from the top after every crash, edit and answer. Whatever it asks of
the world it must ask through ctx, in a step, or in a tool; otherwise the second answer differs
from the first.

Helpers are followed: a finding in a helper is reported where replayed code calls it, with the
chain. Inside the function given to `ctx.step`, inside tools and in host code everything here is
free."""

RULES: Final = (*ambient_reads.RULES, *ambient_effects.RULES)
