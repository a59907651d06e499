"""Recording and replaying tool responses at the boundary of the tools: a strict, ordered script.

Both sides are one interceptor, the innermost but for the tool itself. A call takes its place in the
script at the moment it is made, so that branches of ``ctx.parallel`` keep the order in which they start.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulvar.contracts.envelope import ToolEnvelope
from rulvar.contracts.ports.tools import Proceed, ToolCall
from rulvar.errors import ConfigError, ReplayLeftoverError
from rulvar.machines.recording import ABSENT, Recording, Redact, ToolFixture, load_fixture
from rulvar.testing.drift import Masking, drift_error, drift_of, exhausted
from rulvar.tools.tool import ModelRetry, Tool, ToolRefusal

__all__ = [
    "FixturePlan",
    "FixtureRecorder",
    "FixtureReplayer",
    "ToolFixture",
    "ToolRecording",
    "load_fixture",
    "may_record",
    "plan_fixture",
]

CI, RECORD = "CI", "RULVAR_RECORD"
MODEL = "model:"
_FALSE = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Boundary:
    """Which tools take part: all of them, or those with these ids; names are those given as text."""

    ids: frozenset[str] | None
    names: frozenset[str] = frozenset()

    def holds(self, tool_id: str) -> bool:
        """Whether a tool's calls, or a model's turns (``model:<adapter id>``), are recorded or replayed."""
        if tool_id.startswith(MODEL):
            return self.ids is not None and (tool_id in self.ids or "model" in self.ids)
        return self.ids is None or tool_id in self.ids


class FixtureReplayer:
    """Answers calls from a script; every deviation ends the run."""

    def __init__(self, fixture: ToolFixture, boundary: Boundary, masking: Masking) -> None:
        self.fixture = fixture
        self.masking = masking
        self._boundary = boundary
        self._next = 0
        self._returned: list[int] = []

    def intercept(self, call: ToolCall) -> _Replayed | None:
        """Take the next place in the script."""
        if not self._boundary.holds(call.tool_id):
            return None
        if self._returned:
            return _Replayed(self, call, self._returned.pop(0))
        self._next += 1
        return _Replayed(self, call, self._next - 1)

    def withdraw(self, index: int) -> None:
        """Take a place back: its call was refused before the tool was asked."""
        if index == self._next - 1:
            self._next = index
        else:
            bisect.insort(self._returned, index)

    def check_used_up(self) -> None:
        """Raise when a run that has completed has left responses over.

        Raises:
            ReplayLeftoverError: tells how many, and the next one's tool and place.
        """
        left = [*self._returned, *range(self._next, len(self.fixture))]
        if not left:
            return
        following = self.fixture.recordings[left[0]]
        script = f"{self.fixture.source}: " if self.fixture.source else ""
        raise ReplayLeftoverError(
            f"{script}the run completed and left {len(left)} recorded response{'' if len(left) == 1 else 's'} over; the "
            f"next is {following.tool} at {following.position} (response #{left[0] + 1}); the code makes fewer calls than "
            "the fixture: re-record it",
            data={"left": len(left), "tool": following.tool, "response": left[0] + 1},
        )


class _Replayed:
    """One call and its place in the script."""

    def __init__(self, replayer: FixtureReplayer, call: ToolCall, index: int) -> None:
        self._replayer = replayer
        self._call = call
        self._index = index

    async def handle(self, proceed: Proceed) -> ToolEnvelope:
        recordings, source = self._replayer.fixture.recordings, self._replayer.fixture.source
        number, call = self._index + 1, self._call
        if self._index >= len(recordings):
            raise drift_error(call, number, exhausted(call, number, len(recordings)), source)
        recording = recordings[self._index]
        problem = drift_of(recording, call, number, self._replayer.masking)
        if problem is not None:
            raise drift_error(call, number, problem, source)
        return recording.envelope

    def withdraw(self) -> None:
        self._replayer.withdraw(self._index)


class FixtureRecorder:
    """Lets calls through and keeps what comes back, in call order, with the credentials masked.

    Attributes:
        refused: whether a call could not be recorded; nothing is written then.
    """

    def __init__(self, boundary: Boundary, masking: Masking) -> None:
        self._boundary = boundary
        self._masking = masking
        self._slots: list[Recording | None] = []
        self.refused = False

    def intercept(self, call: ToolCall) -> _Recorded | None:
        """Take the next place in the recording."""
        if not self._boundary.holds(call.tool_id):
            return None
        self._slots.append(None)
        return _Recorded(self, call, len(self._slots) - 1)

    def keep(self, index: int, recording: Recording | None) -> None:
        """Fill a place in the recording, or leave it empty."""
        if recording is not None and self._masking.is_on:
            recording = recording.redacted(self._masking.redactor)
        self._slots[index] = recording

    def fixture(self) -> ToolFixture:
        """Return what was recorded so far."""
        return ToolFixture(tuple(slot for slot in self._slots if slot is not None))


class _Recorded:
    """One call and its place in the recording."""

    def __init__(self, recorder: FixtureRecorder, call: ToolCall, index: int) -> None:
        self._recorder = recorder
        self._call = call
        self._index = index

    async def handle(self, proceed: Proceed) -> ToolEnvelope:
        call = self._call
        try:
            envelope = await proceed()
        except (ToolRefusal, ModelRetry) as error:
            self._keep(ToolEnvelope(error=error.message))
            raise
        except Exception:
            self._keep(ToolEnvelope(error=f"tool {call.tool_id} failed"))
            raise
        if envelope.pending is not None:
            self._recorder.refused = True
            raise ConfigError(
                f"tool {call.tool_id} leaves its result to a child, and such a call cannot be recorded: name the "
                "tools to record in replay_tools and leave it out; it then runs for real",
                data={"tool": call.tool_id, "field": "replay_tools"},
            )
        self._keep(envelope)
        return envelope

    def _keep(self, envelope: ToolEnvelope) -> None:
        call = self._call
        recording = Recording(
            tool=call.tool_id,
            workflow=call.workflow,
            transition=ABSENT if call.transition is None else call.transition,
            args=call.args,
            config=ABSENT if call.config is None else call.config,
            envelope=envelope,
        )
        self._recorder.keep(self._index, recording)

    def withdraw(self) -> None:
        self._recorder.keep(self._index, None)


@dataclass(frozen=True, slots=True)
class FixturePlan:
    """What a run does about recordings.

    Attributes:
        replayer, recorder: the interceptor, at most one of them.
        save_to: where a recording is written once the run has ended.
    """

    replayer: FixtureReplayer | None = None
    recorder: FixtureRecorder | None = None
    save_to: Path | None = None
    boundary: Boundary = Boundary(frozenset())

    def holds(self, tool_id: str) -> bool:
        """Whether a tool or model takes part."""
        return self.boundary.holds(tool_id)

    @property
    def named(self) -> list[str]:
        """The ids of tools that the boundary was given by name; models and tools themselves are not among them."""
        return sorted(name for name in self.boundary.names if name != "model" and not name.startswith(MODEL))

    @property
    def interceptors(self) -> tuple[Any, ...]:
        """The interceptor, if there is one."""
        return tuple(item for item in (self.replayer, self.recorder) if item is not None)


class ToolRecording(os.PathLike[str]):
    """A fixture file whose recording is decided elsewhere, for instance by the options of pytest.

    Args:
        mode: ``once`` records a missing file, ``all`` records anew, ``none`` never records.
        draft: where a recording is written; the file itself unless given.
        hint: how to record it, for the message when it is missing and may not be recorded.
    """

    def __init__(self, path: Path, mode: str, draft: Path | None = None, hint: str = "") -> None:
        self.path = path
        self.mode = mode
        self.draft = draft or path
        self._hint = hint

    def __fspath__(self) -> str:
        return str(self.path)

    def plan(self, boundary: Boundary, masking: Masking) -> FixturePlan:
        """Return what a run does about the file.

        Raises:
            ConfigError: it is missing and may not be recorded.
        """
        if self.mode != "all" and self.path.exists():
            replayer = FixtureReplayer(load_fixture(self.path), boundary, masking)
            return FixturePlan(replayer=replayer, boundary=boundary)
        if self.mode == "none":
            raise ConfigError(
                f"no fixture at {self.path.absolute()}, and nothing is recorded here{self._hint}",
                data={"field": "fixture", "file": str(self.path)},
            )
        return FixturePlan(recorder=FixtureRecorder(boundary, masking), save_to=self.draft, boundary=boundary)


def plan_fixture(
    *,
    fixture: str | os.PathLike[str] | None = None,
    replay: Any = None,
    record: str | os.PathLike[str] | bool | None = None,
    replay_tools: str | Iterable[Any] = "*",
    redact: Redact = None,
) -> FixturePlan:
    """Check the options of a run and return what it does about recordings.

    Raises:
        ConfigError: options that exclude each other, a boundary or a mask without a fixture, a missing fixture
            in CI, or a fixture that cannot be read.
    """
    record = None if record is False else record
    given = [
        name
        for name, value in (("fixture", fixture), ("replay", replay), ("record", record))
        if value is not None
    ]
    if len(given) > 1:
        hint = "; a replayed run has nothing new to record" if given == ["replay", "record"] else ""
        raise ConfigError(
            f"{' and '.join(given)} exclude each other{hint}: pass one of them", data={"field": given[1]}
        )
    if redact is not None and not given:
        raise ConfigError(
            "redact without fixture, replay or record: there is nothing that it could mask",
            data={"field": "redact"},
        )
    boundary, masking = _boundary(replay_tools, bool(given)), Masking.of(redact)
    if fixture is not None:
        return _fixture_file(fixture).plan(boundary, masking)
    if replay is not None:
        replayer = FixtureReplayer(load_fixture(replay), boundary, masking)
        return FixturePlan(replayer=replayer, boundary=boundary)
    if record is not None:
        path = None if record is True else _file_path(record, "record")
        return FixturePlan(recorder=FixtureRecorder(boundary, masking), save_to=path, boundary=boundary)
    return FixturePlan()


def may_record(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a missing fixture may be recorded: not in CI, unless RULVAR_RECORD=1 says so."""
    in_ci = environ.get(CI, "").strip().lower() not in _FALSE
    return not in_ci or environ.get(RECORD, "").strip().lower() not in _FALSE


