"""What a call that a strict replay missed looked like when it was recorded.

A journal holds keys, not prompts. The words that a key was made of stand elsewhere: a prompt in the
transcript of its call, the key of a wait in its entry. Where they are nowhere, that is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.observer import ClaimRecord, QuietObserver, SegmentRecord
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.contracts.redaction import Redactor
from rulvar.errors import RulvarError
from rulvar.kernel.keys import EMPTY_SCHEMA_HASH, EMPTY_TOOLSET_HASH
from rulvar.runtime.checkpoint import checkpoint_json
from rulvar.stores.bundle import is_blob_name
from rulvar.testing.excerpt import ABSENT, excerpt

__all__ = ["MissWatch", "recorded_differences", "told_differences"]

_UNKNOWN: Mapping[str, str] = {
    "step": "of a step the journal holds a hash of label and deps: the code that recorded the run has them",
    "child": "of a child the journal holds a hash of its arguments: a run with --trace keeps them",
}
_NO_ARGS = "of a tool call the journal holds a hash of its arguments: a run with --trace keeps them"
_NO_TRANSCRIPT = (
    "the journal holds a hash of the prompt, of the tools and of the schema, any of which may be what differs; the "
    "transcript that has its words is not at hand: replay the run in its own store, or as rulvar export wrote it"
)
_HASHED = (
    "the prompt, the agent type and the model are the recorded ones: what differs is the tools (one was added, removed "
    "or changed) or the schema, of which the journal holds hashes"
)
_SEVERAL = "the recorded one is the same: several other fields differ at once (agent type, model, effort, schema, tools)"


class MissWatch(QuietObserver):
    """Notes the call that a strict replay ended at; an observer of one engine."""

    wants_segments = True

    def __init__(self) -> None:
        self.missed: ClaimRecord | None = None

    def segment_ended(self, record: SegmentRecord) -> None:
        """See one execution segment end."""
        live = [claim for claim in record.claims if claim.action in ("live", "rerun")]
        self.missed = live[0] if record.strict and live else None


async def recorded_differences(
    found: Mapping[str, Any],
    missed: ClaimRecord | None,
    entries: Sequence[JournalEntry],
    transcripts: TranscriptStore | None,
) -> list[dict[str, Any]]:
    """Return the differences of a divergence with the recorded side filled in.

    Args:
        found: the divergence, as the error of the miss tells it.
        missed: the call itself, whole.

    Returns:
        ``path``, ``recorded`` and ``actual`` of each, both sides shortened around where they part; and a
        ``note`` where the recorded side is not known, or is the same.
    """
    differences = [dict(item) for item in found.get("differences") or ()]
    expected = found.get("expected")
    if found.get("reason") != "changed" or missed is None or not isinstance(expected, Mapping):
        return differences
    told = []
    for item in differences:
        if item["recorded"] is None and item["path"] in _TEXTS:
            item = await _filled(item, missed, entries, expected, transcripts)
        told.append(item)
    return told


_TEXTS = frozenset({"prompt", "label or deps", "args", "key"})
"""What a key is made of: the fields of which the journal itself says nothing."""


async def _filled(
    item: dict[str, Any],
    missed: ClaimRecord,
    entries: Sequence[JournalEntry],
    expected: Mapping[str, Any],
    transcripts: TranscriptStore | None,
) -> dict[str, Any]:
    seq = expected.get("seq")
    wires = [entry.to_wire() for entry in entries if entry.seq == seq or entry.ref == seq]
    kind = str(missed.identity.get("kind"))
    if kind == "step" and (told := _steps_told(missed.identity, wires)) is not None:
        return told
    actual = missed.identity.get(_FIELDS.get(kind, "key"))
    recorded = await _recorded(kind, wires, transcripts)
    if recorded is ABSENT:
        return {**item, "note": _UNKNOWN.get(kind, _NO_TRANSCRIPT)}
    if recorded == actual:
        if kind == "agent" and _is_same_agent(missed.identity, expected):
            return {
                "path": "tools or schema",
                "recorded": None,
                "actual": _hashed(missed.identity),
                "note": _HASHED,
            }
        return {**item, "recorded": item["actual"], "note": _SEVERAL}
    left, right = excerpt(*(Redactor().redact(side).value for side in (recorded, actual)))
    return {**item, "recorded": left, "actual": right}


def _is_same_agent(identity: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether a call was recorded with the agent type and the model that it has now."""
    model = identity.get("modelSpec", {}).get("model")
    return bool(expected.get("agentType", "") == identity.get("agentType") and expected.get("model") == model)


