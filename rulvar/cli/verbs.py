"""The verbs: their names, what they do in a line, and the module that does it.

A verb's module is loaded when the verb is used. It has ``declare(parser)``, which adds arguments, and
``execute(options, terminal)``, which returns the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from rulvar.cli.exits import OK, USAGE
from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rulvar.cli.terminal import Part, Terminal

__all__ = ["VERBS", "Verb", "find_verb", "is_help", "show_help"]


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the command line."""

    name: str
    module: str
    summary: str

    def run(self, words: Sequence[str], terminal: Terminal) -> int:
        """Parse the words after the verb and do it; return the exit code.

        Raises:
            ConfigError: the words are wrong.
        """
        from rulvar.cli.arguments import Parser

        home = import_module(self.module)
        parser = Parser(f"rulvar {self.name}", home.__doc__ or self.summary)
        home.declare(parser)
        try:
            options = parser.parse_args(words)
        except SystemExit:  # --help has been printed
            return OK
        code: int = home.execute(options, terminal)
        return code


def _own(name: str, module: str, summary: str) -> Verb:
    return Verb(name, f"rulvar.cli.commands.{module}", summary)


VERBS: tuple[Verb, ...] = (
    _own("run", "run", "start a run of a workflow"),
    _own("resume", "resume", "continue a run: finished calls are served from its journal"),
    _own("answer", "answer", "answer what a run waits for"),
    _own("cancel", "cancel", "cancel a run that waits, or that workers drive"),
    _own("worker", "worker", "drive runs that were handed to a queue"),
    _own("replay", "replay", "replay a run strictly: no live call, nothing written"),
    _own("runs", "runs_show", "show a run as a tree; --record makes a tool fixture of it"),
    _own("runs ls", "runs_ls", "list the runs of a store"),
    _own("runs audit", "runs_audit", "check journals and meta rows; --repair mends what can be mended"),
    _own("inspect", "inspect_run", "show what a run did, call by call"),
    _own("diff", "diff", "compare two journals: the first divergence in each scope"),
    _own("export", "export_run", "write a run into one file"),
    _own("import", "import_run", "bring a run in from such a file"),
    _own("cassette ls", "cassette_ls", "list cassettes"),
    _own("cassette show", "cassette_show", "show the rows of a cassette"),
    _own("cassette stats", "cassette_stats", "say what cassettes add up to"),
    _own("cassette check", "cassette_check", "find secrets and damage in cassettes"),
    _own("cassette diff", "cassette_diff", "compare two cassettes"),
    _own("cassette explain", "cassette_explain", "say why a request is not served"),
    _own("cassette prune", "cassette_prune", "remove rows that no test uses"),
    _own("cassette merge", "cassette_merge", "write several cassettes into one"),
    _own("shake", "shake", "run workflows again under other conditions: which calls move"),
    _own("version", "version", "print versions"),
)

_PROGRAMS = ("lint", "lsp")
_HELP = ("-h", "--help", "help")


def find_verb(words: Sequence[str]) -> tuple[Verb, list[str]]:
    """Return the verb that a command line starts with, and the words behind it.

    Raises:
        ConfigError: there is no such verb; names the nearest.
    """
    by_name = {verb.name: verb for verb in VERBS}
    for count in (2, 1):
        verb = by_name.get(" ".join(words[:count]))
        if verb is not None:
            if count == 1 and _is_group(verb.name):
                _refuse_verb_in_place_of_run(words)
            return verb, list(words[count:])
    raise ConfigError(_not_a_verb(words), data={"field": "verb"})


def _refuse_verb_in_place_of_run(words: Sequence[str]) -> None:
    """Refuse ``runs show RUN``: a verb that takes one run has no second word."""
    from rulvar.cli.hints import did_you_mean, near_verb

    if len(words) < 3 or any(word.startswith("-") for word in words[1:3]):
        return
    near = near_verb(words[1], VERBS)
    if near is not None:
        meant = " ".join(["rulvar", near, *(words[2:3] if near != "runs ls" else ())])
        raise ConfigError(
            f"no such verb: {' '.join(words[:2])!r}; {did_you_mean([meant], '')}", data={"field": "verb"}
        )


def _not_a_verb(words: Sequence[str]) -> str:
    from rulvar.cli.hints import did_you_mean, near_verb

    group = [verb.name for verb in VERBS if verb.name.startswith(f"{words[0]} ")]
    if group and len(words) > 1:
        near = near_verb(words[1], VERBS, words[0])
        hint = did_you_mean([f"rulvar {near}"] if near else [], f"there are {', '.join(group)}")
        return f"no such verb: {' '.join(words[:2])!r}; {hint}"
    if group:
        return f"{words[0]}: say what: {', '.join(group)}"
    if words[0].startswith("-"):
        return f"no such verb: {words[0]!r}; options stand behind the verb: rulvar VERB {words[0]}"
    if words[0] in _PROGRAMS:
        return f"no such verb: {words[0]!r}; rulvar-{words[0]} is a program of its own"
    near = near_verb(words[0], VERBS)
    hint = did_you_mean([f"rulvar {near}"] if near else [], "see rulvar --help")
    return f"no such verb: {words[0]!r}; {hint}"


def is_help(words: Sequence[str]) -> bool:
    """Whether a command line asks for help on all verbs, or on a group of them."""
    if not words or words[0] in _HELP:
        return True
    return len(words) == 2 and words[1] in _HELP[:2] and _is_group(words[0])


def show_help(terminal: Terminal, words: Sequence[str]) -> int:
    """Print the verbs, a group of them, or the help of one; without any word that is a usage error."""
    named = [word for word in words if word not in _HELP]
    if named and not (len(named) == 1 and _is_group(named[0])):
        verb, _ = find_verb(named)
        return verb.run(["--help"], terminal)
    group = f"{named[0]} " if named else ""
    write = terminal.out if words else terminal.say
    for verb in VERBS:
        if named and verb.name == named[0]:
            verb.run(["--help"], terminal)
            write("")
    lines: list[tuple[Part, ...]] = [
        (f"usage: rulvar {group}VERB ...",),
        ("",),
        *(
            (("  ", (f"{verb.name:<18}", "bold"), verb.summary))
            for verb in VERBS
            if verb.name.startswith(group)
        ),
        ("",),
        (f"rulvar {group}VERB --help says more. Every verb takes --json.",),
        ("exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 waiting for an answer",),
    ]
    for line in lines:
        write(*line)
    return OK if words else USAGE


def _is_group(word: str) -> bool:
    return any(verb.name.startswith(f"{word} ") for verb in VERBS)
