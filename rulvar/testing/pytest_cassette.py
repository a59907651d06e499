"""The ``cassette`` fixture: where a test's recording lies, and whether it is replayed or recorded."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.ports.provider import Adapter
from rulvar.errors import ConfigError
from rulvar.testing.pytest_names import RECORD_MODES, STARTED
from rulvar.testing.recorder import RecordedAdapters, record
from rulvar.testing.replayer import ReplayAdapters, Tape, replay, serve

if TYPE_CHECKING:
    import pytest

__all__ = ["PytestCassette", "open_cassette"]

FOLDER = "cassettes"
_UNFIT = re.compile(r"[^A-Za-z0-9_.\[\]-]")
_LONGEST_NAME = 120


class PytestCassette(os.PathLike[str]):
    """The cassette of one test.

    Attributes:
        path: the file.
        record_mode: ``none`` replays and never records; ``once`` records when the file is missing;
            ``new_episodes`` replays and records what is missing; ``all`` records everything anew.
    """

    def __init__(
        self,
        path: Path,
        record_mode: str,
        node_id: str,
        has_passed: Callable[[], bool],
        run_started: datetime,
        moved: Callable[[str, str], None],
    ) -> None:
        self.path = path
        self.record_mode = record_mode
        self._node_id = node_id
        self._has_passed = has_passed
        self._run_started = run_started
        self._moved = moved
        self._recorder: RecordedAdapters | None = None
        self._tape: Tape | None = None
        self._unfinished: Path | None = None

    def __fspath__(self) -> str:
        return str(self.path)

    def adapters(
        self, *live: Adapter | Callable[[], Adapter], redact: Callable[[str], str] | None = None
    ) -> list[Any]:
        """Return adapters for an engine: replaying, recording, or both, as the record mode says.

        A test that asks again, for a second engine, goes on where the first one stands: no row is
        served twice, and one recording holds it all.

        Args:
            live: adapters, or functions that make them; a function is called only when its adapter
                may go live, so that replaying needs no key.
            redact: masks what the built-in policy does not know, when something is recorded.

        Raises:
            ConfigError: nothing is recorded and nothing may be, the cassette cannot be trusted, or
                another test is recording it.
        """
        if self._recorder is not None or self._tape is not None:
            return self._further(live, redact)
        exists = self.path.exists()
        continues = self.record_mode in ("all", "once") and exists and self._is_of_this_run()
        if self._starts_anew(exists, continues):
            made = self._made(live)
            return self._recording(made, redact) or self.adapters(*made, redact=redact)
        if continues or self.record_mode == "new_episodes":
            self._recorder = record(adapters=self._made(live), cassette=self.path, redact=redact)
            return self._serving(replay(cassette=self.path, on_miss="passthrough", adapters=self._recorder))
        if not exists:
            raise ConfigError(
                f"{self.path}: this cassette does not exist, and record mode none makes no new one; record it "
                f"with: pytest --rulvar-record=once {self._node_id!r}",
                data={"cassette": str(self.path)},
            )
        return self._serving(replay(cassette=self.path, on_miss="throw"))

    def finish(self) -> None:
        """End what was recorded: it replaces the cassette if the test passed, and is set aside otherwise.

        Raises:
            ConfigError: it cannot be put there; says where it is kept.
        """
        try:
            self._put_in_place()  # while we hold its lock: the next one begins another file
        finally:
            if self._recorder is not None:
                self._recorder.close()

    def _put_in_place(self) -> None:
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is None or not unfinished.exists():
            return
        target = self.path if self._has_passed() else self.path.with_name(self.path.name + ".failed")
        try:
            os.replace(unfinished, target)
            self._moved(str(unfinished), str(target))
        except OSError as error:
            problem = (
                f"cannot put the recording in place: {error.strerror or error}; it is kept as {unfinished}"
            )
            raise ConfigError(f"{target}: {problem}", data={"cassette": str(target)}) from None

    def _starts_anew(self, exists: bool, continues: bool) -> bool:
        return not continues and (self.record_mode == "all" or (self.record_mode == "once" and not exists))

    def _recording(self, live: list[Adapter], redact: Callable[[str], str] | None) -> list[Any] | None:
        """Begin a recording; None when another test has put one in place in the meantime."""
        unfinished = self.path.with_name(self.path.name + ".recording")
        recorder = record(adapters=live, cassette=unfinished, redact=redact, fresh=True)
        exists = self.path.exists()
        if not self._starts_anew(exists, exists and self._is_of_this_run()):
            unfinished.unlink()
            recorder.close()
            return None
        self._unfinished = unfinished  # ours to put in place or aside, now that we hold its lock
        self._recorder = recorder
        return recorder

    def _serving(self, adapters: ReplayAdapters) -> ReplayAdapters:
        self._tape = adapters.tape
        return adapters

    def _further(
        self, live: tuple[Adapter | Callable[[], Adapter], ...], redact: Callable[[str], str] | None
    ) -> list[Any]:
        recorder = None if self._recorder is None else self._recorder.with_more(self._made(live), redact)
        if self._tape is None:
            return recorder or []
        return serve(self._tape, "throw" if recorder is None else "passthrough", recorder or ())

    def _made(self, live: tuple[Adapter | Callable[[], Adapter], ...]) -> list[Adapter]:
        if not live:
            raise ConfigError(
                f"{self.path}: record mode {self.record_mode} needs the live adapters: cassette.adapters(adapter)",
                data={"cassette": str(self.path)},
            )
        return [item() if callable(item) and not isinstance(item, Adapter) else item for item in live]

    def _is_of_this_run(self) -> bool:
        """Whether another test of this pytest run has recorded the cassette: it is then continued."""
        try:
            with self.path.open("rb") as file:
                recorded_at = datetime.fromisoformat(decode_json(file.readline())["recordedAt"])
            return recorded_at >= self._run_started
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return False  # whoever opens it says what is wrong with it

    def __repr__(self) -> str:
        return f"<cassette {self.path}, record mode {self.record_mode}>"


def open_cassette(request: pytest.FixtureRequest, moved: Callable[[str, str], None]) -> PytestCassette:
    """Return the cassette of the requesting test.

    Args:
        moved: is told where a recording was and where it was put.

    Raises:
        ConfigError: its marker names no file under ``cassettes/``, or an unknown record mode.
    """
    node = request.node
    marker = node.get_closest_marker("rulvar_cassette")
    args = list(marker.args) if marker is not None else []
    options: Mapping[str, Any] = marker.kwargs if marker is not None else {}
    unknown = set(options) - {"name", "record_mode"}
    if unknown or len(args) > 1:
        raise ConfigError("rulvar_cassette: expected (name=None, *, record_mode=None)")
    name = args[0] if args else options.get("name")
    folder = Path(node.path).parent / FOLDER
    path = _named(folder, name) if name is not None else folder / _path_of(node.nodeid, Path(node.path).stem)
    mode = _record_mode(request.config, options.get("record_mode"))
    started = datetime.fromtimestamp(int(_run_started(request.config) * 1000) / 1000, UTC)
    return PytestCassette(
        path, mode, node.nodeid, lambda: bool(node.stash.get(_passed_key(), False)), started, moved
    )


def _run_started(config: pytest.Config) -> float:
    return config.stash[STARTED]


def _passed_key() -> Any:
    from rulvar.testing.pytest_session import PASSED

    return PASSED


def _record_mode(config: pytest.Config, marked: Any) -> str:
    if config.getoption("--rulvar-replay") == "strict":
        return "none"
    chosen = config.getoption("--rulvar-record")
    if chosen is not None:
        return str(chosen)
    if marked is not None:
        if marked not in RECORD_MODES:
            raise ConfigError(f"rulvar_cassette: record_mode={marked!r}; use {', '.join(RECORD_MODES)}")
        return str(marked)
    return "none" if os.environ.get("CI", "").lower() not in ("", "0", "false") else "once"


def _named(folder: Path, name: Any) -> Path:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"rulvar_cassette: the name is a nonempty text, got {name!r}")
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts:
        raise ConfigError(f"rulvar_cassette: {name!r} does not lie under {FOLDER}/")
    return folder / (name if name.endswith(".jsonl") else f"{name}.jsonl")


def _path_of(node_id: str, stem: str) -> Path:
    """Return ``test_file/TestClass.test_name[param].jsonl``, with a digest where that is no file name."""
    place, bracket, parameters = node_id.partition("::")[2].partition("[")
    name = place.replace("::", ".") + bracket + parameters
    fit = _UNFIT.sub("-", name)[:_LONGEST_NAME]
    if fit != name:
        fit += "-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return Path(stem) / f"{fit}.jsonl"
