"""A run of machines as a tree: where each stands, what it waits for, and what it asks.

Statuses are those of runs everywhere else on the command line; machines have words of their own for
them, which tests of machines use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rulvar.cli.machine_questions import question_of
from rulvar.cli.outcomes import STATUS_STYLES
from rulvar.cli.terminal import Terminal

if TYPE_CHECKING:
    from rulvar.machines.view import RunView

__all__ = ["show_tree", "status_of"]

_STATUS: Mapping[str, str] = {"completed": "ok", "waiting": "suspended", "failed": "error"}
_ENDED_BADLY = frozenset({"error", "blocked", "exhausted", "outcome_unknown"})


def status_of(node: RunView, meta: Mapping[str, Any] | None = None) -> str:
    """Return how a run of a tree stands, in the words of runs.

    Args:
        meta: the meta row, where the node is the root: it tells the ways to fail apart.
    """
    status = _STATUS.get(node.status, node.status)
    recorded = (meta or {}).get("status")
    return str(recorded) if status == "error" and recorded in _ENDED_BADLY else status


def show_tree(terminal: Terminal, root: RunView, meta: Mapping[str, Any], indent: str = "") -> None:
    """Write where every run of a tree stands."""
    for node in root.tree():
        depth = indent + "  " * (node.scope.count("/wf:") + (1 if node.scope else 0))
        status = status_of(node, meta if node is root else None)
        place = "" if node.place is None else f" at {node.place}"
        terminal.out(f"{depth}{node.workflow} ", (status, STATUS_STYLES.get(status, "")), place)
        if node.path:
            terminal.out(f"{depth}  path: {' -> '.join(node.path)}")
        if node.error is not None:
            terminal.out_block(f"error: {node.error}", f"{depth}  ")
        for way in node.waits:
            terminal.out(f"{depth}  waits for ", (way.transition or way.key, "cyan"), f"  ({way.key})")
        question = question_of(node) if node.waits and node.place is not None else None
        if question is not None:
            terminal.out(f"{depth}  asks:")
            terminal.out_block(question, f"{depth}    ")
