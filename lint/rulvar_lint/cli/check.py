"""`rulvar-lint [check]`: find, show, fix."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rulvar_lint.cli.report import finish
from rulvar_lint.cli.session import Session
from rulvar_lint.core.files import is_wanted, walk

if TYPE_CHECKING:
    import argparse


def check(args: argparse.Namespace) -> int:
    """The command."""
    session = Session(args)
    if args.watch or args.fix or args.diff:
        gc.enable()  # these look at the project again and again
    if args.show_files:
        return _show_files(session)
    if args.watch:
        from rulvar_lint.cli.watch import watch

        return watch(session)
    if args.add_ignore:
        from rulvar_lint.cli.suppressions import add_ignores

        return add_ignores(session)
    if args.fix or args.diff:
        from rulvar_lint.cli.fixing import fix

        return fix(session)
    return finish(session, session.run(), 0)


def _show_files(session: Session) -> int:

    config = session.config
    names = {
        path
        for path, _ in walk(session.root, exclude=config.exclude, respect_gitignore=config.respect_gitignore)
    }
    names |= {name for name in session.wanted or () if (session.root / name).is_file()}
    here = os.getcwd()
    for path in sorted(names):
        if not (path.endswith(".py") or config.is_cassette(path)):
            continue
        if session.wanted is None or is_wanted(path, session.wanted):
            sys.stdout.write(Path(os.path.relpath(session.root / path, here)).as_posix() + "\n")
    return 0
