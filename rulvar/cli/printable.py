"""Makes foreign text fit for a terminal: nothing in it may move the cursor, hide or reorder text."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["clip", "display_width", "printable"]

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters: ESC, CSI and their like
    "\xad\u061c\u180e\u200b\u200e\u200f"  # invisible, or turning the direction of text
    "\u2028-\u202e\u2060-\u206f"  # line separators, embeddings, overrides, isolates
    "\ufeff\ufff9-\ufffb"  # byte order mark, interlinear annotations
    "\ud800-\udfff"  # half a character
    "\U000e0000-\U000e0fff"  # tags
    "]"
)
_MOST_MARKS = 4
_MARKS = re.compile(r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]+")
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """Return a text on one line, with every character that a terminal would obey written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    text = _UNSAFE.sub(_escape, text)
    return _MARKS.sub(lambda marks: marks[0][:_MOST_MARKS], text)


def display_width(text: str) -> int:
    """Return how many columns a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def clip(text: str, width: int) -> str:
    """Return a printable text shortened to a width, with an ellipsis where it was cut."""
    if display_width(text) <= width:
        return text
    kept, taken = [], 0
    for character in text:
        taken += _width(character)
        if taken > width - 1:
            break
        kept.append(character)
    return "".join(kept) + ("…" if width > 0 else "")


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d" or "\ufe00" <= character <= "\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _NAMES:
        return _NAMES[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
