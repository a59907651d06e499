"""Reading a journal as a tree of runs: one pass over the entries, in order.

Everything a reader wants is in the journal: a commit tells place, state, result, documents and children,
a tool call its envelope, a suspension what is waited for. Nothing is run and no class is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.clock import recorded_ms
from rulvar.engine.waits import describe_waits
from rulvar.errors import ConfigError
from rulvar.machines.commit import Commit
from rulvar.machines.names import child_id
from rulvar.machines.node import OpenAttempt, RunNode, interleave, state_diff
from rulvar.machines.view import LIFECYCLE, RunView

__all__ = ["fold_run"]

_ENDED = {"ok": "completed", "error": "failed", "cancelled": "cancelled"}


def fold_run(entries: Iterable[JournalEntry], run_id: str, meta: Mapping[str, Any] | None = None) -> RunView:
    """Return the run tree that a journal tells of.

    Args:
        meta: the run's meta row: its workflow's name, its status, whether it was traced.
    """
    return _Fold(run_id, meta or {}).read(entries)


class _Fold:
    """The tree as far as it is read."""

    def __init__(self, run_id: str, meta: Mapping[str, Any]) -> None:
        self.meta = meta
        self.root = RunNode(run_id, str(meta.get("workflowName", "")), "")
        self.nodes: dict[str, RunNode] = {"": self.root}
        self.attempts: dict[str, OpenAttempt] = {}
        self.open: dict[int, Any] = {}
        self.answered: dict[int, RunNode] = {}
        self.run_status: str | None = None

    def read(self, entries: Iterable[JournalEntry]) -> RunView:
        for entry in entries:
            reader = _READERS.get(entry.kind)
            if entry.status == "running":
                self.run_status = None
            if reader is None:
                continue
            try:
                reader(self, entry, entry.to_wire())
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ConfigError(
                    f"entry {entry.seq} is not what this release writes ({type(error).__name__}: {error}); "
                    "restore the run from a copy",
                    data={"seq": entry.seq},
                ) from error
        return self._view(self.root)

    # -- whose entry ---------------------------------------------------------------------

    def owner(self, scope: str) -> tuple[RunNode, OpenAttempt | None]:
        """Return the run that an entry's scope belongs to, and the attempt in it."""
        while scope:
            if scope in self.nodes:
                return self.nodes[scope], None
            if scope in self.attempts:
                attempt = self.attempts[scope]
                return attempt.node, attempt
            scope = scope.rpartition("/")[0]
        return self.root, None

    # -- transitions and tools -----------------------------------------------------------

    def step(self, entry: JournalEntry, wire: Mapping[str, Any]) -> None:
        value = wire.get("value")
        facts: Mapping[str, Any] = value if isinstance(value, dict) else {}
        if entry.ref is None:
            if "transition" in facts and "scope" in facts:
                self._begin(entry, wire, facts)
            elif "tool" in facts:
                self._called(entry, wire, facts)
            return
        opened = self.open.pop(entry.ref, None)
        if isinstance(opened, OpenAttempt):
            if entry.status == "ok":
                self._committed(opened, Commit.from_wire(facts), recorded_ms(wire, "endedAt"))
        elif opened is not None:
            self._returned(opened, entry, wire)

    def _begin(self, entry: JournalEntry, wire: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        node, _ = self.owner(entry.scope)
        node.is_machine = node.began = True
        node.settled = None
        started = recorded_ms(wire, "startedAt")
        attempt = OpenAttempt(node, facts["transition"], started)
        self.attempts[facts["scope"]] = attempt
        self.open[entry.seq] = attempt
        if facts.get("skipped"):
            attempt.started_ms = -1
            return
        payload = node.answer.get("data") if isinstance(node.answer, dict) else None
        told = {
            "transitionId": facts["transition"],
            "from": facts["from"],
            "to": facts["to"],
            "payload": payload,
        }
        node.emit("transition.started", started, told)
        attempt.started = len(node.events)

    def _committed(self, attempt: OpenAttempt, commit: Commit, ended: int) -> None:
        node, before = attempt.node, attempt.node.progress.state
        for launch in commit.children:
            self._child_node(node, launch.workflow, launch.scope, launch.args)
        interleave(node, attempt, commit)
        node.answer = None
        result, name = node.progress.result, commit.transition
        node.progress.apply(commit, ended)
        fields: dict[str, Any] = {"transitionId": name}
        if attempt.started_ms >= 0:
            fields["durationMs"] = ended - attempt.started_ms
        if commit.error is None:
            fields["stateDiff"] = state_diff(before, commit.state)
            fields["resultDirty"] = bool(commit.result) and node.progress.result != result
            node.emit("transition.completed", ended, fields)
            return
        fields.update(
            error=commit.error.get("message"), retryCount=commit.attempt, willRetry=commit.will_retry
        )
        node.emit("transition.failed", ended, fields)

    def _called(self, entry: JournalEntry, wire: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        node, attempt = self.owner(entry.scope)
        node.began = True
        told = self._call(node, attempt, facts, entry.seq)
        started = recorded_ms(wire, "startedAt")
        node.emit("tool.called", started, told)
        self.open[entry.seq] = (node, attempt, told, started)

    def _call(
        self, node: RunNode, attempt: OpenAttempt | None, facts: Mapping[str, Any], order: int
    ) -> dict[str, Any]:
        counter: Any = node if attempt is None else attempt
        seq, counter.tool_seq = counter.tool_seq, counter.tool_seq + 1
        return {
            "transitionId": None if attempt is None else attempt.transition,
            "toolName": facts["tool"],
            "toolSeq": seq,
            "args": facts.get("args"),
            "config": facts.get("config"),
            "order": facts.get("order", order),
        }

    def _returned(self, opened: Any, entry: JournalEntry, wire: Mapping[str, Any]) -> None:
        node, attempt, told, started = opened
        ended = recorded_ms(wire, "endedAt")
        fields = {**told, "durationMs": ended - started, "pending": wire.get("pending")}
        if entry.status == "ok":
            if attempt is None:
                self._declared(node, wire.get("value"), ended)
            node.emit(
                "tool.completed", ended, {**fields, "envelope": wire.get("envelope", wire.get("value"))}
            )
        else:
            error = (wire.get("error") or {}).get("message", entry.status)
            node.emit("tool.failed", ended, {**fields, "error": error, "envelope": wire.get("envelope")})
        if attempt is not None:
            node.calls.append(len(node.events))
            node.ended_at[entry.ref] = len(node.events) - 1

    def _declared(self, node: RunNode, envelope: Any, ended: int) -> None:
        """A workflow that is no machine has the documents that its tools declare."""
        documents = envelope.get("documents") if isinstance(envelope, dict) else None
        for declared in documents or ():
            name, number = declared.get("documentName"), node.progress.saved
            key = (declared.get("options") or {}).get("key")
            wire = {"id": f"doc-{number}", "name": name, "content": declared.get("content"), "key": key}
            commit = Commit.from_wire({"transition": "", "from": "", "to": "", "documents": [wire]})
            node.progress.apply(commit, ended)
            node.emit("document.emitted", ended, {"documentName": name, "documentId": wire["id"], "key": key})

    # -- children ------------------------------------------------------------------------

    def child(self, entry: JournalEntry, wire: Mapping[str, Any]) -> None:
        """A child starts or ends."""
        if entry.ref is None:
            value = wire.get("value") or {}
            scope, workflow = str(value.get("childScope", "")), str(value.get("workflow", ""))
            parent, attempt = self.owner(entry.scope)
            node = self.nodes.get(scope)
            if node is None:
                node = self._child_node(parent, workflow, scope, value.get("args"))
                transition = None if attempt is None else attempt.transition
                told = {"childWorkflowId": node.run_id, "workflowName": workflow, "transitionId": transition}
                parent.emit("child.queued", recorded_ms(wire, "startedAt"), told)
            node.began, node.ended, node.settled = True, None, None
            self.open[entry.seq] = (parent, node)
            return
        opened = None if entry.ref is None else self.open.pop(entry.ref, None)
        if opened is None:
            return
        parent, node = opened
        ended, status = recorded_ms(wire, "endedAt"), _ENDED.get(entry.status, "failed")
        node.ended = status
        if entry.status == "ok":
            node.result = wire.get("value")
        else:
            node.error = (wire.get("error") or {}).get("message", status)
        node.waits.clear()
        node.settle(status, ended)
        parent.emit("child.settled", ended, {"childWorkflowId": node.run_id, "status": status})

    def _child_node(self, parent: RunNode, workflow: str, scope: str, args: Any) -> RunNode:
        node = self.nodes.get(scope)
        if node is None:
            node = RunNode(child_id(parent.run_id, parent.scope, scope), workflow, scope, args)
            self.nodes[scope] = node
            parent.children.append(node)
        return node

    # -- waits and ends ------------------------------------------------------------------

    def suspension(self, entry: JournalEntry, wire: Mapping[str, Any]) -> None:
        node, _ = self.owner(entry.scope)
        node.began = True
        ways = describe_waits(entry)
        node.waits[entry.seq] = ways
        self.answered[entry.seq] = node
        value = wire.get("value")
        if isinstance(value, dict) and isinstance(value.get("transitions"), dict):
            node.is_machine, node.park, node.settled = True, entry.seq, None
            status = "failed" if value.get("status") == "failed" else "waiting"
            node.settle(status, recorded_ms(wire, "startedAt"), [way.transition or "" for way in ways])

    def resolution(self, entry: JournalEntry, wire: Mapping[str, Any]) -> None:
        resolution = wire.get("resolution") or {}
        target = resolution.get("target", entry.ref)
        if not isinstance(target, int):
            return
        node = self.answered.pop(target, None)
        if node is None:
            return
        node.waits.pop(target, None)
        node.settled = self.root.settled = None
        if node.park == target:
            value = resolution.get("value")
            is_answer = not (isinstance(value, dict) and value.get("superseded"))
            node.park, node.answer = None, value if is_answer else None

    def decision(self, entry: JournalEntry, wire: Mapping[str, Any]) -> None:
        value = wire.get("value")
        if not isinstance(value, dict):
            return
        if value.get("decisionType") == "tool-call":
            self._agent_call(entry, wire, value)
        elif value.get("decisionType") == "run_settle":
            self.run_status = str(value.get("runStatus"))
            status = LIFECYCLE.get(self.run_status, "failed")
            if status == "waiting" and self.root.park is not None:
                return  # the park itself has told
            self.root.settle(status, recorded_ms(wire, "startedAt"))

    def _agent_call(self, entry: JournalEntry, wire: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """A tool call that an agent made: kept beside the agent's own entry when the run is traced."""
        node, attempt = self.owner(entry.scope)
        told = self._call(node, attempt, facts, entry.seq)
        ended = recorded_ms(wire, "startedAt")
        started = recorded_ms(facts, "calledAt") or ended
        node.emit("tool.called", started, told)
        fields = {
            **told,
            "durationMs": ended - started,
            "envelope": facts.get("envelope"),
            "pending": facts.get("pending"),
        }
        error = facts.get("error")
        if error is None:
            node.emit("tool.completed", ended, fields)
        else:
            node.emit("tool.failed", ended, {**fields, "error": error.get("message")})

    # -- views ---------------------------------------------------------------------------

    def _view(self, node: RunNode) -> RunView:
        progress = node.progress
        failed = progress.failure
        error = node.error
        if error is None and failed is not None and failed.error is not None:
            error = str(failed.error.get("message", ""))
        return RunView(
            run_id=node.run_id,
            workflow=node.workflow,
            status=self._status(node),
            place=progress.place if node.is_machine else None,
            state=progress.state,
            result=progress.result if node.is_machine else node.result,
            args=node.args,
            error=error,
            documents=list(progress.documents),
            children=[self._view(child) for child in node.children],
            waits=tuple(way for seq in sorted(node.waits) for way in node.waits[seq]),
            trace=node.trace(),
            scope=node.scope,
            traced=bool(self.meta.get("trace")),
        )

    def _status(self, node: RunNode) -> str:
        if node is self.root:
            if self.run_status is not None:
                return LIFECYCLE.get(self.run_status, "failed")
            if node.progress.failure is not None:
                return "failed"
            if node.waits:
                return "waiting"
            return str(LIFECYCLE.get(str(self.meta.get("status")), "running"))
        if node.ended is not None:
            return node.ended
        if not node.began:
            return "pending"
        if node.progress.failure is not None:
            return "failed"  # a child that failed is not answered: the run was stopped before it could end
        stands = self.run_status is not None or bool(node.waits)
        return "waiting" if stands else "running"


_READERS: Mapping[str, Any] = {
    "step": _Fold.step,
    "child": _Fold.child,
    "external": _Fold.suspension,
    "approval": _Fold.suspension,
    "resolution": _Fold.resolution,
    "decision": _Fold.decision,
}
