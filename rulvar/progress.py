"""A live view of runs on a terminal: what is under way, what it costs, what it waits for.

::

    with progress(engine):
        await engine.run(review, args).result()

Drawing needs rich, which is loaded when a view is opened (extra ``progress``). Where there is no
terminal, a run is one line when it starts and one when it ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rulvar.contracts.events import Event
from rulvar.engine.engine import Engine
from rulvar.engine.handle import RunHandle
from rulvar.engine.inspection import UnderWay
from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["RunProgress", "progress"]

_MOST_LINES = 8
_STYLES = {"ok": "green", "running": "cyan", "suspended": "yellow", "cancelled": "yellow"}


@dataclass(slots=True)
class Work:
    """A call of a workflow that is under way.

    Attributes:
        doing: names of the tools that it uses at this moment, by the id of the call.
    """

    name: str
    model: str = ""
    began: float = 0.0
    doing: dict[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(slots=True)
class RunProgress:
    """Where a run stands: a fold of its events.

    Attributes:
        status: ``running``, or how it ended.
        under_way: agents and tools that run at this moment, by span, as their events tell.
        calls: asks the run what it is doing: steps have no events.
        agents: how many agent calls ended in which status.
        replayed: how many the journal served.
        waiting: keys of what it waits for, by entry.
    """

    run_id: str
    clock: Callable[[], float] = time.monotonic
    workflow: str = ""
    status: str = "running"
    phase: str = ""
    began: float = 0.0
    ended: float | None = None
    cost_usd: float = 0.0
    tokens: int = 0
    agents: dict[str, int] = field(default_factory=dict)
    tools: int = 0
    replayed: int = 0
    under_way: dict[str, Work] = field(default_factory=dict)
    waiting: dict[Any, str] = field(default_factory=dict)
    error: str = ""
    calls: Callable[[], tuple[UnderWay, ...]] = tuple

    def works(self) -> list[Work]:
        """Return what is under way, by the names that its authors gave it, the first begun first."""
        told, works = dict(self.under_way), []
        for call in self.calls():
            work = told.pop(call.span, None) or Work(call.name, began=self.clock() - call.seconds)
            works.append(replace(work, name=call.name))
        return works + list(told.values())

    def tell(self, event: Event) -> None:
        """Go on by one event."""
        handle = _FOLD.get(event.type)
        if handle is not None:
            handle(self, event)

    @property
    def seconds(self) -> float:
        """How long it has been running, or ran."""
        return (self.clock() if self.ended is None else self.ended) - self.began

    def _run_start(self, event: Event) -> None:
        self.workflow, self.began = str(event["workflow"]), self.clock()

    def _run_end(self, event: Event) -> None:
        self.status, self.ended = str(event["status"]), self.clock()
        self.cost_usd = float(event.get("totalUsd") or 0.0)
        self.under_way.clear()
        error = (event.get("envelope") or {}).get("error") or {}
        self.error = str(error.get("code") or "")

    def _phase(self, event: Event) -> None:
        self.phase = str(event["phase"])

    def _agent_start(self, event: Event) -> None:
        if not event.replayed:
            name = str(event.get("label") or event.get("agentType") or "agent")
            self.under_way[event.span_id] = Work(name, str(event["model"]), self.clock())

    def _agent_end(self, event: Event) -> None:
        self.under_way.pop(event.span_id, None)
        if event.replayed:
            self.replayed += 1
            return
        status = str(event["status"])
        self.agents[status] = self.agents.get(status, 0) + 1
        usage = event.get("usage") or {}
        self.tokens += int(usage.get("inputTokens", 0)) + int(usage.get("outputTokens", 0))

    def _agent_error(self, event: Event) -> None:
        work = self.under_way.get(event.span_id)
        if work is not None:
            code = str((event.get("error") or {}).get("code") or "error")
            work.note = f"{code}, again" if event.get("willRetry") else code

    def _tool_start(self, event: Event) -> None:
        name, call = str(event.get("toolId") or event["toolName"]), str(event["toolCallId"])
        work = self.under_way.setdefault(event.span_id, Work(name, began=self.clock()))
        work.note = ""
        work.doing[call] = name

    def _tool_end(self, event: Event) -> None:
        self.tools += 1
        work = self.under_way.get(event.span_id)
        if work is None:
            return
        work.doing.pop(str(event["toolCallId"]), None)
        if not work.model and not work.doing:  # a tool that the workflow itself has called
            del self.under_way[event.span_id]

    def _spend(self, event: Event) -> None:
        self.cost_usd = float(event.get("spentUsd") or 0.0)

    def _wait(self, event: Event) -> None:
        self.waiting[event.get("entryRef")] = str(event.get("key") or event.get("toolName") or "an answer")

    def _answered(self, event: Event) -> None:
        self.waiting.pop(event.get("targetRef"), None)


_FOLD: dict[str, Callable[[RunProgress, Event], None]] = {
    "run:start": RunProgress._run_start,
    "run:end": RunProgress._run_end,
    "phase:start": RunProgress._phase,
    "agent:start": RunProgress._agent_start,
    "agent:end": RunProgress._agent_end,
    "agent:error": RunProgress._agent_error,
    "tool:start": RunProgress._tool_start,
    "tool:end": RunProgress._tool_end,
    "budget:update": RunProgress._spend,
    "external:waiting": RunProgress._wait,
    "approval:pending": RunProgress._wait,
    "resolution:applied": RunProgress._answered,
}


@contextmanager
def progress(engine: Engine, *, console: Console | None = None) -> Iterator[list[RunProgress]]:
    """Show every run that the engine starts inside the block; yields them as they stand.

    Args:
        console: the terminal of stderr unless given.

    Raises:
        ConfigError: rich is not installed; names the extra.
    """
    try:
        from rich.console import Console as RichConsole
        from rich.live import Live
    except ImportError:
        raise ConfigError(
            "a progress view needs rich: pip install 'rulvar[progress]'", data={"extra": "progress"}
        ) from None
    screen = console or RichConsole(stderr=True)
    view = _View(screen)
    stop = engine.watch(view.run_starts)
    try:
        if screen.is_terminal:
            with Live(console=screen, get_renderable=view.render, refresh_per_second=8):
                yield view.runs
        else:
            yield view.runs
    finally:
        stop()


class _View:
    def __init__(self, console: Console) -> None:
        self.runs: list[RunProgress] = []
        self._console = console
        self._lock = threading.Lock()  # a view is drawn by a thread of its own

    def run_starts(self, handle: RunHandle[Any]) -> None:
        """Follow a run."""
        run = RunProgress(handle.run_id, calls=handle.under_way)
        with self._lock:
            self.runs.append(run)

        def listen(event: Event) -> None:
            with self._lock:
                run.tell(event)
            if event.type in ("run:start", "run:end") and not self._console.is_terminal:
                self._console.print(_headline(run), soft_wrap=True)

        handle.on("*", listen)

    def render(self) -> RenderableType:
        """Return the view as it is now."""
        from rich.console import Group

        with self._lock:
            live = [run for run in self.runs if run.ended is None]
            done = [run for run in self.runs if run.ended is not None]
            lines: list[Text] = [_headline(run) for run in done[-_MOST_LINES:]]
            if len(done) > _MOST_LINES:
                lines.insert(0, _text(f"… {len(done) - _MOST_LINES} more runs ended", "dim"))
            for run in live[:_MOST_LINES]:
                lines.extend((_headline(run), *_details(run)))
            if len(live) > _MOST_LINES:
                lines.append(_text(f"… {len(live) - _MOST_LINES} more runs", "dim"))
        return Group(*lines)


def _headline(run: RunProgress) -> Text:
    line = _text(f"{run.workflow or run.run_id} ", "bold")
    line.append_text(_text(run.status, _STYLES.get(run.status, "red")))
    if run.error and run.error != run.status:
        line.append_text(_text(f" ({run.error})", "red"))
    if run.phase and run.ended is None:
        line.append_text(_text(f", {run.phase}"))
    line.append_text(_text(f"  {_told(run)}", "dim"))
    return line


def _told(run: RunProgress) -> str:
    ended = sum(run.agents.values())
    parts = [f"{run.seconds:.0f} s"]
    if ended:
        failed = ended - run.agents.get("ok", 0)
        parts.append(f"{_count(ended, 'agent')}{f', {failed} not ok' if failed else ''}")
    if run.tools:
        parts.append(_count(run.tools, "tool call"))
    if run.replayed:
        parts.append(f"{run.replayed} from the journal")
    if run.tokens:
        parts.append(f"{run.tokens} tokens")
    if run.cost_usd:
        parts.append(f"{run.cost_usd:.4f} USD")
    if run.waiting:
        parts.append(f"waits for {', '.join(run.waiting.values())}")
    return "  ".join(parts)


def _details(run: RunProgress) -> list[Text]:
    lines = []
    works = run.works()
    for work in works[:_MOST_LINES]:
        line = _text(f"  {work.name}", "cyan")
        if work.model:
            line.append_text(_text(f"  {work.model}", "dim"))
        line.append_text(_text(f"  {run.clock() - work.began:.0f} s", "dim"))
        if work.model and work.doing:
            line.append_text(_text(f"  uses {', '.join(work.doing.values())}"))
        if work.note:
            line.append_text(_text(f"  {work.note}", "yellow"))
        lines.append(line)
    if len(works) > _MOST_LINES:
        lines.append(_text(f"  … {len(works) - _MOST_LINES} more", "dim"))
    return lines


def _text(text: str, style: str = "") -> Text:
    """Return text as it is: no markup, and no control characters of somebody's names."""
    from rich.text import Text

    return Text("".join(char if char.isprintable() else "�" for char in text), style=style)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
