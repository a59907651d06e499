"""The project that a command is about, and its settings with the command line's changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rulvar_lint.cli.options import UsageError
from rulvar_lint.config import Config, check_codes, known_codes, load, merged

if TYPE_CHECKING:
    import argparse


def find_root(given: str | None, paths: list[str]) -> Path:
    """The project root: the one given, else the nearest folder above the first path with a
    pyproject.toml or .git.

    Raises:
        UsageError: the given root is no folder.
    """
    if given is not None:
        root = Path(given)
        if not root.is_dir():
            raise UsageError(f"--root {given}: no such folder")
        return root.resolve()
    here = Path.cwd()
    start = (here / paths[0]).resolve() if paths else here
    if not start.is_dir():
        start = start.parent
    for marks in (("pyproject.toml", ".git"),):
        for folder in (start, *start.parents):
            if any((folder / mark).exists() for mark in marks):
                return folder
    return here if start == here or here in start.parents else start


def settings(args: argparse.Namespace, root: Path) -> Config:
    """The configuration of the project with the command line's changes.

    Raises:
        ConfigError: a setting is wrong.
        UsageError: an option is wrong.
    """
    config = Config() if args.isolated else load(root)
    changes: dict[str, object] = {}
    for option in ("select", "extend_select", "ignore"):
        text = getattr(args, option)
        if text is not None:
            named = tuple(part for part in text.replace(" ", ",").split(",") if part)
            chosen = check_codes(named, f"--{option.replace('_', '-')}", known_codes())
            changes[option] = chosen if option == "select" else (*getattr(config, option), *chosen)
    if args.per_file_ignores is not None:
        changes["per_file_ignores"] = (
            *config.per_file_ignores,
            *_per_file(args.per_file_ignores, known_codes()),
        )
    if args.exclude:
        changes["exclude"] = (*config.exclude, *args.exclude)
    if args.no_gitignore:
        changes["respect_gitignore"] = False
    return merged(config, **changes)


def _per_file(text: str, codes: frozenset[str]) -> list[tuple[str, tuple[str, ...]]]:
    pairs: dict[str, list[str]] = {}
    glob = ""
    for part in text.split(","):
        head, colon, code = part.strip().rpartition(":")
        if colon:
            glob = head
        if not glob or not code:
            raise UsageError(f"--per-file-ignores {text}: expected GLOB:CODE, for example 'tests/**:RLV113'")
        pairs.setdefault(glob, []).append(code)
    return [(glob, check_codes(tuple(listed), "--per-file-ignores", codes)) for glob, listed in pairs.items()]
