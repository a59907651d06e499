"""`rulvar/held`: how much the server holds, for bug reports and for the tests that look for leaks.

After every document has been closed all of it is zero but for what belongs to the session: timers, projects of the
workspace folders, tests of the reports.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rulvar_lsp.edge.workbench import Workbench


async def holdings(bench: Workbench) -> dict[str, int]:
    """Return numbers by name: of what is open, waiting, remembered, and of Python's own."""
    protocol, session = bench.protocol, bench.session
    inbox = protocol.inbox
    looked = await bench.analyst.held()
    gc.unfreeze()  # what was left out of collections counts too
    gc.collect()
    objects = len(gc.get_objects())
    gc.freeze()
    return {
        "documents": len(session.documents),
        "requests": protocol.running - 1,  # this one left out
        "work": protocol.working,
        "asked": protocol.asking,
        "cancellations": inbox.cancellations if inbox is not None else 0,
        "changes": inbox.changes if inbox is not None else 0,
        **bench.documents.held(),
        **bench.answers.held(),
        **looked,
        "bars": bench.bars.open,
        "tests": len(session.recorded.tests),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": _open_files(),
        "objects": objects,
    }


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:  # not on this platform
        return 0
