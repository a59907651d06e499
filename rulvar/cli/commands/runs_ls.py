"""List the runs of a store, the latest first.

No journal is read. A meta row that cannot be read is listed as such.
"""

from __future__ import annotations

import argparse

from rulvar.cli.amounts import age_text
from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.catalogue import Listed, list_runs
from rulvar.cli.driving import run_async
from rulvar.cli.exits import OK
from rulvar.cli.outcomes import STATUS_STYLES
from rulvar.cli.terminal import Part, Terminal
from rulvar.cli.workspace import Workspace

_HEADINGS = ("RUN", "STATUS", "WORKFLOW", "SEGMENTS", "UPDATED", "NAME")
_FLEXIBLE = 5


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--status", action="append", help="only runs of this status; may be repeated")
    parser.add_argument("--workflow", help="only runs of this workflow")
    parser.add_argument("--tag", action="append", help="only runs with this tag; may be repeated")
    parser.add_argument("--limit", "-n", type=int, metavar="N", help="the latest N only")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """List."""
    return run_async(_list(options, terminal))


async def _list(options: argparse.Namespace, terminal: Terminal) -> int:
    async with Workspace(options).runs() as opened:
        runs = [item for item in await list_runs(opened.journal) if _is_wanted(item, options)]
    runs.sort(key=lambda item: (str(item.meta.get("updatedAt", "")), item.run_id), reverse=True)
    if options.limit is not None:
        runs = runs[: max(options.limit, 0)]
    if options.json:
        terminal.document(
            {
                "store": opened.name,
                "runs": [{**item.meta, "runId": item.run_id} for item in runs if item.problem is None],
                "problems": [
                    {"runId": item.run_id, "message": item.problem} for item in runs if item.problem
                ],
            }
        )
        return OK
    if runs:
        terminal.table(_HEADINGS, [_row(item) for item in runs], flexible=_FLEXIBLE)
    else:
        such = "such " if options.status or options.workflow or options.tag else ""
        odd = [status for status in options.status or () if status not in STATUS_STYLES]
        hint = f"; {', '.join(odd)}: no status of a run, which is {', '.join(STATUS_STYLES)}" if odd else ""
        terminal.say(f"no {such}runs in {opened.name}{hint}")
    return OK


def _is_wanted(item: Listed, options: argparse.Namespace) -> bool:
    meta = item.meta
    tags = meta.get("tags")
    return (
        (not options.status or meta.get("status") in options.status)
        and (options.workflow is None or meta.get("workflowName") == options.workflow)
        and (not options.tag or (isinstance(tags, list) and all(tag in tags for tag in options.tag)))
    )


def _row(item: Listed) -> list[Part]:
    meta = item.meta
    if item.problem is not None:
        return [item.run_id, ("?", "red"), "", "", "", (item.problem, "red")]
    status = str(meta.get("status", "?"))
    tags = meta.get("tags")
    about = [str(meta["name"])] if meta.get("name") is not None else []
    about += [f"#{tag}" for tag in tags] if isinstance(tags, list) else []
    return [
        item.run_id,
        (status, STATUS_STYLES.get(status, "")),
        str(meta.get("workflowName", "?")),
        str(meta.get("segments", "")),
        age_text(meta.get("updatedAt")),
        (" ".join(about), "dim"),
    ]
