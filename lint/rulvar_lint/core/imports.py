"""Imports as the bare text shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.files import parents

if TYPE_CHECKING:
    from rulvar_lint.core.files import ModuleIndex

# Looking for a text in a file costs half of what looking at its imports does.
_FEW: Final = 2
# So many characters that module names have in common are in few other files.
_TELLING: Final = 4
_IMPORT: Final = re.compile(
    rb"[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))"
)
_WORD: Final = re.compile(r"\w+")
_PACKAGE: Final = "__init__"


class Targets:
    """Files that others may import, and the words that an import of one of them has to contain.

    Args:
        paths: the files.
        index: where module names lead.
    """

    __slots__ = ("_homes", "_index", "_words", "paths")

    def __init__(self, paths: Iterable[str], index: ModuleIndex) -> None:
        self.paths = frozenset(paths)
        self._index = index
        self._words: dict[str, tuple[frozenset[str], list[bytes] | None]] = {}
        self._homes: dict[str, set[str]] = {}
        for path in self.paths:
            folder, _, name = path.removesuffix(".py").rpartition("/")
            self._homes.setdefault(folder, set()).update(_last_word(name))
            if name == _PACKAGE:
                above, _, package = folder.rpartition("/")
                self._homes.setdefault(above, set()).update(_last_word(package))

    def may_be_imported(self, path: str, data: bytes) -> bool:
        """Whether an import of a target can stand in the file at `path`."""
        words, texts = self._words_in(path.rpartition("/")[0])
        if texts is not None and not any(text in data for text in texts):
            return False
        imports = list(import_lines(data, _IMPORT))
        text = b"\n".join([match[0] for match in imports]).decode("utf-8", "replace")
        if not words.isdisjoint(_WORD.findall(text)):
            return True
        return _PACKAGE in words and any(match[1] and not match[1].strip(b".") for match in imports)

    def _words_in(self, folder: str) -> tuple[frozenset[str], list[bytes] | None]:
        """The words that stand in an import in `folder`: the names of modules where a name can begin,
        as seen from there, and the folders of all others; and what to look for in a whole file.
        """
        found = self._words.get(folder)
        if found is None:
            near = {"", *parents(folder), *self._index.roots(folder)}
            words = frozenset(
                word
                for home, names in self._homes.items()
                for word in (names if home in near else _last_word(home))
            )
            found = self._words[folder] = (words, _texts(words))
        return found


def _texts(words: frozenset[str]) -> list[bytes] | None:
    """Texts one of which is in every file with one of the words; None where looking at the imports
    takes no longer than looking for them.
    """
    if _PACKAGE in words:
        return None
    if len(words) <= _FEW:
        return [word.encode() for word in words]
    first, last = min(words), max(words)
    common = next((at for at, char in enumerate(first) if not last.startswith(char, at)), len(first))
    return [first[:common].encode()] if common >= _TELLING else None


def _last_word(name: str) -> list[str]:
    return _WORD.findall(name)[-1:]


def imported_names(path: str, data: bytes) -> list[str]:
    """Names of the modules that the file at `path` may import, read off its text."""
    found: list[str] = []
    for match in import_lines(data, _IMPORT):
        if match[3] is not None:
            found += [
                part.split()[0] for part in match[3].decode("utf-8", "replace").split(",") if part.split()
            ]
            continue
        base = match[1].decode("utf-8", "replace")
        if base.startswith("."):
            level = len(base) - len(base.lstrip("."))
            folders = path.split("/")[:-1]
            kept = folders[: len(folders) - (level - 1)]
            base = "/" + "/".join([*kept, *base[level:].split(".")] if base[level:] else kept)
        found.append(base)
        names = _WORD.findall(match[2].decode("utf-8", "replace"))
        found += [f"{base}.{name}" for name in names if name != "as"]
    return found


def import_lines(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Matches of a pattern at the beginning of lines that contain `import`, from left to right and
    without overlaps. Each match has that word in its first line.
    """
    at = data.find(b"import")
    while at >= 0:
        found = pattern.match(data, data.rfind(b"\n", 0, at) + 1)
        line_end = data.find(b"\n", at if found is None else found.end())
        if found is not None:
            yield found
        at = data.find(b"import", line_end) if line_end >= 0 else -1
