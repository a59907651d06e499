"""Shell command lines, split as a shell splits them, and matched against argv patterns.

A command line is a list of segments, one per simple command. A segment whose text does not tell what
runs (a substitution, a here-document) is opaque: no pattern matches it, and a human is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

__all__ = ["Segment", "judge_command", "judge_segment", "lex_shell", "match_argv"]

_SEPARATORS = frozenset(";|&\n")
_BLANKS = frozenset(" \t")
_OPAQUE = ("$(", "<(", ">(", "<<")
_DUPLICATIONS = (">&", "<&")


@dataclass(frozen=True, slots=True)
class Segment:
    """One simple command.

    Attributes:
        argv: its words, quotes and escapes resolved, leading assignments left out.
        opaque: whether it holds a substitution or a here-document, so that the text does not tell what runs.
    """

    argv: tuple[str, ...]
    opaque: bool = False


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._word: list[str] | None = None
        self._words: list[str] = []
        self._opaque = False
        self.segments: list[Segment] = []

    def run(self) -> tuple[Segment, ...]:
        readers: dict[str, Callable[[], None]] = {
            "'": self._single_quoted,
            '"': self._double_quoted,
            "\\": self._escaped,
            "`": self._backtick,
        }
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char in _SEPARATORS:
                self._at += 1
                self._end_segment()
            elif char in _BLANKS:
                self._at += 1
                self._end_word()
            elif char in readers:
                readers[char]()
            elif text.startswith(_OPAQUE, self._at):
                self._opaque = True
                self._at += 2
            elif text.startswith(_DUPLICATIONS, self._at):  # the & of 2>&1 separates nothing
                self._add(text[self._at : self._at + 2])
                self._at += 2
            else:
                self._add(char)
                self._at += 1
        self._end_segment()
        return tuple(self.segments)

    def _add(self, text: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(text)

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append("".join(self._word))
            self._word = None

    def _end_segment(self) -> None:
        self._end_word()
        if self._words or self._opaque:
            argv = self._words
            start = next((index for index, word in enumerate(argv) if not _is_assignment(word)), len(argv))
            self.segments.append(Segment(tuple(argv[start:]), self._opaque))
        self._words = []
        self._opaque = False

    def _single_quoted(self) -> None:
        end = self._text.find("'", self._at + 1)
        end = len(self._text) if end < 0 else end
        self._add(self._text[self._at + 1 : end])
        self._at = end + 1

    def _double_quoted(self) -> None:
        text = self._text
        self._add("")
        self._at += 1
        while self._at < len(text) and text[self._at] != '"':
            char = text[self._at]
            if char == "\\" and self._at + 1 < len(text):
                self._at += 1
                char = text[self._at]
            elif char == "`" or text.startswith("$(", self._at):
                self._opaque = True
            self._add(char)
            self._at += 1
        self._at += 1

    def _escaped(self) -> None:
        self._add(self._text[self._at + 1 : self._at + 2] or "\\")  # at the very end it stands for itself
        self._at += 2

    def _backtick(self) -> None:
        self._opaque = True
        self._at += 1


def lex_shell(command: str) -> tuple[Segment, ...]:
    """Return the simple commands of a command line, in order; none for a blank line."""
    return _Lexer(command).run()


@lru_cache(maxsize=1024)
def _words(pattern: str) -> tuple[str, ...]:
    return tuple(word for word in pattern.split(" ") if word)


def match_argv(pattern: str, argv: Sequence[str]) -> bool:
    """Whether the words match, all of them.

    ``*`` stands for one word, ``**`` for any number and only at the end of the pattern, all else for
    itself. A pattern with ``**`` anywhere else matches nothing.
    """
    words = _words(pattern)
    if "**" in words[:-1]:
        return False
    if words and words[-1] == "**":
        words = words[:-1]
        argv = argv[: len(words)]
    return len(words) == len(argv) and all(
        word in ("*", found) for word, found in zip(words, argv, strict=True)
    )


def judge_command(
    segments: Sequence[Segment],
    *,
    deny: Iterable[str] = (),
    ask: Iterable[str] = (),
    allow: Iterable[str] = (),
) -> Literal["allow", "ask", "deny"]:
    """Return the verdict on a command line under argv patterns.

    One denied segment denies the line. The line is allowed only when every segment is allowed and none
    is to be asked for. An opaque segment, and one that sets variables and runs nothing, is asked for
    whatever the patterns are.
    """
    rules = {"deny": tuple(deny), "ask": tuple(ask), "allow": tuple(allow)}
    verdicts = {judge_segment(segment, rules) or "ask" for segment in segments}
    if "deny" in verdicts:
        return "deny"
    return "allow" if verdicts == {"allow"} else "ask"


def judge_segment(
    segment: Segment, rules: Mapping[str, Sequence[str]]
) -> Literal["allow", "ask", "deny"] | None:
    """Return the verdict on one simple command under patterns by verdict; None when no pattern matches."""
    if segment.opaque or not segment.argv:
        return "ask"
    if any(match_argv(pattern, segment.argv) for pattern in rules["deny"]):
        return "deny"
    if any(match_argv(pattern, segment.argv) for pattern in rules["ask"]):
        return "ask"
    return "allow" if any(match_argv(pattern, segment.argv) for pattern in rules["allow"]) else None


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isascii() and name.isidentifier()
