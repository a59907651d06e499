"""Files that change behind the client's back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

from lsprotocol import types as lsp

from rulvar_lsp.edge.session import Session
from rulvar_lsp.edge.uris import path_to_uri
from rulvar_lsp.edge.watching import Watcher
from rulvar_lsp.edge.workbench import Workbench


class Bench:
    """What a watcher tells of; more files change while the reports are read for the first time."""

    def __init__(self, during: str) -> None:
        self.session = Session()
        self.analyst = self.documents = self.protocol = self
        self.watcher = Watcher(cast(Workbench, self))
        self.changed: list[str] = []
        self.during = during

    def spawn(self, work: Awaitable[Any], name: str) -> asyncio.Future[Any]:
        self.task = asyncio.ensure_future(work)
        return self.task

    def changed_on_disk(self, paths: list[str], *, configuration: bool = False) -> None:
        self.changed += paths

    def refresh_all(self) -> None:
        """Nothing is open."""

    async def look_for_reports(self) -> None:
        if self.during:
            path, self.during = self.during, ""
            tell(self.watcher, path)
            await asyncio.sleep(0)

    async def notice_cassettes(self, certain: bool) -> bool:
        return False


def tell(watcher: Watcher, path: str) -> None:
    change = lsp.FileEvent(uri=path_to_uri(path), type=lsp.FileChangeType.Changed)
    watcher.did_change_watched_files(lsp.DidChangeWatchedFilesParams(changes=[change]))


async def test_what_changes_while_a_change_is_handled_is_not_lost(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a.py"), str(tmp_path / "b.py")
    bench = Bench(during=second)
    tell(bench.watcher, first)
    await bench.task
    assert bench.changed == [first, second]
