"""What a person sees while a run is under way: a live line on a terminal, plain lines in a pipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rulvar.cli.amounts import count_text, seconds_text, tokens_text, usd_text

if TYPE_CHECKING:
    from rulvar.cli.terminal import Part, Style, Terminal
    from rulvar.contracts.events import Event
    from rulvar.engine.handle import RunHandle
    from rulvar.engine.inspection import UnderWay

__all__ = ["Progress"]

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REDRAW_SECONDS = 0.1
_MOST_SHOWN = 8
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
        self._paid = 0.0
        self._told: set[str] = set()
        self._names: dict[str, str] = {}
        self._handle: RunHandle | None = None
        self._frame = 0
        self._ticker: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    def follow(self, handle: RunHandle) -> None:
        """Begin to follow a segment."""
        if self._quiet:
            return
        self._handle = handle
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
        now = time.monotonic()
        parts: list[Part] = [
            (_FRAMES[self._frame % len(_FRAMES)], "cyan"),
            f" {seconds_text(now - self._started)}",
        ]
        if self._spent:
            parts.append(f"  {usd_text(self._spent)}")
        if self._calls or not self._served:
            parts.append(f"  {count_text(self._calls, 'call')}")
        if self._served:
            parts.append(f"  {self._served} from the journal")
        if self._handle is not None and (calls := self._handle.under_way()):
            parts.append(("  " + _under_way(calls), "dim"))
        self._terminal.status(*parts)

    def _see(self, event: Event) -> None:
        name = self._names.get(event.span_id) or _name(event)
        if event.type == "agent:end":
            self._names.pop(event.span_id, None)
            if event.replayed:
                self._served += 1
            else:
                self._calls += 1
                self._paid += float(event.get("costUsd") or 0.0)
                self._spent = max(self._spent, self._paid)
        elif event.type == "agent:start" and not event.replayed:
            self._names[event.span_id] = _name(event)
        elif event.type == "budget:update":
            self._spent = float(event.get("spentUsd") or 0.0)
        elif event.type == "agent:error" and not event.get("willRetry"):
            self._told.add(event.span_id)
        if event.type == "agent:end" and event.span_id in self._told:
            return  # the line on its error has said so
        line = _LINES.get(event.type)
        if line is not None and not event.replayed:
            parts = line(event, name)
            if parts:
                self._terminal.say((f"{seconds_text(time.monotonic() - self._started):>7}  ", "dim"), *parts)


def _under_way(calls: Sequence[UnderWay]) -> str:
    """Return what is under way and for how long, the innermost last; of many calls the longest ones."""
    shown = calls[:_MOST_SHOWN]
    text = ", ".join(f"{call.name} {seconds_text(call.seconds)}" for call in shown)
    return text if len(calls) <= _MOST_SHOWN else f"{text}, {len(calls) - _MOST_SHOWN} more"


def _name(event: Mapping[str, Any]) -> str:
    """Return what a call is called: as its author did, else after its agent, else after its model."""
    return str(
        event.get("label") or event.get("agentType") or event.get("workflow") or event.get("model") or "call"
    )


def _agent_end(event: Mapping[str, Any], name: str) -> list[Part]:
    status = str(event.get("status"))
    usage = event.get("usage")
    parts: list[Part] = [f"agent {name}  ", (status, _STYLES.get(status, ""))]
    if isinstance(usage, Mapping) and (usage.get("inputTokens") or usage.get("outputTokens")):
        parts.append(f"  {tokens_text(usage)}")
    if event.get("costUsd"):
        parts.append(f"  {usd_text(float(event['costUsd']))}")
    return parts


def _agent_error(event: Mapping[str, Any], name: str) -> list[Part]:
    error = event.get("error") or {}
    retry = "; it is tried again" if event.get("willRetry") else ""
    return [f"agent {name}  ", ("error", "red"), f"  {error.get('message', '')}{retry}"]


def _tool_end(event: Mapping[str, Any], name: str) -> list[Part]:
    outcome = str(event.get("outcome"))
    return [f"tool {event.get('toolName')}  ", (outcome, _STYLES.get(outcome, ""))]


def _child_end(event: Mapping[str, Any], name: str) -> list[Part]:
    status = str(event.get("status"))
    return [f"workflow {event.get('workflow')}  ", (status, _STYLES.get(status, ""))]


def _waiting(event: Mapping[str, Any], name: str) -> list[Part]:
    ways = event.get("transitions") or [event.get("key")]
    return [f"waiting for {', '.join(map(str, ways))}"]


def _log(event: Mapping[str, Any], name: str) -> list[Part]:
    level = str(event.get("level"))
    data = "" if event.get("data") is None else f"  {event['data']}"
    return [(f"{level}  ", _STYLES.get(level, "")), f"{event.get('msg')}{data}"]


def _determinism(event: Mapping[str, Any], name: str) -> list[Part]:
    where = f"{event.get('file')}:{event.get('line')}"
    return [("warning  ", "yellow"), f"{where}  {event.get('code')}  {event.get('message')}"]


_LINES: Mapping[str, Callable[[Mapping[str, Any], str], list[Part]]] = {
    "agent:end": _agent_end,
    "agent:error": _agent_error,
    "approval:pending": lambda event, name: [f"waiting for approval of tool {event.get('toolName')}"],
    "child:end": _child_end,
    "determinism:warning": _determinism,
    "external:waiting": _waiting,
    "log": _log,
    "phase:start": lambda event, name: [(f"phase {event.get('phase')}", "bold")],
    "tool:end": _tool_end,
}
