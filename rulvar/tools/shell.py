"""Shell command lines, split as a shell splits them, and matched against argv patterns.

A command line is a list of segments, one per simple command. A segment that runs a command which
cannot be read off the line (a substitution) is opaque: no pattern allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

__all__ = ["Segment", "judge_command", "lex_shell", "match_argv"]

_SEPARATORS = frozenset(";|&\n")
_BLANKS = frozenset(" \t\r\f\v")
_SUBSTITUTIONS = ("$(", "<(", ">(")


@dataclass(frozen=True, slots=True)
class Segment:
    """One simple command.

    Attributes:
        argv: its words, quotes and escapes resolved, leading assignments left out.
        opaque: whether it holds a substitution, so that what runs cannot be told from the text.
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
            elif text.startswith(_SUBSTITUTIONS, self._at):
                self._opaque = True
                if char != "$":
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
            if char == "\\" and text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`", "\n"):
                self._at += 1
                char = text[self._at]
            elif char == "`" or text.startswith("$(", self._at):
                self._opaque = True
            self._add(char)
            self._at += 1
        self._at += 1

    def _escaped(self) -> None:
        self._add(self._text[self._at + 1 : self._at + 2])
        self._at += 2

    def _backtick(self) -> None:
        self._opaque = True
        self._at += 1


def lex_shell(command: str) -> tuple[Segment, ...]:
    """Return the simple commands of a command line, in order; none for a blank line."""
    return _Lexer(command).run()


@lru_cache(maxsize=1024)
def _words(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split())


def match_argv(pattern: str, argv: Sequence[str]) -> bool:
    """Whether the words match: ``*`` stands for one word, ``**`` for any number, all else for itself."""
    return _match(_words(pattern), tuple(argv))


def _match(pattern: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    reachable = {0}
    for word in pattern:
        if word == "**":
            reachable = set(range(min(reachable), len(argv) + 1))
        else:
            reachable = {at + 1 for at in reachable if at < len(argv) and word in ("*", argv[at])}
        if not reachable:
            return False
    return len(argv) in reachable


def judge_command(
    segments: Sequence[Segment],
    *,
    deny: Iterable[str] = (),
    ask: Iterable[str] = (),
    allow: Iterable[str] = (),
) -> Literal["allow", "ask", "deny"]:
    """Return the verdict on a command line under argv patterns.

    One denied segment denies the line. The line is allowed only when every segment is allowed, none
    is to be asked for, and none is opaque.
    """
    asks, allows = tuple(ask), tuple(allow)
    if any(match_argv(pattern, segment.argv) for pattern in deny for segment in segments):
        return "deny"
    if segments and all(
        not segment.opaque
        and not any(match_argv(pattern, segment.argv) for pattern in asks)
        and any(match_argv(pattern, segment.argv) for pattern in allows)
        for segment in segments
    ):
        return "allow"
    return "ask"


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isascii() and name.isidentifier()
