"""What changes behind the client's back: reports, project files, the client itself going away."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from rulvar_lsp.edge.session import PROJECT_FILE
from rulvar_lsp.edge.uris import uri_to_path

if TYPE_CHECKING:
    from rulvar_lsp.edge.workbench import Workbench

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_LOOK_SECONDS_WATCHED = 3.0
_BURST_SECONDS = 0.2


class Watcher:
    """Looks by itself at intervals, and at once when the client tells of changes."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._timer: asyncio.Task[Any] | None = None
        self._burst: asyncio.Task[Any] | None = None
        self._changed: set[str] = set()
        self._configurations: dict[str, int] = {}  # pyproject.toml -> time of its last change
        self._parent: int | None = None

    def start(self) -> None:
        """Begin to look at intervals."""
        if self._timer is None:
            self._look_at_configurations()
            self._timer = asyncio.ensure_future(self._look_on())

    def stop(self) -> None:
        """Look no more."""
        for task in (self._timer, self._burst):
            if task is not None:
                task.cancel()

    def watch_parent(self, process_id: Any) -> None:
        """Leave when the client's process is gone; one that is not visible from here is not
        watched.
        """
        if isinstance(process_id, int) and process_id > 0 and _is_alive(process_id):
            self._parent = process_id

    def did_change_watched_files(self, params: lsp.DidChangeWatchedFilesParams) -> None:
        """Files changed; a burst (a git checkout) is handled once."""
        self._changed.update(p for c in params.changes if (p := uri_to_path(c.uri)) is not None)
        if self._burst is None or self._burst.done():
            self._burst = self._bench.protocol.spawn(self._handle_burst(), "watched files")

    async def _handle_burst(self) -> None:
        while self._changed:  # also what changes while the rest is handled
            await asyncio.sleep(_BURST_SECONDS)
            paths, self._changed = sorted(self._changed), set()
            open_paths = {d.path for d in self._bench.session.documents}
            sources = [p for p in paths if p.endswith(".py") and p not in open_paths]
            if any(os.path.basename(p) == PROJECT_FILE for p in paths):
                self._use_configurations(sources)
            elif sources:
                self._bench.analyst.changed_on_disk(sources)
                self._bench.documents.refresh_all()
            await self._bench.look_for_reports()
            await self._look_at_cassettes(any(path.endswith(".jsonl") for path in paths))

    async def _look_on(self) -> None:
        watched = self._bench.session.client.can_watch
        while True:
            await asyncio.sleep(_LOOK_SECONDS_WATCHED if watched else _LOOK_SECONDS)
            if self._parent is not None and not _is_alive(self._parent):
                self._bench.protocol.on_exit(1)
                return
            try:
                self._look_at_configurations()
                await self._bench.look_for_reports()
                await self._look_at_cassettes()
            except Exception:
                logger.exception("looking for changed files failed")

    async def _look_at_cassettes(self, certain: bool = False) -> None:
        if await self._bench.analyst.notice_cassettes(certain):
            self._bench.refresh_results()

    def _look_at_configurations(self) -> None:
        now = {}
        for root in self._bench.session.project_roots:
            path = os.path.join(root, PROJECT_FILE)
            try:
                now[path] = os.stat(path).st_mtime_ns
            except OSError:
                now[path] = 0
        known, self._configurations = self._configurations, now
        changed = [path for path, when in now.items() if known.get(path, when) != when]
        if changed:
            self._use_configurations(changed)

    def _use_configurations(self, sources: list[str]) -> None:
        self._bench.session.forget_roots()
        self._bench.analyst.changed_on_disk(sources, configuration=True)
        self._bench.documents.refresh_all()


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