def _hashed(identity: Mapping[str, Any]) -> str:
    tools = "no tools" if identity.get("toolsetHash") == EMPTY_TOOLSET_HASH else "tools"
    schema = "no schema" if identity.get("schemaHash") == EMPTY_SCHEMA_HASH else "a schema"
    return f"{tools}, {schema}"


def _steps_told(identity: Mapping[str, Any], wires: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return both sides of a tool call or a transition, of which the journal says more than of other steps."""
    begun = next((wire.get("value") for wire in wires if wire.get("status") == "running"), None)
    before, now = _step_begun(begun), _step_asked_for(identity)
    if before is None or now is None:
        return None
    left, right = excerpt(*(Redactor().redact(text).value for text in (before, now)))
    told = {"path": str(identity["key"]).partition(":")[0], "recorded": left, "actual": right}
    return {**told, "note": _NO_ARGS} if "(" in now and "(" not in before else told


def _step_begun(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    if "transition" in value and "from" in value:
        return f"{value['transition']}: {value['from']} -> {value.get('to')}"
    if "tool" in value:
        return f"{value['tool']}({_json(value['args'])})" if "args" in value else str(value["tool"])
    return None


def _step_asked_for(identity: Mapping[str, Any]) -> str | None:
    kind, _, name = str(identity.get("key")).partition(":")
    deps = list(identity.get("deps") or ())
    if kind == "transition" and len(deps) == 2:
        return f"{name}: {deps[0]} -> {deps[1]}"
    return f"{name}({_json(deps[0])})" if kind == "tool" and len(deps) == 1 else None


def _json(value: Any) -> str:
    return encode_json(value).decode("utf-8")


_FIELDS: Mapping[str, str] = {"agent": "prompt", "child": "args"}


async def _recorded(
    kind: str, wires: Sequence[Mapping[str, Any]], transcripts: TranscriptStore | None
) -> Any:
    """Return what stood there when it was recorded, or ABSENT."""
    for wire in wires:
        value = wire.get("value")
        if kind == "external" and isinstance(value, Mapping) and "key" in value:
            return value["key"]
        if kind == "child" and isinstance(value, Mapping) and "args" in value and "ref" not in wire:
            return value["args"]
        ref = wire.get("transcriptRef") or wire.get("checkpointRef")
        if kind == "agent" and transcripts is not None and isinstance(ref, str) and is_blob_name(ref):
            try:
                data = await transcripts.get(ref)
            except (RulvarError, OSError):  # what the replay itself found must not be lost for it
                return ABSENT
            if data is not None:
                return _prompt_in(data)
    return ABSENT


def _prompt_in(data: bytes) -> Any:
    """Return the text of the first message that a person's side of a conversation holds."""
    try:
        messages = checkpoint_json(data)["messages"]
        first = next(message for message in messages if message["role"] == "user")
        return "".join(part["text"] for part in first["parts"] if part.get("type") == "text")
    except (ValueError, TypeError, KeyError, StopIteration, AttributeError):
        return ABSENT


def told_differences(differences: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines that show differences, both sides under each other."""
    lines = []
    for item in differences:
        lines.append(f"differs  {item.get('path')}")
        if item.get("recorded") is not None or "note" not in item:
            lines.append(f"  recorded {_side(item.get('recorded'))}")
        lines.append(f"  now      {_side(item.get('actual'))}")
        if "note" in item:
            lines.append(f"  ({item['note']})")
    return lines


def _side(text: Any) -> str:
    return "(nothing)" if text is None else str(text)
