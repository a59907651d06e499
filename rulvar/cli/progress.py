"""What a person sees while a run is under way: a live line on a terminal, plain lines in a pipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rulvar.cli.amounts import count_text, seconds_text, tokens_text, usd_text

if TYPE_CHECKING:
    from rulvar.cli.terminal import Part, Style, Terminal
    from rulvar.contracts.events import Event
    from rulvar.engine.handle import RunHandle

__all__ = ["Progress"]

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REDRAW_SECONDS = 0.1
_STYLES: Mapping[str, Style] = {
    "ok": "green",
    "error": "red",
    "cancelled": "yellow",
    "limit": "yellow",
    "warn": "yellow",
    "debug": "dim",
}


class Progress:
    """Follows the events of one segment.

    Args:
        quiet: show nothing.
    """

    def __init__(self, terminal: Terminal, *, quiet: bool = False) -> None:
        self._terminal = terminal
        self._quiet = quiet or terminal.json_output
        self._started = time.monotonic()
        self._calls = 0
        self._served = 0
        self._spent = 0.0
        self._running: dict[str, str] = {}
        self._frame = 0
        self._ticker: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    def follow(self, handle: RunHandle) -> None:
        """Begin to follow a segment."""
        if self._quiet:
            return
        self._stop = handle.on("*", self._see)
        if self._terminal.shows_progress:
            self._ticker = asyncio.get_running_loop().create_task(self._tick())

    def begin(self, run_id: str, workflow: str) -> None:
        """Name the run."""
        if not self._quiet:
            self._terminal.say(("run ", "dim"), run_id, (f"  {workflow}", "dim"))

    def end(self) -> None:
        """Stop, and remove the live line."""
        if self._stop is not None:
            self._stop()
        if self._ticker is not None:
            self._ticker.cancel()
        self._terminal.clear_status()

    async def _tick(self) -> None:
        while True:
            self._draw()
            await asyncio.sleep(_REDRAW_SECONDS)

    def _draw(self) -> None:
        self._frame += 1
        parts: list[Part] = [
            (_FRAMES[self._frame % len(_FRAMES)], "cyan"),
            f" {count_text(self._calls, 'call')}",
        ]
        if self._served:
            parts.append(f", {self._served} served from the journal")
        if self._spent:
            parts.append(f", {usd_text(self._spent)}")
        parts.append(f", {seconds_text(time.monotonic() - self._started)}")
        if self._running:
            parts.append(("  " + ", ".join(self._running.values()), "dim"))
        self._terminal.status(*parts)

    def _see(self, event: Event) -> None:
        if event.type == "agent:end":
            self._running.pop(event.span_id, None)
            if event.replayed:
                self._served += 1
            else:
                self._calls += 1
        elif event.type == "agent:start" and not event.replayed:
            self._running[event.span_id] = _agent(event)
        elif event.type == "budget:update":
            self._spent = float(event.get("spentUsd") or 0.0)
        line = _LINES.get(event.type)
        if line is not None and not event.replayed:
            parts = line(event)
            if parts:
                self._terminal.say((f"{seconds_text(time.monotonic() - self._started):>7}  ", "dim"), *parts)


def _agent(event: Mapping[str, Any]) -> str:
    name = event.get("label") or event.get("agentType") or event.get("model") or ""
    return f"agent {name}"


def _agent_end(event: Mapping[str, Any]) -> list[Part]:
    status = str(event.get("status"))
    usage = event.get("usage")
    parts: list[Part] = [f"{_agent(event)}  ", (status, _STYLES.get(status, ""))]
    if isinstance(usage, Mapping):
        parts.append(f"  {tokens_text(usage)}")
    if event.get("costUsd"):
        parts.append(f"  {usd_text(float(event['costUsd']))}")
    return parts


def _agent_error(event: Mapping[str, Any]) -> list[Part]:
    error = event.get("error") or {}
    retry = "; it is tried again" if event.get("willRetry") else ""
    return [f"{_agent(event)}  ", ("error", "red"), f"  {error.get('message', '')}{retry}"]


def _tool_end(event: Mapping[str, Any]) -> list[Part]:
    outcome = str(event.get("outcome"))
    return [f"tool {event.get('toolName')}  ", (outcome, _STYLES.get(outcome, ""))]


def _child_end(event: Mapping[str, Any]) -> list[Part]:
    status = str(event.get("status"))
    return [f"workflow {event.get('workflow')}  ", (status, _STYLES.get(status, ""))]


def _log(event: Mapping[str, Any]) -> list[Part]:
    level = str(event.get("level"))
    data = "" if event.get("data") is None else f"  {event['data']}"
    return [(f"{level}  ", _STYLES.get(level, "")), f"{event.get('msg')}{data}"]


def _determinism(event: Mapping[str, Any]) -> list[Part]:
    where = f"{event.get('file')}:{event.get('line')}"
    return [("warning  ", "yellow"), f"{where}  {event.get('code')}  {event.get('message')}"]


_LINES: Mapping[str, Callable[[Mapping[str, Any]], list[Part]]] = {
    "agent:end": _agent_end,
    "agent:error": _agent_error,
    "approval:pending": lambda event: [f"waiting for approval of tool {event.get('toolName')}"],
    "child:end": _child_end,
    "determinism:warning": _determinism,
    "external:waiting": lambda event: [f"waiting for {', '.join(event.get('transitions') or [event.get('key')])}"],
    "log": _log,
    "phase:start": lambda event: [(f"phase {event.get('phase')}", "bold")],
    "tool:end": _tool_end,
}
