"""Reads one text field out of JSON that is still being written."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FieldDecoder"]

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WHITE = " \t\r\n"


class FieldDecoder:
    """Takes JSON text in pieces and gives the text of one field as it comes, escapes resolved.

    A field that is not a text, or is not there, gives nothing. Text that is no JSON ends the decoding.

    Args:
        path: names from the outermost object inwards.
    """

    __slots__ = ("_container", "_done", "_escape", "_high", "_key", "_keys", "_path", "_state", "_units")

    def __init__(self, path: Sequence[str]) -> None:
        self._path = tuple(path)
        self._container: list[str] = []  # "{" or "[" for everything that is open
        self._keys: list[str | None] = []  # the name under which each of them is being filled
        self._key: list[str] = []
        self._state = "value"
        self._escape = ""
        self._units = ""
        self._high = 0
        self._done = False

    def feed(self, text: str) -> str:
        """Return the text of the field that a piece adds."""
        out: list[str] = []
        for char in text:
            if self._done:
                break
            self._step(char, out)
        return "".join(out)

    def _step(self, char: str, out: list[str]) -> None:
        state = self._state
        if state in ("text", "key"):
            self._in_string(char, out)
        elif char in _WHITE:
            if state == "scalar":
                self._state = "after"
        elif state == "value":
            self._begin_value(char)
        elif state == "name":
            if char == '"':
                self._key, self._state = [], "key"
            elif char == "}":
                self._close(char)
            else:
                self._done = True
        elif state == "colon":
            self._state = "value"
            self._done = char != ":"
        elif state in ("after", "scalar"):
            self._after(char)

    def _begin_value(self, char: str) -> None:
        if char == '"':
            self._state = "text"
        elif char in "{[":
            self._container.append(char)
            self._keys.append(None)
            self._state = "name" if char == "{" else "value"
        elif char == "]":
            self._close(char)
        else:
            self._state = "scalar"

    def _after(self, char: str) -> None:
        if char == ",":
            if not self._container:
                self._done = True
            else:
                self._state = "name" if self._container[-1] == "{" else "value"
        elif char in "}]":
            self._close(char)
        elif self._state == "after":
            self._done = True

    def _close(self, char: str) -> None:
        if not self._container or (self._container[-1] == "{") != (char == "}"):
            self._done = True
            return
        self._container.pop()
        self._keys.pop()
        self._state = "after"
        self._done = not self._container

    def _in_string(self, char: str, out: list[str]) -> None:
        if self._escape == "\\":
            self._escape = "u" if char == "u" else ""
            if char != "u":
                self._emit(_ESCAPES.get(char, char), out)
            return
        if self._escape == "u":
            self._units += char
            if len(self._units) == 4:
                self._unicode(out)
            return
        if char == "\\":
            self._escape = "\\"
        elif char == '"':
            self._end_string(out)
        else:
            self._emit(char, out)

    def _unicode(self, out: list[str]) -> None:
        try:
            unit = int(self._units, 16)
        except ValueError:
            self._done = True
            return
        self._escape, self._units = "", ""
        if 0xD800 <= unit < 0xDC00:
            self._flush_high(out)
            self._high = unit
        elif 0xDC00 <= unit < 0xE000 and self._high:
            high, self._high = self._high, 0
            self._emit(chr(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00)), out)
        else:
            self._emit(chr(unit) if not 0xDC00 <= unit < 0xE000 else "\ufffd", out)

    def _flush_high(self, out: list[str]) -> None:
        if self._high:
            self._high = 0
            self._emit("\ufffd", out)

    def _emit(self, text: str, out: list[str]) -> None:
        self._flush_high(out)
        if self._state == "key":
            self._key.append(text)
        elif self._is_target():
            out.append(text)

    def _end_string(self, out: list[str]) -> None:
        self._flush_high(out)
        if self._state == "key":
            self._keys[-1] = "".join(self._key)
            self._state = "colon"
            return
        self._done = self._is_target() or not self._container
        self._state = "after"

    def _is_target(self) -> bool:
        return "[" not in self._container and tuple(self._keys) == self._path
