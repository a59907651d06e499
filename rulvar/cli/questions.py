"""What a run waits for, as people and programs are told it: with the calls that are to be approved."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.cli.answers import inlined
from rulvar.cli.machine_questions import with_questions
from rulvar.cli.terminal import Terminal

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry
    from rulvar.contracts.outcome import Pending

__all__ = ["Questions", "inputs_of", "options_again", "questions_of"]

_AGAIN = ("store", "config")
"""Options without which another command would look for the run somewhere else."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The open waits of a run.

    Attributes:
        inputs: by the seq of an approval, what its tool would be called with.
        options: what a command that answers must repeat, from the one that was given.
        code: the workflow as a command that resumes must name it, unless the project lists it; behind a space.
    """

    run_id: str
    pending: Sequence[Pending]
    inputs: Mapping[int, Any]
    options: str = ""
    code: str = ""

    def to_wire(self) -> list[dict[str, Any]]:
        """Return the JSON objects: those of the waits, an approval with its ``input``."""
        return [
            {**item.to_wire(), "input": self.inputs[item.entry_ref]}
            if item.entry_ref in self.inputs
            else item.to_wire()
            for item in self.pending
        ]

    def show(self, terminal: Terminal) -> None:
        """Write what is waited for, and how to answer."""
        for item in self.pending:
            where = f" (in {item.scope})" if item.scope else ""
            name = self._name(item)
            key = "" if name == item.key else f"  {item.key}"
            terminal.out("  waits for ", (name, "cyan"), where, (key, "dim"))
            if item.prompt is not None:
                terminal.out_block(str(item.prompt), "    ")
            if item.entry_ref in self.inputs:
                told = json.dumps(self.inputs[item.entry_ref], ensure_ascii=False)
                terminal.out(f"    input  {told}")
            if item.schema is not None:
                schema = inlined(item.schema) if isinstance(item.schema, dict) else item.schema
                terminal.out(f"    schema {json.dumps(schema, ensure_ascii=False)}")
        if self.pending:
            run = f"{self.run_id}{self.code}{self.options}"
            key = shlex.quote(self._name(self.pending[0])) if len(self.pending) == 1 else "KEY"
            terminal.out(
                f"  answer   rulvar answer {self.run_id} {key} VALUE{self.options}, then rulvar resume {run}"
            )

    def _name(self, item: Pending) -> str:
        """Return the shortest text by which a wait can be answered: its transition, where no other has that name."""
        same = [other for other in self.pending if item.transition in (other.transition, other.key)]
        return item.transition if item.transition is not None and len(same) == 1 else item.key


def questions_of(
    run_id: str,
    pending: Sequence[Pending],
    entries: Sequence[JournalEntry],
    options: argparse.Namespace,
) -> Questions:
    """Return what a run waits for, as its journal and the command line tell it."""
    asked = with_questions(pending, entries, run_id)
    return Questions(run_id, asked, inputs_of(entries), options_again(options), _code(options))


def _code(options: argparse.Namespace) -> str:
    named = getattr(options, "workflow", None)
    return f" {shlex.quote(named)}" if isinstance(named, str) and ":" in named else ""


def inputs_of(entries: Sequence[JournalEntry]) -> dict[int, Any]:
    """Return what is to be approved: by the seq of an approval, what its tool would be called with."""
    asked = {entry.seq: entry.value for entry in entries if entry.kind == "approval" and entry.ref is None}
    return {
        seq: value["input"] for seq, value in asked.items() if isinstance(value, dict) and "input" in value
    }


def options_again(options: argparse.Namespace) -> str:
    """Return the options that another command on the same run must repeat, behind a space each."""
    given = [(name, getattr(options, name, None)) for name in _AGAIN]
    return "".join(f" --{name} {_shown(value)}" for name, value in given if value is not None)


def _shown(value: str) -> str:
    """Return an option's value as it is typed; an address may hold a password, which is not repeated."""
    has_address = "://" in value and not value.startswith("sqlite:")
    return "..." if has_address else shlex.quote(value)
