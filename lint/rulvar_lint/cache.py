"""Results kept between runs, by content. A run in which nothing changed reads one file and no source."""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from rulvar_lint import __version__
from rulvar_lint.config import Config

FOLDER: Final = ".rulvar_cache"
FORMAT: Final = 3

Stat = tuple[int, int]


class Cache:
    """One cache file, made for one configuration and one version of the lint."""

    __slots__ = ("data", "path")

    def __init__(self, root: Path, config: Config, folder: Path | None = None) -> None:
        text = f"{FORMAT}:{__version__}:{sys.version_info[:2]}:{_rules_stamp()}:{config!r}:{root}"
        digest = sha256(text.encode()).hexdigest()[:20]
        self.path = (folder or root / FOLDER) / "lint" / f"{digest}.json"
        self.data: dict[str, Any] = {}

    def load(self) -> bool:
        """Read the cache. A damaged one counts as empty."""
        try:
            data = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return False
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            return False
        self.data = data
        return True

    def is_fresh(self, files: dict[str, Stat]) -> bool:
        """Whether the project is as it was when the cache was written, by time and size of each file."""
        known = self.data.get("files", {})
        if len(known) != len(files):
            return False
        for path, stat in files.items():
            entry = known.get(path)
            if entry is None or entry[0] != stat[0] or entry[1] != stat[1]:
                return False
        return True

    def changed(self, root: Path, files: dict[str, Stat]) -> tuple[set[str], bool]:
        """(files whose content differs from the cached one, whether files came or went)."""
        known = self.data.get("files", {})
        different: set[str] = set()
        for path, stat in files.items():
            entry = known.get(path)
            if entry is None:
                different.add(path)
            elif (entry[0], entry[1]) != stat and digest_of(root / path) != entry[2]:
                different.add(path)
        return different, set(known) != set(files)

    def store(self, data: dict[str, Any]) -> None:
        """Write the cache, atomically. A folder that cannot be written is left alone."""
        self.data = data
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            ignore = self.path.parent.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            temporary.write_text(json.dumps(data, separators=(",", ":"), ensure_ascii=False), "utf-8")
            os.replace(temporary, self.path)
        except OSError:
            try:
                temporary.unlink(missing_ok=True)
            except OSError:
                pass


def digest_of(path: Path) -> str:
    """A digest of a file's content; empty for a file that cannot be read."""
    try:
        return sha256(path.read_bytes()).hexdigest()[:24]
    except OSError:
        return ""


def _rules_stamp() -> str:
    """Sizes and times of the lint's own files, so that a changed rule does not read old results."""
    base = Path(__file__).parent
    stamps = []
    for folder in ("", "core", "core/libraries", "rules"):
        try:
            entries = sorted(os.scandir(base / folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith(".py"):
                stat = entry.stat()
                stamps.append(f"{entry.name}{stat.st_mtime_ns}{stat.st_size}")
    return sha256("".join(stamps).encode()).hexdigest()[:16]
