"""`--watch`: check again whenever a file changes."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from rulvar_lint.batch import Outcome, stats
from rulvar_lint.cli.report import render
from rulvar_lint.project import Project

if TYPE_CHECKING:
    from rulvar_lint.cache import Stat
    from rulvar_lint.cli.session import Session

INTERVAL: Final = 0.3


def watch(session: Session) -> int:
    """Check, then wait for changes and check what they touch, until interrupted."""
    project = Project(session.root, session.config)
    seen = stats(session.root, session.config, session.wanted or [])
    _report(session, project, _number(seen))
    while True:
        time.sleep(INTERVAL)
        now = stats(session.root, session.config, session.wanted or [])
        if now == seen:
            continue
        for path in sorted({*seen, *now}):
            if seen.get(path) != now.get(path):
                project.invalidate(path)
        seen = now
        _report(session, project, _number(seen))


def _number(files: dict[str, Stat]) -> int:
    return sum(path.endswith(".py") for path in files)


def _report(session: Session, project: Project, files: int) -> None:
    wanted = [session.root / path for path in session.wanted] if session.wanted is not None else None
    found = project.check(wanted)
    outcome = Outcome(found, files, project.workflow_count(), {})
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[2J\x1b[H")
    sys.stdout.write(render(session, outcome))
    if outcome.workflows == 0:
        sys.stdout.write("0 workflows found.\n")
    sys.stdout.write("Watching for changes.\n")
    sys.stdout.flush()
