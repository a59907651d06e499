"""Analysing what begins in one module."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rulvar_lint.core import region
from rulvar_lint.core.source import DEEP
from rulvar_lint.rules.wording import word
from rulvar_lint.units import Unit, workflow_span

if TYPE_CHECKING:
    from rulvar_lint.core.decls import Module
    from rulvar_lint.core.machine import Machine


def examine(machine: Machine, module: Module | None, path: str) -> tuple[Unit, bool]:
    """(what the replayed code that begins in a module gave, whether all of it could be followed).
    A module that does not parse gives nothing.
    """
    unit = Unit()
    machine.begin_unit()
    machine.used = unit.used
    complete = True
    if module is not None:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, DEEP))
        try:
            _run_roots(machine, module, unit)
        except RecursionError:
            complete = False
        except Exception as err:
            err.add_note(f"while checking {path}")
            raise
        finally:
            sys.setrecursionlimit(limit)
    selected = machine.hooks.selected
    seen = {key: finding for key, finding in machine.findings.items() if key[2] in selected}
    for finding in seen.values():
        sinks = machine.sinks.get((finding.cause.code, finding.cause.place))
        if sinks is not None:
            finding.sinks = list(sinks.values())
    unit.findings = {key: word(finding) for key, finding in seen.items()}
    return unit, complete


def _run_roots(machine: Machine, module: Module, unit: Unit) -> None:
    found = region.roots(machine, module)
    if module.is_test and module.mentions_replay:
        region.run_all_hosts(machine, module)
    for func in found:
        region.analyse(machine, func)
    unit.workflows = [
        workflow_span(decl)
        for decl in machine.registered
        if decl.module is module and decl.flags & {"workflow", "transition", "machine"}
    ]


def let_go(machine: Machine, module: Module) -> None:
    """Forget a module that nothing else uses."""
    for decl in module.decls.values():
        machine.registered.pop(decl, None)
        machine.registrars.pop(decl, None)
    machine.begin_unit()
    module.dissolve()
