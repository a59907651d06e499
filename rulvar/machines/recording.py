"""Tool fixtures, version 3: a strict, ordered script of tool responses.

The file is the one that its neighbours in other languages write, so a team may share them: JSON with
an indent of 2 and a final newline, ``{"version": 3, "recordings": [{tool, workflow?, transition?, args?,
config?, envelope}]}``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.envelope import ToolEnvelope, decode_envelope
from rulvar.contracts.foreign_text import tell_foreign_file
from rulvar.contracts.redaction import Redactor
from rulvar.errors import ConfigError
from rulvar.machines.view import RunView

__all__ = [
    "FIXTURE_VERSION",
    "DerivedFixture",
    "Recording",
    "Redact",
    "ToolFixture",
    "derive_fixture",
    "fixture_redactor",
    "load_fixture",
]

Redact = Callable[[str], str] | bool | None
"""How credentials are masked: by the built-in policy, after a hook when it is one, or not at all when it is False."""

FIXTURE_VERSION = 3
_FIELDS = ("tool", "workflow", "transition", "args", "config", "envelope")
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "absent", "__bool__": lambda self: False})()
"""Stands for a field that an entry leaves out, and so does not assert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One response, and what the call that it answers must look like; absent fields are not asserted."""

    tool: str
    envelope: ToolEnvelope
    workflow: Any = ABSENT
    transition: Any = ABSENT
    args: Any = ABSENT
    config: Any = ABSENT

    @property
    def position(self) -> str:
        """Where the call was recorded, for messages."""
        parts = [part for part in (self.workflow, self.transition) if part]
        return ".".join(map(str, parts)) or "anywhere"

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object; absent fields are left out."""
        wire: dict[str, Any] = {"tool": self.tool}
        for name in ("workflow", "transition", "args", "config"):
            value = getattr(self, name)
            if value is not ABSENT:
                wire[name] = value
        wire["envelope"] = self.envelope.to_wire()
        return wire

    def redacted(self, redactor: Redactor) -> Recording:
        """Return the response with the credentials masked in what was asked and in what was answered."""
        given = {
            field: redactor.redact(value, f"{self.tool} {field}").value
            for field, value in (("args", self.args), ("config", self.config))
            if value is not ABSENT
        }
        return replace(self, envelope=_redacted_envelope(self.envelope, redactor, self.tool), **given)


def _redacted_envelope(envelope: ToolEnvelope, redactor: Redactor, tool: str) -> ToolEnvelope:
    documents = tuple(
        replace(item, content=redactor.redact(item.content, f"{tool} document").value)
        for item in envelope.documents
    )
    return replace(
        envelope,
        data=redactor.redact(envelope.data, f"{tool} data").value,
        error=redactor.redact(envelope.error, f"{tool} error").value,
        metadata=redactor.redact(dict(envelope.metadata), f"{tool} metadata").value,
        documents=documents,
    )


def fixture_redactor(redact: Redact) -> Redactor | None:
    """Return what masks the credentials of a recording, or None when nothing does.

    Args:
        redact: a function of a text that runs before the built-in policy; False masks nothing.

    Raises:
        ConfigError: neither a function nor a boolean.
    """
    if redact is False:
        return None
    if redact is not None and redact is not True and not callable(redact):
        raise ConfigError(
            f"redact: expected a function of a text, or False, got {type(redact).__name__}",
            data={"field": "redact"},
        )
    return Redactor(redact if callable(redact) else None)


@dataclass(frozen=True, slots=True)
class ToolFixture:
    """A script of tool responses, in call order over the whole run tree.

    Attributes:
        source: the file it was read from, or None.
    """

    recordings: tuple[Recording, ...]
    source: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"version": FIXTURE_VERSION, "recordings": [item.to_wire() for item in self.recordings]}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fixture atomically; missing folders are made."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        draft.write_bytes(_pretty(self.to_wire()))
        draft.replace(target)

    def __len__(self) -> int:
        return len(self.recordings)


def load_fixture(source: str | os.PathLike[str] | Mapping[str, Any] | ToolFixture) -> ToolFixture:
    """Read a fixture from a file, or from the plain JSON object.

    Raises:
        ConfigError: no such file, not a fixture of version 3, an entry that is wrong or pending; names file,
            entry (counted from 1) and field.
    """
    if isinstance(source, ToolFixture):
        return source
    if isinstance(source, Mapping):
        return _decode(source, "fixture", None)
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(
            f"fixture: expected a path or a fixture object, got {type(source).__name__}",
            data={"field": "fixture"},
        )
    path = Path(source)
    name = str(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path.absolute()}: no such fixture", data={"file": name}) from None
    except OSError as error:
        raise ConfigError(f"{path.absolute()}: cannot be read ({error})", data={"file": name}) from None
    try:
        wire = decode_json(data)
    except ValueError as error:
        problem = tell_foreign_file(data, error, "record it again")
        raise ConfigError(f"{name}: {problem}", data={"file": name}) from None
    return _decode(wire, name, name)


