"""Which files a project leaves out: glob patterns and `.gitignore` files."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

DEFAULT_EXCLUDE: Final = (
    ".git",
    ".hg",
    ".svn",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    ".eggs",
    "__pycache__",
    "node_modules",
    "__pypackages__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".rulvar_cache",
    ".ipynb_checkpoints",
    "site-packages",
    "build",
    "dist",
    "buck-out",
    ".direnv",
    ".vscode",
    ".idea",
)


@lru_cache(maxsize=4096)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression over a whole path. `*` and `?` stop at `/`, `**` does not."""
    out: list[str] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if pattern.startswith("**/", index):
            out.append("(?:.*/)?")
            index += 3
            continue
        if pattern.startswith("**", index):
            out.append(".*")
            index += 2
            continue
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = pattern.find("]", index + 2)
            if end < 0:
                out.append(re.escape(char))
            else:
                body = pattern[index + 1 : end].replace("\\", "\\\\")
                out.append(f"[{'^' + body[1:] if body[:1] in '!^' else body}]")
                index = end
        else:
            out.append(re.escape(char))
        index += 1
    try:
        return re.compile("".join(out) + r"\Z", re.S)
    except re.error:
        return re.compile(re.escape(pattern) + r"\Z")


def matches(pattern: str, path: str) -> bool:
    """Whether a glob from a configuration covers a path: by its whole name, by a folder above it,
    or, for a pattern without a slash, by any of its parts.
    """
    pattern = pattern.removeprefix("./").rstrip("/")
    regex = glob_regex(pattern)
    if "/" not in pattern:
        return any(regex.match(part) for part in path.split("/"))
    if regex.match(path) or glob_regex(f"**/{pattern}").match(path):
        return True
    parts = path.split("/")
    return any(regex.match("/".join(parts[:end])) for end in range(1, len(parts)))


class GitIgnore:
    """The rules of one `.gitignore`; `base` is its folder relative to the project root, "" for the
    root.
    """

    __slots__ = ("_rules", "base")

    def __init__(self, base: str, text: str) -> None:
        self.base = base
        self._rules: list[tuple[re.Pattern[str], bool, bool]] = []
        for line in text.splitlines():
            rule = _rule(line)
            if rule is not None:
                self._rules.append(rule)

    def verdict(self, path: str, is_dir: bool) -> bool | None:
        """True to leave out, False to keep after all, None when no rule speaks. The last rule
        wins.
        """
        inner = path[len(self.base) + 1 :] if self.base else path
        found: bool | None = None
        for regex, negated, only_dirs in self._rules:
            if (is_dir or not only_dirs) and regex.match(inner):
                found = not negated
        return found


def _rule(line: str) -> tuple[re.Pattern[str], bool, bool] | None:
    text = line.rstrip("\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    text = text[1:] if text.startswith(("\\#", "\\!")) else text
    only_dirs = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anchored = "/" in text
    text = text.lstrip("/")
    pattern = text if anchored else f"**/{text}"
    return glob_regex(pattern), negated, only_dirs


def ignored(rules: list[GitIgnore], path: str, is_dir: bool) -> bool:
    """Whether the `.gitignore` files above a path leave it out; inner files speak last."""
    found = False
    for ignore in rules:
        verdict = ignore.verdict(path, is_dir)
        if verdict is not None:
            found = verdict
    return found
