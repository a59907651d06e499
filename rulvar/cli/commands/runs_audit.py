"""Check the journals and meta rows of a store: damage, order, dangling calls, open waits, disagreement.

Problems make the exit code 1; notes (a crash or a wait that a resume takes up) do not. With --repair,
torn tails are cut and meta rows are set to what the journal says. Do not repair a run that is live.
"""

from __future__ import annotations

import argparse

from rulvar.cli.arguments import add_config, add_json, add_store
from rulvar.cli.audit import Audit, audit_run, repair_run
from rulvar.cli.catalogue import run_ids
from rulvar.cli.driving import run_async
from rulvar.cli.exits import FAILED, OK
from rulvar.cli.terminal import Terminal
from rulvar.cli.workspace import Workspace
from rulvar.errors import LeaseHeldError


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
    audits: list[tuple[Audit, bool]] = []
    async with Workspace(options).runs() as runs:
        for run_id in options.runs or await run_ids(runs.journal):
            audit = await audit_run(runs, run_id)
            mends = options.repair and any(finding.repair is not None for finding in audit.findings)
            if mends:
                try:
                    await repair_run(runs, audit)
                except LeaseHeldError as error:
                    mends = False
                    terminal.say(("warning: ", "yellow"), f"not repaired: {error.message}")
            audits.append((audit, mends))
    left = sum(
        1
        for audit, mended in audits
        for finding in audit.problems
        if not (mended and finding.repair is not None)
    )
    if options.json:
        terminal.document(
            {
                "store": runs.name,
                "runs": [_document(audit, mended) for audit, mended in audits],
                "problems": left,
            }
        )
    else:
        for audit, mended in audits:
            _show(audit, mended, terminal)
        _summary(audits, left, terminal)
    return FAILED if left else OK


def _document(audit: Audit, mended: bool) -> dict[str, object]:
    return {
        "runId": audit.run_id,
        "findings": [
            {**finding.to_wire(), "repaired": mended and finding.repair is not None}
            for finding in audit.findings
        ],
    }


def _show(audit: Audit, mended: bool, terminal: Terminal) -> None:
    if not audit.findings:
        return
    terminal.out((audit.run_id, "bold"))
    for finding in audit.findings:
        style, word = ("red", "problem") if finding.level == "problem" else ("", "note   ")
        done = ""
        if finding.repair is not None:
            done = "; repaired" if mended else f"; --repair: {finding.repair}"
        terminal.out("  ", (word, style), f"  {finding.kind:<16} {finding.message}{done}")  # type: ignore[arg-type]


def _summary(audits: list[tuple[Audit, bool]], left: int, terminal: Terminal) -> None:
    mended = sum(
        1 for audit, did in audits for finding in audit.problems if did and finding.repair is not None
    )
    runs = f"{len(audits)} run{'' if len(audits) == 1 else 's'}"
    repaired = f", {mended} repaired" if mended else ""
    if left:
        terminal.out(f"{runs}, ", (f"{left} problem{'' if left == 1 else 's'}", "red"), repaired)
    else:
        terminal.out(f"{runs}, ", ("no problems", "green"), repaired)
