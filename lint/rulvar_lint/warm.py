"""The shortest way to an answer: the same command in an unchanged project prints what it printed
before.

Only what this needs is imported. An entry remembers the command, the status of every file it
looked at, the output and the exit code; it is used when a fresh walk over the project finds the
very same files.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER: Final = ".rulvar_cache"
KEPT: Final = 12
_NEVER: Final = frozenset(
    {
        "--fix",
        "--unsafe-fixes",
        "--diff",
        "--watch",
        "--no-cache",
        "--cache-dir",
        "--add-ignore",
        "--output-file",
        "--stdin-filename",
        "--show-files",
        "--isolated",
        "-",
    }
)


def is_repeatable(argv: list[str]) -> bool:
    """Whether the output of a command depends on nothing but the files."""
    if argv and argv[0] in ("rule", "explain", "identity-diff"):
        return False
    return not any(arg.partition("=")[0] in _NEVER for arg in argv)


def key_of(argv: list[str]) -> str:
    """A name for this command in this folder, with this version of the lint."""
    here = os.path.realpath(os.getcwd())
    colour = (os.environ.get("NO_COLOR"), os.environ.get("FORCE_COLOR"), sys.stdout.isatty())
    text = json.dumps([argv, here, colour, sys.version_info[:2], rules_stamp()])
    return _digest(text, 10)


def rules_stamp() -> str:
    """Changes whenever a file of the lint does."""
    base = os.path.dirname(os.path.abspath(__file__))
    stamps = []
    for folder in ("", "core", os.path.join("core", "libraries"), "rules", "cli", "reporters"):
        try:
            with os.scandir(os.path.join(base, folder)) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        stat = entry.stat()
                        stamps.append(f"{folder}/{entry.name}:{stat.st_mtime_ns}:{stat.st_size}")
        except OSError:
            continue
    return _digest("\n".join(sorted(stamps)), 8)


def _digest(text: str, size: int) -> str:
    try:
        from _blake2 import blake2b  # hashlib loads OpenSSL, which takes longer than all the rest
    except ImportError:
        from hashlib import blake2b
    return blake2b(text.encode(), digest_size=size).hexdigest()


def _folders(argv: list[str]) -> Iterable[str]:
    starts = [arg for arg in argv if not arg.startswith("-") and os.path.exists(arg)] or ["."]
    folder = os.path.abspath(starts[0])
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def replay(argv: list[str]) -> int | None:
    """Print what the command printed before and return its exit code; None if it has to be run."""
    if not is_repeatable(argv):
        return None
    name = f"warm-{key_of(argv)}.json"
    for folder in _folders(argv):
        path = os.path.join(folder, FOLDER, "lint", name)
        if os.path.exists(path):
            return _replay(path)
    return None


def _replay(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            entry = json.loads(file.read())
        if current(entry) != entry["files"]:
            return None
        with open(path[: -len(".json")] + ".txt", encoding="utf-8", newline="") as file:
            output = file.read()
        err = entry["stderr"]
        code = int(entry["code"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    sys.stdout.write(output)
    sys.stdout.flush()
    if err:
        sys.stderr.write(err)
    return code


def current(entry: dict[str, Any]) -> dict[str, list[int]]:
    """The status of the files that the command would look at now."""
    from rulvar_lint.core.files import CONFIG, walk

    root = entry["root"]
    cassettes = entry["cassettes"]
    found: dict[str, list[int]] = {}
    for name, stat in walk(root, exclude=tuple(entry["exclude"]), respect_gitignore=entry["gitignore"]):
        if name.endswith((".py", CONFIG)) or (cassettes and _matches_any(cassettes, name)):
            found[name] = [stat.st_mtime_ns, stat.st_size]
    for name in entry["extra"]:
        path = os.path.join(root, name)
        if not os.path.isfile(path):
            continue
        stat = os.stat(path)
        found[name] = [stat.st_mtime_ns, stat.st_size]
    return found


def _matches_any(globs: list[str], name: str) -> bool:
    from rulvar_lint.core.ignore import matches

    return any(matches(glob, name) for glob in globs)


def remember(argv: list[str], entry: dict[str, Any], output: str) -> None:
    """Keep the output of a command. A folder that cannot be written is left alone."""
    folder = os.path.join(entry["root"], FOLDER, "lint")
    base = os.path.join(folder, f"warm-{key_of(argv)}")
    try:
        _forget_old(folder)
        for suffix, text in ((".txt", output), (".json", json.dumps(entry, separators=(",", ":")))):
            temporary = f"{base}{suffix}.{os.getpid()}.tmp"
            with open(temporary, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.replace(temporary, base + suffix)
    except (OSError, UnicodeError):
        return


def _forget_old(folder: str) -> None:
    with os.scandir(folder) as entries:
        kept = sorted(
            (entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.startswith("warm-")
        )
    for _, path in kept[: -2 * KEPT]:
        os.unlink(path)
