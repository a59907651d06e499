"""Asking a person at a terminal for what a run waits for, and journaling the answers."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulvar.cli.answers import answer_value, expectation
from rulvar.cli.driving import interruptible
from rulvar.cli.machine_questions import asked_together
from rulvar.cli.questions import inputs_of
from rulvar.cli.terminal import Terminal
from rulvar.errors import ConfigError, ResolutionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rulvar.contracts.outcome import Pending
    from rulvar.engine.engine import Engine

__all__ = ["ask_pending"]

_LEAVE = "empty line: leave it open; Ctrl-D: leave all open"


async def ask_pending(engine: Engine, run_id: str, pending: Sequence[Pending], terminal: Terminal) -> int:
    """Ask a person for every wait of a run, and journal the answers; return how many there were.

    A value that a wait refuses is asked for again. An empty line leaves a wait open, the end of input
    leaves all that are left.
    """
    entries = await engine.store.load(run_id)
    inputs = inputs_of(entries)
    answered = 0
    for ways in asked_together(pending, entries, run_id):
        _introduce(ways, inputs, terminal)
        while True:
            text = _read_line(terminal)
            if text is None:
                return answered
            if not text.strip():
                terminal.say(("left open", "dim"))
                break
            try:
                way, value = _chosen(text, ways)
                await engine.resolve_external(run_id, way.key, answer_value(value, way))
            except (ResolutionError, ConfigError) as error:
                terminal.say(("refused  ", "yellow"), error.message)
                continue
            answered += 1
            break
    return answered


def _introduce(ways: Sequence[Pending], inputs: Mapping[int, Any], terminal: Terminal) -> None:
    first = ways[0]
    terminal.say("")
    terminal.say(("? ", "cyan"), (" or ".join(way.transition or way.key for way in ways), "bold"))
    if first.prompt is not None:
        terminal.say_block(str(first.prompt), "  ")
    if first.entry_ref in inputs:
        terminal.say_block(json.dumps(inputs[first.entry_ref], ensure_ascii=False, indent=2), "  ")
    wanted = expectation(first) if len(ways) == 1 else "one of " + ", ".join(_way_text(way) for way in ways)
    terminal.say((f"  {wanted}; {_LEAVE}", "dim"))


def _way_text(way: Pending) -> str:
    value = "" if way.schema is None else f" followed by {expectation(way)}"
    return f"{way.transition or way.key}{value}"


def _chosen(text: str, ways: Sequence[Pending]) -> tuple[Pending, str]:
    """Return the wait that a typed line answers, and the text that answers it.

    Raises:
        ConfigError: there are several, and the line names none of them or leaves out its value.
    """
    if len(ways) == 1:
        return ways[0], text
    word, _, rest = text.strip().partition(" ")
    way = next((way for way in ways if word in (way.transition, way.key)), None)
    if way is None:
        names = ", ".join(way.transition or way.key for way in ways)
        raise ConfigError(f"{word!r} is none of them; begin the line with one of {names}")
    if rest.strip() or way.schema is None:
        return way, rest.strip() or "yes"
    raise ConfigError(f"{word} takes a value: write {word} followed by {expectation(way)}")


def _read_line(terminal: Terminal) -> str | None:
    """Read a line; None at the end of input."""
    with interruptible():
        try:
            if terminal.stdout.isatty():
                with contextlib.suppress(ImportError):
                    import readline  # noqa: F401  # editing of the line
                return input("> ")
            terminal.stderr.write("> ")
            terminal.stderr.flush()
            line = sys.stdin.readline()
            return line.rstrip("\n") if line else None
        except EOFError:
            terminal.stderr.write("\n")
            return None
        except KeyboardInterrupt:
            terminal.stderr.write("\n")
            raise
