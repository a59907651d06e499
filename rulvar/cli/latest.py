"""The latest runs of the project's folder, for a command line that should have named one."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from rulvar.cli.stores import FolderPlace
from rulvar.cli.workspace import Workspace
from rulvar.errors import RulvarError

__all__ = ["latest_runs"]

_MOST = 3
_ENDING = ".meta.json"


def latest_runs() -> str:
    """Return a hint that names the latest runs; code of the project is not run, and no server is asked."""
    listing = "rulvar runs ls lists the runs"
    try:
        place = Workspace(argparse.Namespace()).configured_place()
        if not isinstance(place, FolderPlace) or not place.path.is_dir():
            return listing
        return asyncio.run(_told(place)) or listing
    except (RulvarError, OSError):
        return listing


async def _told(place: FolderPlace) -> str:
    store = place.open_existing(repair=False)
    told = []
    for run_id in _latest(place.path):
        meta = await store.load_meta(run_id) or {}
        told.append(f"{run_id} ({meta.get('workflowName', '?')}, {meta.get('status', '?')})")
    return f"the latest: {', '.join(told)}; rulvar runs ls lists all" if told else ""


def _latest(folder: Path) -> list[str]:
    rows = sorted(folder.glob(f"*{_ENDING}"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [row.name.removesuffix(_ENDING) for row in rows[:_MOST]]
