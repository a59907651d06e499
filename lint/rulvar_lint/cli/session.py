"""One check: where it runs, what it reports on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rulvar_lint.batch import Outcome
from rulvar_lint.batch import check as check_batch
from rulvar_lint.cli.options import COMMANDS, UsageError
from rulvar_lint.cli.settings import find_root, settings

if TYPE_CHECKING:
    import argparse

    from rulvar_lint.config import Config
    from rulvar_lint.core.diagnostic import Diagnostic


class Session:
    """One check: where it runs, what it reports on, and how it prints."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.root = find_root(args.root, [path for path in args.paths if path != "-"])
        self.config: Config = settings(args, self.root)
        self.overlays: dict[str, str] = {}
        self.stdin_name: str | None = None
        self.wanted = self._wanted()

    def _wanted(self) -> list[str] | None:
        args = self.args
        if args.stdin_filename is not None or args.paths == ["-"]:
            name = args.stdin_filename or "stdin.py"
            relative = self._relative(name)
            self.stdin_name = relative
            self.overlays[relative] = _read_stdin()
            return [relative]
        for path in args.paths:
            if not os.path.exists(path):
                hint = (
                    f"; to use the command, write it first: rulvar-lint {path} ..."
                    if path in COMMANDS
                    else ""
                )
                raise UsageError(f"{path}: no such file or folder{hint}")
        return [self._relative(path) for path in args.paths] if args.paths else None

    def _relative(self, path: str) -> str:
        absolute = Path(os.path.abspath(path))
        try:
            return absolute.relative_to(self.root).as_posix()
        except ValueError:
            pass
        try:
            return absolute.resolve().relative_to(self.root).as_posix()
        except ValueError:
            raise UsageError(f"{path}: outside the project root {self.root}") from None

    def run(self) -> Outcome:
        """Check once."""
        args = self.args
        cache_folder = Path(args.cache_dir) if args.cache_dir else None
        return check_batch(
            self.root,
            self.config,
            self.wanted,
            use_cache=not args.no_cache,
            cache_folder=cache_folder,
            jobs=args.jobs,
            overlays=self.overlays,
        )

    def shown(self, found: list[Diagnostic]) -> list[Diagnostic]:
        """The findings with paths relative to the working folder."""
        here = os.path.realpath(os.getcwd())
        if here == str(self.root):
            return found
        names: dict[str, str] = {}

        def name(path: str) -> str:
            if path not in names:
                names[path] = Path(os.path.relpath(self.root / path, here)).as_posix()
            return names[path]

        return [_renamed(item, name) for item in found]

    def source_text(self, path: str) -> str:
        """The text of a file as it is checked."""
        from rulvar_lint.core.source import decode

        if path in self.overlays:
            return self.overlays[path]
        try:
            return decode((self.root / path).read_bytes())
        except OSError:
            return ""


def _renamed(item: Diagnostic, name: Callable[[str], str]) -> Diagnostic:
    related = tuple(replace(place, path=name(place.path)) for place in item.related)
    fix = item.fix
    if fix is not None:
        fix = replace(fix, edits=tuple(replace(edit, path=name(edit.path)) for edit in fix.edits))
    return replace(item, path=name(item.path), related=related, fix=fix)


def _read_stdin() -> str:
    from rulvar_lint.core.source import decode

    return decode(sys.stdin.buffer.read())
