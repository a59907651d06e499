"""Results kept between runs, by content. A run in which nothing changed reads one file and no
source.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from rulvar_lint import __version__
from rulvar_lint.config import Config
from rulvar_lint.core.files import CONFIG
from rulvar_lint.warm import FOLDER, rules_stamp

FORMAT: Final = 5

Stat = tuple[int, int]


class Cache:
    """The results of one configuration and one version of the lint: an index, the report, and the
    units.
    """

    __slots__ = ("folder", "index")

    def __init__(self, root: Path, config: Config, folder: Path | None = None) -> None:
        text = f"{FORMAT}:{__version__}:{sys.version_info[:2]}:{rules_stamp()}:{config!r}:{root}"
        self.folder = (folder or root / FOLDER) / "lint" / digest(text.encode())
        self.index: dict[str, Any] = {}

    def load(self) -> bool:
        """Read the index. A damaged one counts as empty."""
        self.index = self.read("index") or {}
        if self.index.get("format") != FORMAT:
            self.index = {}
        return bool(self.index)

    def read(self, name: str) -> dict[str, Any] | None:
        """One part of the cache, or None if it is missing or damaged."""
        try:
            data = json.loads((self.folder / f"{name}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return data if isinstance(data, dict) else None

    def is_fresh(self, files: dict[str, Stat]) -> bool:
        """Whether the project is as it was when the cache was written, by time and size of each
        file.
        """
        known = self.index.get("files", {})
        if len(known) != len(files):
            return False
        for path, stat in files.items():
            entry = known.get(path)
            if entry is None or entry[0] != stat[0] or entry[1] != stat[1]:
                return False
        return True

    def changed(self, root: Path, files: dict[str, Stat]) -> tuple[set[str], bool]:
        """(files whose content differs from the cached one, whether files came or went or an
        import root may have).
        """
        known = self.index.get("files", {})
        different: set[str] = set()
        for path, stat in files.items():
            entry = known.get(path)
            if entry is None or ((entry[0], entry[1]) != stat and digest_of(root / path) != entry[2]):
                different.add(path)
        structure = any(path.endswith(CONFIG) for path in different)
        return different, structure or set(known) != set(files)

    def store(self, parts: dict[str, dict[str, Any]]) -> None:
        """Write the parts, each atomically, the index last. A folder that cannot be written is
        left alone.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            ignore = self.folder.parent.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            (self.folder / "index.json").unlink(missing_ok=True)
            for name in sorted(parts, key=lambda part: part == "index"):
                path = self.folder / f"{name}.json"
                temporary = path.with_suffix(f".{os.getpid()}.tmp")
                temporary.write_text(json.dumps(parts[name], separators=(",", ":")), "utf-8")
                os.replace(temporary, path)
        except OSError:
            return


def digest(data: bytes) -> str:
    """What stands for a content in the cache."""
    from hashlib import sha256

    return sha256(data).hexdigest()[:24]


def digest_of(path: Path) -> str:
    """A digest of a file's content; empty for a file that cannot be read."""
    try:
        return digest(path.read_bytes())
    except OSError:
        return ""
