"""Explains a divergence: which call was not in the journal, what stood there instead, what differs.

A journal keeps keys, not prompts. What differs is found by asking: with which one change would the
live call's key be a recorded one? Where no single change does it, the text that a key is made of is
named as what changed. Whatever is quoted ends up in logs, so credentials in it are masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.redaction import Redactor, default_redact
from rulvar.kernel.keys import EMPTY_SCHEMA_HASH, EMPTY_TOOLSET_HASH, content_key
from rulvar.kernel.matching import JournalIndex, Operation

__all__ = ["Divergence", "explain_miss"]

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MAX_CANDIDATES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field of an identity that differs."""

    path: str
    recorded: str | None
    actual: str | None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"path": self.path, "recorded": self.recorded, "actual": self.actual}


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Why a call was not served from the journal.

    Attributes:
        reason: ``rerun`` (recorded without an outcome to keep), ``changed`` (a recorded call of the
            scope differs), ``elsewhere`` (recorded in another scope), ``exhausted`` (recorded, and
            every record is used up) or ``new``.
        expected: the recorded operation that stands at this place, or None.
        message: one or two sentences for a person.
    """

    reason: str
    kind: str
    scope: str
    label: str | None
    found: str
    expected: Mapping[str, Any] | None
    differences: tuple[Difference, ...]
    message: str

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "reason": self.reason,
            "label": self.label,
            "found": self.found,
            "expected": None if self.expected is None else dict(self.expected),
            "differences": [difference.to_wire() for difference in self.differences],
        }


def explain_miss(
    index: JournalIndex,
    *,
    scope: str,
    identity: Mapping[str, Any],
    key: str,
    label: str | None,
    taken: Operation | None,
    always_asks: bool = False,
) -> Divergence:
    """Explain why a call was not served.

    Args:
        taken: the operation that matched without an outcome to keep; None when nothing matched.
        always_asks: whether the call asked not to be served, whatever the journal holds.
    """
    kind = str(identity["kind"])
    found = _describe_call(identity, label)
    where = f"in scope {scope!r}" if scope else "in the workflow body"
    if always_asks:
        message = f"{found} {where} has replay='never': it is made anew in every run"
        return _divergence("rerun", kind, scope, label, found, None, (), message)
    if taken is not None:
        expected = _describe_operation(taken)
        message = (
            f"{found} {where} is in the journal (seq {taken.first.seq}) with status {taken.status!r}, "
            "which is run again and not replayed"
        )
        return _divergence("rerun", kind, scope, label, found, expected, (), message)
    left = [operation for operation in index.unconsumed() if operation.first.kind == kind]
    here = [operation for operation in left if operation.first.scope == scope]
    for operation in here[:_MAX_CANDIDATES]:
        if difference := _single_change(operation, identity):
            expected = _describe_operation(operation)
            message = f"{found} {where} differs from the recorded call (seq {operation.first.seq}) in {_say(difference)}"
            return _divergence("changed", kind, scope, label, found, expected, (difference,), message)
    if elsewhere := next((operation for operation in left if operation.first.key == key), None):
        expected = _describe_operation(elsewhere)
        message = (
            f"{found} {where} was recorded in scope {elsewhere.first.scope!r} (seq {elsewhere.first.seq})"
        )
        return _divergence("elsewhere", kind, scope, label, found, expected, (), message)
    if recorded := _count_used(index, scope, key):
        message = f"{found} {where} was recorded {_times(recorded)}, and every record is used up: this call is one more"
        return _divergence("exhausted", kind, scope, label, found, None, (), message)
    if here:
        expected = _describe_operation(here[0])
        difference = Difference(path=_free_text(kind), recorded=None, actual=_free_value(identity))
        message = (
            f"{found} {where} is not in the journal; the next recorded {kind} there is seq "
            f"{here[0].first.seq}, and {_unseen(kind)}"
        )
        return _divergence("changed", kind, scope, label, found, expected, (difference,), message)
    message = f"{found} {where} is not in the journal, and no recorded {kind} is left there: it was inserted"
    return _divergence("new", kind, scope, label, found, None, (), message)


def _divergence(
    reason: str,
    kind: str,
    scope: str,
    label: str | None,
    found: str,
    expected: Mapping[str, Any] | None,
    differences: tuple[Difference, ...],
    message: str,
) -> Divergence:
    return Divergence(
        reason=reason,
        kind=kind,
        scope=scope,
        label=_masked(label),
        found=default_redact(found),
        expected=expected,
        differences=tuple(
            Difference(path=item.path, recorded=_masked(item.recorded), actual=_masked(item.actual))
            for item in differences
        ),
        message=default_redact(message),
    )


def _single_change(operation: Operation, identity: Mapping[str, Any]) -> Difference | None:
    """Return the one change that turns the live call into the recorded one, if there is one."""
    for changed, difference in _changes(operation, identity):
        if content_key(changed, int(operation.first.hash_version)) == operation.first.key:
            return difference
    return None


def _changes(
    operation: Operation, identity: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], Difference]]:
    wire = (operation.terminal or operation.first).to_wire()
    if identity["kind"] == "agent":
        yield from _agent_changes(wire, identity)
    elif identity["kind"] == "step" and identity.get("deps"):
        yield (
            {**identity, "deps": []},
            Difference(path="deps", recorded="[]", actual=_short(identity["deps"])),
        )
    elif identity["kind"] == "rand":
        value = wire.get("value")
        recorded = value if isinstance(value, dict) else {}
        changed = {"kind": "rand", "subtype": recorded.get("subtype")}
        if "key" in recorded:
            changed["key"] = recorded["key"]
        yield (
            changed,
            Difference(
                path="rand",
                recorded=f"{changed['subtype']}({changed.get('key', '')})",
                actual=f"{identity['subtype']}({identity.get('key', '')})",
            ),
        )


def _agent_changes(
    wire: Mapping[str, Any], identity: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], Difference]]:
    spec = identity["modelSpec"]
    model, effort = spec.get("model"), spec.get("effort")
    attribution = wire.get("costAttribution") or {}
    agent_type = attribution.get("agentType")
    if agent_type is not None and agent_type != identity["agentType"]:
        difference = Difference(path="agent_type", recorded=agent_type, actual=identity["agentType"])
        yield {**identity, "agentType": agent_type}, difference
    served = wire.get("servedBy")
    models = [served] if served and served != model else []
    for other in (*_EFFORTS, None):
        if other != effort:
            changed = {"kind": "model", "model": model, **({"effort": other} if other else {})}
            yield {**identity, "modelSpec": changed}, Difference(path="effort", recorded=other, actual=effort)
    for other in models:
        changed = {**spec, "model": other}
        yield {**identity, "modelSpec": changed}, Difference(path="model", recorded=other, actual=model)
    if identity["schemaHash"] != EMPTY_SCHEMA_HASH:
        difference = Difference(path="schema", recorded=None, actual="a schema")
        yield {**identity, "schemaHash": EMPTY_SCHEMA_HASH}, difference
    if identity["toolsetHash"] != EMPTY_TOOLSET_HASH:
        difference = Difference(path="tools", recorded=None, actual="tools")
        yield {**identity, "toolsetHash": EMPTY_TOOLSET_HASH}, difference


def _count_used(index: JournalIndex, scope: str, key: str) -> int:
    return sum(
        1
        for operation in index.operations.values()
        if operation.consumed and operation.first.key == key and operation.first.scope == scope
    )


def _describe_operation(operation: Operation) -> dict[str, Any]:
    wire = (operation.terminal or operation.first).to_wire()
    attribution = wire.get("costAttribution") or {}
    described = {
        "seq": operation.first.seq,
        "kind": operation.first.kind,
        "status": operation.status,
        "scope": default_redact(operation.first.scope),
        "key": operation.first.key,
        "agentType": _masked(attribution.get("agentType")),
        "label": _masked(attribution.get("label")),
        "model": wire.get("servedBy"),
    }
    return {name: value for name, value in described.items() if value is not None}


def _describe_call(identity: Mapping[str, Any], label: str | None) -> str:
    kind = identity["kind"]
    if kind == "agent":
        text = _short(identity["prompt"])
        who = f" of {identity['agentType']!r}" if identity["agentType"] else ""
        named = f" labelled {label!r}" if label else ""
        return f"the agent call{who}{named} ({text})"
    if kind == "step":
        return f"the step {_short(identity['key'])}"
    if kind == "child":
        return f"the child workflow {identity['workflow']!r}"
    if kind == "external":
        return f"the wait for {identity['key']!r}"
    return f"the {identity.get('subtype', kind)} call"


def _free_text(kind: str) -> str:
    return {"agent": "prompt", "step": "label or deps", "child": "args", "external": "key"}.get(kind, "key")


def _unseen(kind: str) -> str:
    """Return what may differ where no single known change leads to the recorded key."""
    if kind == "agent":
        return "its prompt, tools or schema (or several fields at once) differ"
    return f"its {_free_text(kind)} (or several fields at once) differs"


def _free_value(identity: Mapping[str, Any]) -> str | None:
    for name in ("prompt", "key", "args"):
        if name in identity:
            return _short(identity[name])
    return None


def _say(difference: Difference) -> str:
    return f"{difference.path}: recorded {difference.recorded!r}, now {difference.actual!r}"


def _masked(text: str | None) -> str | None:
    return None if text is None else default_redact(text)


def _short(value: Any) -> str:
    # masked before it is cut: half a credential is not recognised
    text = repr(Redactor().redact(value).value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
