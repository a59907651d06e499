"""Check the journals and meta rows of a store: damage, order, dangling calls, open waits, disagreement.

Problems make the exit code 1; notes (a crash or a wait that a resume takes up) do not. With --repair,
torn tails are cut and meta rows are set to what the journal says. Do not repair a run that is live.
"""

from __future__ import annotations

import argparse

from rulvar.cli.amounts import count_text
from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.audit import Audit, audit_run, repair_run
from rulvar.cli.catalogue import run_ids
from rulvar.cli.driving import run_async
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.stores import Runs
from rulvar.cli.terminal import Style, Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import LeaseHeldError, StoreError


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="default: every run of the store")
    parser.add_argument("--repair", action="store_true", help="mend what can be mended")
    add_store(parser)
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Audit."""
    return run_async(_audit(options, terminal))


async def _audit(options: argparse.Namespace, terminal: Terminal) -> int:
    audits: list[Audit] = []
    async with Workspace(options).runs() as runs:
        for run_id in options.runs or await run_ids(runs.journal):
            audit = await audit_run(runs, run_id)
            if options.repair and any(finding.repair is not None for finding in audit.findings):
                audit = await _repaired(runs, audit, terminal)
            audits.append(audit)
    left = sum(len(audit.problems) for audit in audits)
    if options.json:
        terminal.document(
            {"store": runs.name, "runs": [_document(audit) for audit in audits], "problems": left}
        )
    else:
        for audit in audits:
            _show(audit, options.repair, terminal)
        _summary(audits, left, terminal)
    return FAILED if left else OK


async def _repaired(runs: Runs, audit: Audit, terminal: Terminal) -> Audit:
    """Repair a run; one that cannot be repaired does not keep the others from it."""
    try:
        return await repair_run(runs, audit)
    except (LeaseHeldError, StoreError) as error:
        terminal.say(("warning: ", "yellow"), f"{audit.run_id}: not repaired: {error.message}")
    return audit


def _document(audit: Audit) -> dict[str, object]:
    return {
        "runId": audit.run_id,
        "findings": [
            {**finding.to_wire(), "repaired": finding in audit.repaired} for finding in audit.findings
        ],
    }


def _show(audit: Audit, was_to_repair: bool, terminal: Terminal) -> None:
    if not audit.findings:
        return
    terminal.out((audit.run_id, "bold"))
    for finding in audit.findings:
        style: Style = "red" if finding.level == "problem" else ""
        done = ""
        if finding in audit.repaired:
            done = "; repaired"
        elif finding.repair is not None:
            done = "; not repaired" if was_to_repair else f"; --repair: {finding.repair}"
        terminal.out("  ", (f"{finding.level:<7}", style), f"  {finding.kind:<16} {finding.message}{done}")


def _summary(audits: list[Audit], left: int, terminal: Terminal) -> None:
    mended = sum(len(audit.repaired) for audit in audits)
    runs, repaired = count_text(len(audits), "run"), f", {mended} repaired" if mended else ""
    if left:
        terminal.out(f"{runs}, ", (count_text(left, "problem"), "red"), repaired)
    else:
        terminal.out(f"{runs}, ", ("no problems", "green"), repaired)
