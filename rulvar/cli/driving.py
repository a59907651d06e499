"""Runs a command's coroutine, and lets Ctrl-C and SIGTERM cancel a run so that it settles."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rulvar.cli.progress import Progress

if TYPE_CHECKING:
    from types import FrameType

    from rulvar.cli.terminal import Terminal
    from rulvar.contracts.outcome import Outcome
    from rulvar.engine.handle import RunHandle

__all__ = ["Driven", "drive", "interruptible", "run_async"]

T = TypeVar("T")
_SIGNALS = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)


class Driven:
    """How a run ended, and the signal that ended it."""

    __slots__ = ("outcome", "signal")

    def __init__(self, outcome: Outcome, number: int | None) -> None:
        self.outcome = outcome
        self.signal = number


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end."""
    return asyncio.run(work)


async def drive(handle: RunHandle, terminal: Terminal, name: str, *, quiet: bool = False) -> Driven:
    """Wait for a run to settle, showing its progress under the name of its workflow.

    The first Ctrl-C cancels the run and waits for its settlement, a second one gives up waiting, and a third one
    ends the process, whatever the workflow catches.

    Raises:
        RulvarError: the run could not start.
        KeyboardInterrupt: a second signal came.
    """
    progress = Progress(terminal, quiet=quiet)
    progress.follow(handle)
    loop = asyncio.get_running_loop()
    received: list[int] = []
    cancelling: list[asyncio.Task[None]] = []

    def cancel() -> None:
        word = signal.Signals(received[0]).name
        terminal.say("cancelling the run (", word, "); once more to stop at once")
        cancelling.append(loop.create_task(handle.cancel(f"interrupted by {word}")))

    def on_signal(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            # the workflow may catch this too, and go on: then only the system can end it
            for each in _SIGNALS:
                if signal.getsignal(each) is on_signal:
                    signal.signal(each, signal.SIG_DFL)
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(cancel)

    try:
        with _handlers(on_signal):
            progress.begin(handle.run_id, name)
            outcome = await handle.result()
            if cancelling:
                await asyncio.wait(cancelling)
    finally:
        progress.end()
    return Driven(outcome, received[0] if received else None)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt what blocks, as it does outside an event loop."""
    with _handlers(signal.default_int_handler, (signal.SIGINT,)):
        yield


@contextlib.contextmanager
def _handlers(handler: Any, numbers: tuple[int, ...] = _SIGNALS) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    # nohup and the like have switched a signal off: it stays off
    mine = [number for number, old in before.items() if old is not signal.SIG_IGN]
    for number in mine:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in mine:
            if signal.getsignal(number) is handler:
                signal.signal(number, before[number] or signal.SIG_DFL)
