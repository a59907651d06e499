"""One source file: its bytes, text, lines and syntax tree. Positions are turned into code points
only here.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

from rulvar_lint.core.blocks import Block, blocks_of
from rulvar_lint.core.reparse import reparse
from rulvar_lint.core.syntax import syntax_tree
from rulvar_lint.core.type_parameters import IS_NEEDED, erase_type_parameters

if TYPE_CHECKING:
    from rulvar_lint.core.comments import Comments

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"

# Python frames do not use the C stack, so a deep tree may be walked with a deep stack.
DEEP: Final = 60_000


class ParseFailure(NamedTuple):
    """Why a file does not parse, or cannot even be read. The line and column are 1-based."""

    line: int
    column: int
    message: str
    is_unreadable: bool = False


class Source:
    """Text of one file. `path` is relative to the project root and uses forward slashes; `before` is
    the same file before an edit.
    """

    __slots__ = (
        "_before",
        "_blocks",
        "_failure",
        "_is_ascii",
        "_lines",
        "_text",
        "_tree",
        "comments",
        "data",
        "path",
    )

    def __init__(self, path: str, data: bytes, before: Source | None = None) -> None:
        self.path = path
        self.data = data
        self._is_ascii: bool | None = None
        self._text: str | None = None
        self._lines: list[str] | None = None
        self._blocks: list[Block] | None = None
        self._tree: ast.Module | None = None
        self._failure: ParseFailure | None = None
        self._before = before
        self.comments: Comments | None = None  # once they have been read

    @property
    def text(self) -> str:
        """The decoded text, line endings as they are. Undecodable bytes become U+FFFD."""
        if self._text is None:
            self._text = decode(self.data)
        return self._text

    @property
    def lines(self) -> list[str]:
        """The lines as the parser counts them, without their endings."""
        if self._lines is None:
            text = self.text
            self._lines = _NEWLINE.split(text) if "\r" in text else text.split("\n")
        return self._lines

    @property
    def newline(self) -> str:
        """The line ending of the first line."""
        found = _NEWLINE.search(self.text)
        return found[0] if found is not None else "\n"

    def line_text(self, line: int) -> str:
        """Line `line` (1-based), or an empty text beyond the end."""
        lines = self.lines
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def column(self, line: int, offset: int) -> int:
        """The 1-based column in code points of a 0-based offset in UTF-8 bytes."""
        if self._is_ascii is None:
            self._is_ascii = self.text.isascii()
        if self._is_ascii:
            return offset + 1
        text = self.line_text(line)
        if text.isascii():
            return offset + 1
        return len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1

    def segment(self, node: ast.AST) -> str | None:
        """The text of a node, or None for a node without a position."""
        line = getattr(node, "lineno", None)
        end_line = getattr(node, "end_lineno", None)
        if line is None or end_line is None:
            return None
        start: int = node.col_offset  # type: ignore[attr-defined]
        end: int = node.end_col_offset  # type: ignore[attr-defined]
        lines = self.lines[line - 1 : end_line]
        if not lines:
            return None
        if len(lines) == 1:
            return _slice(lines[0], start, end)
        return "\n".join([_slice(lines[0], start, None), *lines[1:-1], _slice(lines[-1], 0, end)])

    def parse(self) -> ast.Module | ParseFailure:
        """The syntax tree, or why there is none."""
        if self._tree is None:
            blocks = self.blocks()
            if isinstance(blocks, ParseFailure):
                return blocks
            self._tree = ast.Module([block.stmt for block in blocks], [])
        return self._tree

    @property
    def known_blocks(self) -> list[Block] | None:
        """The top-level statements, if the file has been parsed."""
        return self._blocks

    def blocks(self) -> list[Block] | ParseFailure:
        """The top-level statements, or why there are none."""
        if self._blocks is None and self._failure is None:
            before = self._before
            old = before._blocks if before is not None else None
            if before is not None and old is not None:
                self._blocks = reparse(old, before.data, self.data, parse)
            if self._blocks is None:
                result = parse(self.data)
                if isinstance(result, ParseFailure):
                    self._failure = result
                else:
                    self._blocks = blocks_of(result.body)
            if self._blocks is not None:
                self._before = None
        return self._blocks if self._blocks is not None else self._failure  # type: ignore[return-value]

    @staticmethod
    def unreadable(path: str, why: str) -> Source:
        """A file that is there and cannot be read."""
        source = Source(path, b"")
        source._failure = ParseFailure(1, 1, why, is_unreadable=True)
        return source

    @property
    def is_unreadable(self) -> bool:
        """Whether the file could not be read."""
        return self._failure is not None and self._failure.is_unreadable

    def last_parsed(self) -> Source | None:
        """The newest version of the file that was parsed, if that is known."""
        return self if self._blocks is not None else self._before

    def release_tree(self) -> None:
        """Forget the tree, which is by far the largest part."""
        self._tree = self._blocks = None


def _slice(text: str, start: int, end: int | None) -> str:
    """Part of a line by offsets in UTF-8 bytes."""
    if text.isascii():
        return text[start:end]
    return text.encode("utf-8", "surrogatepass")[start:end].decode("utf-8", "replace")


def decode(data: bytes) -> str:
    """The text of a Python file: by its byte order mark or coding line, else UTF-8."""
    body = data[3:] if data.startswith(_BOM) else data
    encoding = encoding_of(data)
    try:
        return body.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return body.decode("utf-8", "replace")


def encoding_of(data: bytes) -> str:
    """The encoding that the file declares; `utf-8` if it declares none or an unknown one."""
    if not (data.startswith(_BOM) or b"coding" in data[:400]):
        return "utf-8"
    head = re.split(rb"\r\n|\r|\n", data[:4000], maxsplit=2)[:2]
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(b"\n".join(head)).readline)
    except (SyntaxError, UnicodeDecodeError):
        return "utf-8"
    return "utf-8" if name == "utf-8-sig" else name


def encode(text: str) -> bytes:
    """The bytes of a text that is in no file, by its coding line. What the encoding cannot hold
    becomes a question mark.
    """
    data = text.encode("utf-8", "surrogatepass")
    encoding = encoding_of(data)
    if encoding == "utf-8":
        return data
    try:
        return text.encode(encoding, "replace")
    except LookupError:
        return data


def _tree(data: bytes) -> ast.Module:
    try:
        return syntax_tree(data)
    except SyntaxError:
        older = erase_type_parameters(data) if IS_NEEDED else None
        if older is None:
            raise
        return syntax_tree(older)


def parse(data: bytes) -> ast.Module | ParseFailure:
    """Parse a file. Whatever is wrong with it comes back as a value."""
    limit = sys.getrecursionlimit()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sys.setrecursionlimit(max(limit, DEEP))
            return _tree(data)
    except SyntaxError as err:
        return ParseFailure(max(err.lineno or 1, 1), max(err.offset or 1, 1), err.msg or "bad syntax")
    except (ValueError, UnicodeError) as err:
        line = data[: data.find(b"\0")].count(b"\n") + 1 if b"\0" in data else 1
        return ParseFailure(line, 1, str(err))
    except (RecursionError, MemoryError):
        return ParseFailure(1, 1, "nested too deeply to be parsed")
    finally:
        sys.setrecursionlimit(limit)