def _decode(wire: Any, name: str, source: str | None) -> ToolFixture:
    if not isinstance(wire, Mapping):
        raise ConfigError(f"{name}: expected an object with version and recordings", data={"field": "$"})
    version = wire.get("version")
    if version != FIXTURE_VERSION or isinstance(version, bool):
        raise ConfigError(
            f"{name}: fixture version {version!r} is not {FIXTURE_VERSION}; re-record it (delete the file and run "
            "the test)",
            data={"field": "version"},
        )
    recordings = wire.get("recordings")
    if not isinstance(recordings, (list, tuple)):
        raise ConfigError(f"{name}: recordings: expected a list", data={"field": "recordings"})
    return ToolFixture(tuple(_recording(item, n, name) for n, item in enumerate(recordings, 1)), source)


def _recording(wire: Any, number: int, name: str) -> Recording:
    if isinstance(wire, Recording):
        return wire
    where = f"{name}: response #{number}"
    if not isinstance(wire, Mapping) or not isinstance(wire.get("tool"), str) or not wire["tool"]:
        raise ConfigError(f"{where}: expected an object with the id of a tool", data={"field": "tool"})
    tool = wire["tool"]
    for field in ("workflow", "transition"):
        if wire.get(field) is not None and not isinstance(wire[field], str):
            raise ConfigError(f"{where} ({tool}) {field}: expected a name", data={"field": field})
    if "envelope" not in wire:
        raise ConfigError(f"{where} ({tool}): it has no envelope", data={"field": "envelope"})
    envelope = decode_envelope(wire["envelope"], f"{where} ({tool}) envelope")
    if envelope.pending is not None:
        raise ConfigError(
            f"{where} ({tool}): a pending envelope is a reference to a child that was never started here; leave "
            "the async tool out of replay_tools and re-record",
            data={"field": "envelope.pending", "tool": tool},
        )
    given = {field: wire[field] for field in ("args", "config") if field in wire}
    places = {field: wire[field] for field in ("workflow", "transition") if wire.get(field) is not None}
    return Recording(tool=tool, envelope=envelope, **given, **places)


@dataclass(frozen=True, slots=True)
class DerivedFixture:
    """A fixture made of a run, and how many calls could not go into it: their results are their children's."""

    fixture: ToolFixture
    skipped_pending: int


def derive_fixture(
    root: RunView, tools: Iterable[str] | None = None, redact: Redact = None
) -> DerivedFixture:
    """Make a fixture of the tool calls of a traced run and everything below it.

    Args:
        tools: ids of the tools that go into it; every tool when left out.
        redact: masks what the built-in policy does not know; False masks nothing.

    Raises:
        ConfigError: the run was not traced, or a tool that it never called; lists those that it did.
    """
    calls = _calls(root)
    called = sorted({event.tool_name for _, _, event in calls})
    if not root.traced:
        raise ConfigError(
            f"run {root.run_id!r} has no recorded tool calls: run it with --trace, or set RULVAR_TRACE=1, so that "
            "arguments and envelopes are kept",
            data={"field": "trace"},
        )
    wanted = None if tools is None else list(tools)
    for name in wanted or ():
        if name not in called:
            raise ConfigError(
                f"run {root.run_id!r} made no call of tool {name!r}; it called: {', '.join(called) or 'none'}",
                data={"field": "tools", "called": called},
            )
    redactor = fixture_redactor(redact)
    recordings: list[Recording] = []
    skipped = 0
    for _, node, event in calls:
        if wanted is not None and event.tool_name not in wanted:
            continue
        envelope = event.get("envelope")
        if event.get("pending") or event.type == "tool.called":
            skipped += 1
            continue
        if envelope is None and event.type == "tool.failed":
            continue  # it was stopped before the tool answered: nothing to replay
        wire = {
            "tool": event.tool_name,
            "workflow": node.workflow,
            "args": event.get("args"),
            "envelope": envelope,
        }
        for name, value in (("transition", event.transition_id), ("config", event.get("config"))):
            if value is not None:
                wire[name] = value
        recording = _recording(wire, len(recordings) + 1, f"run {root.run_id}")
        recordings.append(recording if redactor is None else recording.redacted(redactor))
    return DerivedFixture(ToolFixture(tuple(recordings)), skipped)


def _calls(root: RunView) -> list[tuple[int, RunView, Any]]:
    """Return the tool calls of a run tree that ended, or wait for a child, in the order in which they were made."""
    calls: list[tuple[int, RunView, Any]] = []
    for node in root.tree():
        ended = {event["order"] for event in node.trace if event.type in ("tool.completed", "tool.failed")}
        for event in node.trace:
            waits = event.type == "tool.called" and node.status == "waiting" and event["order"] not in ended
            if waits or event.type in ("tool.completed", "tool.failed"):
                calls.append((event["order"], node, event))
    return sorted(calls, key=lambda item: item[0])


def _pretty(wire: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(wire, indent=2, ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(wire, indent=2, allow_nan=False).encode("ascii") + b"\n"