def _fixture_file(fixture: str | os.PathLike[str]) -> ToolRecording:
    if isinstance(fixture, ToolRecording):
        return fixture
    hint = f", because this is CI: record it locally and commit it, or set {RECORD}=1 to record it here"
    return ToolRecording(_file_path(fixture, "fixture"), "once" if may_record() else "none", hint=hint)


def _file_path(value: Any, option: str) -> Path:
    """Return the path of a file that may be written; what can be no file is refused before anything runs."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ConfigError(f"{option}={value!r}: expected the path of a file", data={"field": option})
    path = Path(value)
    if path.is_dir():
        raise ConfigError(
            f"{option}: {path.absolute()} is a folder; name a file in it",
            data={"field": option, "file": str(path)},
        )
    return path


def _boundary(tools: str | Iterable[Any], is_used: bool) -> Boundary:
    if isinstance(tools, str):
        if tools == "*":
            return Boundary(None)
        raise ConfigError("replay_tools: expected '*' or a list of tools", data={"field": "replay_tools"})
    if not is_used:
        raise ConfigError(
            "replay_tools without fixture, replay or record: there is nothing that it could bound",
            data={"field": "replay_tools"},
        )
    if not isinstance(tools, Iterable):
        raise ConfigError(
            f"replay_tools: expected '*' or a list of tools, got {type(tools).__name__}",
            data={"field": "replay_tools"},
        )
    ids: list[str] = []
    given = list(tools)
    for number, item in enumerate(given):
        found = item.id if isinstance(item, Tool) else _model_id(item)
        if not isinstance(found, str) or not found:
            raise ConfigError(
                f"replay_tools[{number}]: expected a tool, its id, an adapter or 'model', got {item!r}",
                data={"field": f"replay_tools[{number}]"},
            )
        ids.append(found)
    if not ids:
        raise ConfigError(
            "replay_tools is empty: leave it out for every tool, or name some", data={"field": "replay_tools"}
        )
    return Boundary(frozenset(ids), frozenset(item for item in given if isinstance(item, str)))


def _model_id(item: Any) -> Any:
    """Return what names the turns of an adapter, or of an adapter's model; anything else as it is."""
    adapter = getattr(item, "adapter", item)
    own = getattr(adapter, "id", None)
    return f"{MODEL}{own}" if callable(getattr(adapter, "stream", None)) and isinstance(own, str) else item
