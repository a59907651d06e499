"""Answers to what a run waits for: how a typed text becomes a value, and asking for it on a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rulvar.cli.arguments import json_argument, loose_value
from rulvar.cli.driving import interruptible
from rulvar.cli.printable import clip
from rulvar.cli.terminal import Terminal
from rulvar.errors import ConfigError, ResolutionError

if TYPE_CHECKING:
    from rulvar.contracts.outcome import Pending
    from rulvar.engine.engine import Engine

__all__ = ["answer_value", "ask_pending", "is_approval"]

_YES = frozenset({"y", "yes", "true"})
_NO = frozenset({"n", "no", "false"})
_MOST_CHOICES = 20
_LONGEST_SHOWN = 60


def is_approval(key: str) -> bool:
    """Whether a wait is for the approval of a tool call."""
    return key.startswith("approval:")


def answer_value(text: str, pending: Pending) -> Any:
    """Return the value that a typed text means for a wait.

    ``@FILE`` and ``-`` are read as JSON. A wait for a text takes the text, one for a yes or no takes
    ``yes`` and ``no``, an approval takes ``allow`` and ``deny [reason]`` and nothing else; else JSON is
    read as JSON, and what is no JSON is a text.

    Raises:
        ConfigError: a file cannot be read, or the text is no answer to an approval.
    """
    is_reference = text == "-" or text.startswith("@")
    if is_approval(pending.key):
        return _decision(json_argument(text, "value")) if is_reference else _approval(text)
    if is_reference:
        return json_argument(text, "value")
    schema = pending.schema if isinstance(pending.schema, Mapping) else {}
    choices = schema.get("enum")
    if isinstance(choices, list) and text in choices:
        return text
    kind = schema.get("type")
    if kind == "string":
        value = loose_value(text)
        return value if isinstance(value, str) else text
    if kind == "boolean" and text.strip().lower() in _YES | _NO:
        return text.strip().lower() in _YES
    return loose_value(text)


async def ask_pending(engine: Engine, run_id: str, pending: Sequence[Pending], terminal: Terminal) -> int:
    """Ask a person for every wait of a run, and journal the answers; return how many there were.

    A value that a wait refuses is asked for again. An empty line leaves a wait open, the end of input
    leaves all that are left.
    """
    answered = 0
    for item in pending:
        await _introduce(engine, run_id, item, terminal)
        while True:
            text = _read_line(terminal)
            if text is None:
                return answered
            if not text.strip():
                terminal.say(("left open", "dim"))
                break
            try:
                await engine.resolve_external(run_id, item.key, answer_value(text, item))
            except (ResolutionError, ConfigError) as error:
                terminal.say(("refused  ", "yellow"), error.message)
                continue
            answered += 1
            break
    return answered


async def _introduce(engine: Engine, run_id: str, item: Pending, terminal: Terminal) -> None:
    terminal.say("")
    terminal.say(("? ", "cyan"), (item.key, "bold"))
    if item.prompt is not None:
        terminal.say_block(str(item.prompt), "  ")
    if is_approval(item.key):
        entries = await engine.store.load(run_id)
        asked = next((entry.value for entry in entries if entry.seq == item.entry_ref), None)
        if isinstance(asked, dict):
            terminal.say_block(json.dumps(asked.get("input"), ensure_ascii=False, indent=2), "  ")
    terminal.say((f"  {_expectation(item)}; empty line: leave it open; Ctrl-D: leave all open", "dim"))


def _expectation(item: Pending) -> str:
    if is_approval(item.key):
        return "allow, or deny and why"
    schema = item.schema
    if not isinstance(schema, Mapping):
        return "JSON, or a text"
    choices = schema.get("enum")
    if isinstance(choices, list) and len(choices) <= _MOST_CHOICES:
        return "one of " + ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    kind = schema.get("type")
    if kind == "string":
        return "a text"
    if kind == "boolean":
        return "yes or no"
    if kind in ("integer", "number"):
        return "a number" if kind == "number" else "a whole number"
    return f"JSON that fits {json.dumps(schema, ensure_ascii=False)}"


def _approval(text: str) -> dict[str, str]:
    word, _, rest = text.strip().partition(" ")
    decision, rest = word.rstrip(":,").lower(), rest.strip()
    if decision in _YES | {"allow"} and not rest:
        return {"decision": "allow"}
    if decision in _NO | {"deny"}:
        return {"decision": "deny", "reason": rest} if rest else {"decision": "deny"}
    return _decision(loose_value(text))


def _decision(value: Any) -> dict[str, str]:
    """Return a value that decides an approval; it is final, so nothing is guessed."""
    if isinstance(value, dict) and value.get("decision") in ("allow", "deny"):
        if set(value) == {"decision"}:
            return value
        if set(value) == {"decision", "reason"} and isinstance(value["reason"], str):
            return value
    shown = clip(json.dumps(value, ensure_ascii=False), _LONGEST_SHOWN)
    raise ConfigError(
        f"{shown} does not answer an approval: write allow (or yes), deny (or no) and why if you like, "
        'or {"decision": "allow" | "deny", "reason": "..."}; the wait stays open',
        data={"field": "VALUE"},
    )


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
