"""What a command line tells of a run and does with it, as plain functions over a store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rulvar.contracts.outcome import Outcome, Pending
from rulvar.contracts.ports.store import JournalStore
from rulvar.errors import ConfigError, ResolutionError, RunNotFoundError
from rulvar.machines.app import App, Apps
from rulvar.machines.fold import fold_run
from rulvar.machines.hitl import HITL
from rulvar.machines.park_view import ParkView, park_view
from rulvar.machines.recording import DerivedFixture, Redact, derive_fixture
from rulvar.machines.view import LIFECYCLE, RunView

__all__ = [
    "EXIT_CODES",
    "choose_way",
    "describe_run",
    "exit_code",
    "place_document",
    "prompt_of",
    "read_run",
    "record_run",
    "run_document",
    "trace_wanted",
]

EXIT_CODES: Mapping[str, int] = {"ok": 0, "suspended": 3}
"""Exit code by outcome status; every other status is 1, and what could not start is 2."""

_FALSE = frozenset({"", "0", "false", "no", "off"})


def exit_code(outcome: Outcome) -> int:
    """Return the exit code that a run's outcome means."""
    return EXIT_CODES.get(outcome.status, 1)


def trace_wanted(flag: bool, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a run is to be traced: the flag says so, or ``RULVAR_TRACE`` does."""
    return flag or environ.get("RULVAR_TRACE", "").strip().lower() not in _FALSE


async def read_run(store: JournalStore, run_id: str) -> RunView:
    """Return the run tree that a store holds.

    Raises:
        RunNotFoundError: the store has no such run.
    """
    entries, meta = await store.load(run_id), await store.load_meta(run_id)
    if not entries and meta is None:
        raise RunNotFoundError(f"no run {run_id!r} in the store", data={"runId": run_id})
    return fold_run(entries, run_id, meta)


def run_document(view: RunView, outcome: Outcome, duration_ms: int) -> dict[str, Any]:
    """Return the JSON object that tells of a run: where it stands, and with what."""
    wire: dict[str, Any] = {
        "runId": view.run_id,
        "workflow": view.workflow,
        "status": LIFECYCLE.get(outcome.status, "failed"),
        "outcome": outcome.status,
        "result": outcome.value if outcome.status == "ok" else view.result,
        "error": None if outcome.error is None else outcome.error.to_wire(),
        "errorMessage": None if outcome.error is None else outcome.error.message,
        "durationMs": duration_ms,
    }
    return wire if view.place is None else {**wire, **place_document(view)}


def place_document(view: RunView) -> dict[str, Any]:
    """Return the JSON members that tell where a machine stands."""
    return {
        "place": view.place,
        "path": view.path,
        "availableTransitions": view.available_transitions,
    }


async def record_run(
    store: JournalStore,
    run_id: str,
    path: str | os.PathLike[str],
    tools: Iterable[str] | None = None,
    redact: Redact = None,
) -> dict[str, Any]:
    """Write the tool fixture of a traced run, and return what a command prints of it.

    Args:
        tools: ids of the tools that go into it; every tool when left out.
        redact: masks what the built-in policy does not know; False masks nothing.

    Raises:
        RunNotFoundError: no such run.
        ConfigError: the run was not traced, or a tool that it never called; lists those that it did.
    """
    derived: DerivedFixture = derive_fixture(await read_run(store, run_id), tools, redact)
    derived.fixture.save(path)
    return {
        "file": os.fspath(path),
        "recordings": len(derived.fixture),
        "skippedPending": derived.skipped_pending,
    }


def choose_way(view: RunView, name: str | None = None) -> Pending:
    """Return the wait that an answer is for, anywhere in the run tree.

    Args:
        name: a key, or the name of a transition; may be left out when only one thing can be answered.

    Raises:
        ConfigError: nothing waits.
        ResolutionError: several things can be answered and none is named, or the one named cannot; lists them.
    """
    ways = [way for node in view.open_tree() for way in node.waits]
    if not ways:
        raise ConfigError(f"run {view.run_id!r} waits for nothing", data={"runId": view.run_id})
    found = [way for way in ways if name is None or name in (way.key, way.transition)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(way.transition or way.key for way in ways)
    if name is None:
        raise ResolutionError(f"run {view.run_id!r} can be answered in several ways; name one: {listed}")
    if not found:
        raise ResolutionError(f"run {view.run_id!r} does not wait for {name!r}; it waits for: {listed}")
    keys = ", ".join(way.key for way in found)
    raise ResolutionError(f"run {view.run_id!r} waits for {name!r} in several places; name one: {keys}")


def prompt_of(view: RunView, apps: Sequence[App] = ()) -> ParkView | None:
    """Return what a person would see of a run."""
    return park_view(view, Apps((*apps, HITL)))


def describe_run(view: RunView, apps: Sequence[App] = ()) -> list[str]:
    """Return lines that tell where every machine of a run tree stands, and what it waits for."""
    lines: list[str] = []
    for node in view.tree():
        depth = "  " * (node.scope.count("/wf:") + (1 if node.scope else 0))
        place = "" if node.place is None else f" at {node.place}"
        lines.append(f"{depth}{node.workflow} {node.status}{place}")
        if node.path:
            lines.append(f"{depth}  path: {' -> '.join(node.path)}")
        if node.error is not None:
            lines.append(f"{depth}  error: {node.error}")
        lines.extend(f"{depth}  waits for {way.transition or way.key}  ({way.key})" for way in node.waits)
    prompt = prompt_of(view, apps)
    if prompt is not None and prompt.widget is not None:
        lines.append(f"asks: {prompt.widget} {prompt.document_name or ''}: {prompt.content}")
    return lines
