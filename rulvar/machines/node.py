"""One run of a tree while its journal is read: what it did so far, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.contracts.outcome import Pending
from rulvar.machines.commit import Commit, Launch
from rulvar.machines.names import child_id
from rulvar.machines.progress import Progress
from rulvar.machines.trace import TraceEvent

__all__ = ["OpenAttempt", "RunNode", "interleave", "state_diff"]


class OpenAttempt:
    """An attempt of a transition that is not committed yet."""

    __slots__ = ("node", "started", "started_ms", "tool_seq", "transition")

    def __init__(self, node: RunNode, transition: str, started_ms: int) -> None:
        self.node = node
        self.transition = transition
        self.started = len(node.events)
        self.started_ms = started_ms
        self.tool_seq = 0


class RunNode:
    """One run of the tree while it is read."""

    def __init__(self, run_id: str, workflow: str, scope: str, args: Any = None) -> None:
        self.run_id, self.workflow, self.scope, self.args = run_id, workflow, scope, args
        self.progress = Progress()
        self.is_machine = False
        self.events: list[tuple[str, int, dict[str, Any]]] = []
        self.calls: list[int] = []
        self.ended_at: dict[int | None, int] = {}
        self.children: list[RunNode] = []
        self.waits: dict[int, tuple[Pending, ...]] = {}
        self.park: int | None = None
        self.answer: Any = None
        self.ended: str | None = None
        self.error: str | None = None
        self.result: Any = None
        self.tool_seq = 0
        self.began = False
        self.settled: str | None = None

    def emit(self, type_: str, ts: int, fields: dict[str, Any]) -> None:
        self.events.append((type_, ts, {name: value for name, value in fields.items() if value is not None}))

    def settle(self, status: str, ts: int, available: list[str] | None = None) -> None:
        """Tell that the run parks or ends, once until something else happens."""
        if self.settled == status:
            return
        self.settled = status
        place = self.progress.place if self.is_machine else None
        self.emit("run.settled", ts, {"status": status, "place": place, "availableTransitions": available})

    def trace(self) -> list[TraceEvent]:
        return [TraceEvent(type_, seq, ts, fields) for seq, (type_, ts, fields) in enumerate(self.events)]


def state_diff(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a patch changes, per top-level key: ``{"before"?, "after"?}``."""
    diff: dict[str, Any] = {}
    for key, value in patch.get("set", {}).items():
        diff[key] = {"before": before[key], "after": value} if key in before else {"after": value}
    for key in patch.get("unset", ()):
        diff[key] = {"before": before.get(key)}
    return diff


def interleave(node: RunNode, attempt: OpenAttempt, commit: Commit) -> None:
    """Put what a commit saved and started between the tool calls of its attempt, where it happened."""
    calls = [index for index in node.calls if index > attempt.started]
    told: list[tuple[int, int, tuple[str, int, dict[str, Any]]]] = []
    seen: set[str] = set()
    for document in commit.documents:
        key = document.key
        replaces = key is not None and (key in seen or node.progress.documents.has(key))
        fields = {
            "transitionId": commit.transition,
            "documentName": document.name,
            "documentId": document.id,
            "key": key,
            "invalidatedKey": key if replaces else None,
        }
        if key is not None:
            seen.add(key)
        index = _index_after(document.position, calls, attempt, len(node.events))
        if document.call in node.ended_at:
            index = node.ended_at[document.call]  # a tool's documents are saved before its call is over
        told.append((index, document.turn, ("document.emitted", document.at_ms, fields)))
    for launch in commit.children:
        index = _index_after(launch.position, calls, attempt, len(node.events))
        told.append((index, launch.turn, _queued(node, commit, launch)))
    ordered = sorted(told, key=lambda item: item[:2])
    for shift, (index, _, (type_, ts, fields)) in enumerate(ordered):
        clean = {name: value for name, value in fields.items() if value is not None}
        node.events.insert(index + shift, (type_, ts, clean))
    node.calls.clear()
    node.ended_at.clear()


def _index_after(position: int, calls: list[int], attempt: OpenAttempt, end: int) -> int:
    """Return where something stands that happened after that many calls of an attempt."""
    if position == 0:
        return attempt.started
    return calls[position - 1] if position <= len(calls) else end


def _queued(node: RunNode, commit: Commit, launch: Launch) -> tuple[str, int, dict[str, Any]]:
    fields = {
        "transitionId": commit.transition,
        "childWorkflowId": child_id(node.run_id, node.scope, launch.scope),
        "workflowName": launch.workflow,
        "label": launch.label,
        "show": launch.show,
    }
    return "child.queued", launch.at_ms, fields
