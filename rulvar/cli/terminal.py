"""Where a command's words go: results to stdout, everything else to stderr, all of it made safe here.

Text reaches a stream through this module only. A line is a sequence of parts, each a text or a text
with a style; texts are made printable one by one and styles are added around them, so no text can
bring control sequences of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TextIO

from rulvar.cli.printable import clip, display_width, printable

__all__ = ["OutputLostError", "Part", "Style", "Terminal", "json_text", "told_as_lost"]

Style = Literal["", "bold", "dim", "red", "green", "yellow", "cyan"]
Part = str | tuple[str, Style]
_CODES: dict[str, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ERASE_LINE = "\r\x1b[2K"
_NARROWEST = 20


class OutputLostError(OSError):
    """The result cannot be written to stdout: it is closed, or its device is full."""


class Terminal:
    """The streams of one command.

    What cannot be written to stderr is dropped: nobody is there to be told, and the result counts.

    Args:
        json_output: stdout carries one JSON document and nothing else: what user code prints there
            goes to stderr meanwhile.
    """

    def __init__(self, *, json_output: bool = False) -> None:
        self.json_output = json_output
        self.stdin: TextIO = sys.stdin
        self.stdout: TextIO = sys.stdout
        self.stderr: TextIO = sys.stderr
        for stream in (self.stdout, self.stderr):
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        self._colours = {id(stream): _wants_colours(stream) for stream in (self.stdout, self.stderr)}
        self._has_status = False

    @property
    def is_interactive(self) -> bool:
        """Whether a person can be asked: stdin and stderr are a terminal."""
        return _is_terminal(self.stdin) and _is_terminal(self.stderr) and not self.json_output

    @property
    def shows_progress(self) -> bool:
        """Whether stderr is a terminal that can redraw a line."""
        return _is_terminal(self.stderr) and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return max(shutil.get_terminal_size((100, 24)).columns, _NARROWEST)

    def out(self, *parts: Part) -> None:
        """Write one line of the result."""
        self._write(self.stdout, parts)

    def say(self, *parts: Part) -> None:
        """Write one line that is not the result: progress, a hint, a question."""
        self._write(self.stderr, parts)

    def out_block(self, text: str, indent: str = "") -> None:
        """Write a text of several lines to the result."""
        for line in text.split("\n"):
            self.out(indent + line.expandtabs(4).rstrip("\r"))

    def say_block(self, text: str, indent: str = "") -> None:
        """Write a text of several lines that is not the result."""
        for line in text.split("\n"):
            self.say(indent + line.expandtabs(4).rstrip("\r"))

    def document(self, value: Any) -> None:
        """Write the JSON document that is the whole result."""
        self._put(self.stdout, json_text(value) + "\n")

    def out_bytes(self, data: bytes) -> None:
        """Write bytes that are the whole result."""
        with told_as_lost():
            self.stdout.buffer.write(data)
            self.stdout.buffer.flush()

    def status(self, *parts: Part) -> None:
        """Redraw the line at the bottom that says what is under way; any other line removes it."""
        if self.shows_progress:
            self._put(self.stderr, _ERASE_LINE + self._render(self.stderr, parts, self.width - 1))
            self._has_status = True

    def clear_status(self) -> None:
        """Remove that line."""
        if self._has_status:
            self._has_status = False
            self._put(self.stderr, _ERASE_LINE)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[Part]], *, flexible: int = -1) -> None:
        """Write a table to the result.

        Args:
            flexible: the column that is shortened where the terminal is too narrow; none in a pipe.
        """
        cells = [[_cell(cell) for cell in row] for row in rows]
        widths = [
            max([display_width(heading), *(display_width(row[index][0]) for row in cells)])
            for index, heading in enumerate(headings)
        ]
        if flexible >= 0 and _is_terminal(self.stdout):
            spare = self.width - sum(widths) - 2 * (len(widths) - 1)
            widths[flexible] = max(widths[flexible] + min(spare, 0), display_width(headings[flexible]), 8)
        self.out(*self._row([(heading, "bold") for heading in headings], widths))
        for row in cells:
            self.out(*self._row(row, widths))

    @contextlib.contextmanager
    def quiet_stdout(self) -> Iterator[None]:
        """Send what others print to stdout to stderr while a JSON document is being made."""
        if not self.json_output:
            yield
            return
        sys.stdout.flush()
        try:
            kept = os.dup(1)
        except OSError:  # there is no stdout
            yield
            return
        os.dup2(2, 1)
        try:
            with contextlib.redirect_stdout(self.stderr):
                yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)

    def _row(self, cells: Sequence[tuple[str, Style]], widths: Sequence[int]) -> list[Part]:
        parts: list[Part] = []
        for index, (text, style) in enumerate(cells):
            shown = clip(text, widths[index])
            parts.append((shown, style))
            if index < len(cells) - 1:
                parts.append(" " * (widths[index] - display_width(shown) + 2))
        return parts

    def _write(self, stream: TextIO, parts: Sequence[Part]) -> None:
        self.clear_status()
        self._put(stream, self._render(stream, parts, None).rstrip(" ") + "\n")

    def _put(self, stream: TextIO, text: str) -> None:
        if stream is self.stderr:
            try:
                stream.write(text)
                stream.flush()
            except (OSError, ValueError):
                _discard(stream)
            return
        with told_as_lost():
            stream.write(text)
            stream.flush()

    def _render(self, stream: TextIO, parts: Sequence[Part], width: int | None) -> str:
        colours = self._colours.get(id(stream), False)
        text, left = "", width
        for part in parts:
            shown, style = _cell(part)
            if left is not None:
                shown = clip(shown, left)
                left -= display_width(shown)
            text += f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if colours and style and shown else shown
        return text


def json_text(value: Any) -> str:
    """Return JSON text in plain ASCII: safe in a terminal, and readable by anything."""
    return json.dumps(value, ensure_ascii=True, indent=2).replace("\x7f", "\\u007f")


@contextlib.contextmanager
def told_as_lost() -> Iterator[None]:
    """Turn what goes wrong while stdout is written into OutputLostError; a broken pipe stays one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLostError(error.errno, error.strerror) from error


def _discard(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere, so that Python does not stumble over it at its end."""
    with contextlib.suppress(OSError, ValueError):
        number = stream.fileno()
        opened = os.open(os.devnull, os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)


def _cell(part: Part) -> tuple[str, Style]:
    if isinstance(part, str):
        return printable(part), ""
    return printable(part[0]), part[1]


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def _wants_colours(stream: TextIO) -> bool:
    return _is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
