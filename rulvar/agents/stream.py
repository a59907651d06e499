"""What of an answer is told while it is still being written."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rulvar.agents.field_decoder import FieldDecoder
from rulvar.agents.guards import Rewrite
from rulvar.contracts.stream import TextDelta, ToolCallDelta, ToolCallStart
from rulvar.errors import ConfigError
from rulvar.runtime.structured import RESULT_TOOL

__all__ = ["Batcher", "FieldStream", "StreamPolicy"]

MOST_NAMES = 8
CONTEXT = 512
"""How many characters that are out already a stream guard is shown."""
MOST_CHARS = 4096

StreamGuard = Callable[[str, str], "bool | str | Rewrite | Awaitable[bool | str | Rewrite | None] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPolicy:
    """Tells one text field of the answer as ``output:delta`` events, in batches that guards have seen.

    The final answer is what counts: a stream that was cut says nothing against it.

    Attributes:
        field: names from the answer's outermost object inwards, 1 to 8 of them.
        guards: must be given, and may be empty. A guard is a function, sync or async, of the text that is
            out already (its last 512 characters) and of the batch: ``True`` or None releases it, ``False``
            or a text withholds it and the rest, and ``Rewrite(text)`` releases another text.
        batch: characters from which on a batch may end at a white space, and at which it ends anywhere.
    """

    field: Sequence[str]
    guards: Sequence[StreamGuard]
    batch: tuple[int, int] = (24, 512)

    def __post_init__(self) -> None:
        names = (self.field,) if isinstance(self.field, str) else tuple(self.field)
        if not 1 <= len(names) <= MOST_NAMES or not all(isinstance(name, str) and name for name in names):
            raise ConfigError(
                f"stream.field: expected 1 to {MOST_NAMES} names", data={"field": "stream.field"}
            )
        if isinstance(self.guards, str) or not all(callable(guard) for guard in self.guards):
            raise ConfigError("stream.guards: expected functions", data={"field": "stream.guards"})
        least, most = self.batch
        if not 1 <= least <= most <= MOST_CHARS:
            raise ConfigError(
                f"stream.batch: expected two sizes from 1 to {MOST_CHARS}, the lower first",
                data={"field": "stream.batch"},
            )
        object.__setattr__(self, "field", names)
        object.__setattr__(self, "guards", tuple(self.guards))


class Batcher:
    """Cuts text into batches: at the last white space once there is enough, anywhere once there is too much."""

    __slots__ = ("_least", "_most", "_text")

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most, self._text = least, most, ""

    def feed(self, text: str) -> list[str]:
        """Return the batches that more text completes."""
        self._text += text
        batches = []
        while len(self._text) >= self._least:
            window = self._text[: self._most]
            cut = max(window.rfind(white) for white in " \n\t\r") + 1
            if cut < self._least:
                if len(window) < self._most:
                    break
                cut = self._most
            batches.append(self._text[:cut])
            self._text = self._text[cut:]
        return batches

    def flush(self) -> str:
        """Return what is left."""
        text, self._text = self._text, ""
        return text


class FieldStream:
    """The stream of one model call: text deltas in, guarded batches out.

    Args:
        released: called with every batch that is released.
        withheld: called once when the rest is withheld.
    """

    def __init__(
        self, policy: StreamPolicy, released: Callable[[str], None], withheld: Callable[[], None]
    ) -> None:
        self._guards = policy.guards
        self._field = policy.field
        self._decoder = FieldDecoder(policy.field)
        self._result_call: str | None = None
        self._batcher = Batcher(*policy.batch)
        self._released = released
        self._withheld = withheld
        self._out = ""
        self._closed = False
        self._batches: asyncio.Queue[str | None] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None

    def on_event(self, event: Any) -> None:
        """Take one event of the model's stream."""
        if isinstance(event, ToolCallStart) and event.name == RESULT_TOOL and self._result_call is None:
            # a schema that the provider does not enforce: the answer is what this one call is given
            self._result_call, self._decoder = event.id, FieldDecoder(self._field)
        text = self._text_of(event)
        if self._closed or not text:
            return
        for batch in self._batcher.feed(self._decoder.feed(text)):
            self._pass(batch)

    def _text_of(self, event: Any) -> str:
        """Return the piece of the answer's JSON that an event carries; arguments of tools are none."""
        if isinstance(event, TextDelta) and self._result_call is None:
            return event.text
        if isinstance(event, ToolCallDelta) and event.id == self._result_call:
            return event.args_text_delta
        return ""

    async def finish(self, *, complete: bool) -> None:
        """End the stream; what is left is released when the answer is complete."""
        if complete and not self._closed and (rest := self._batcher.flush()):
            self._pass(rest)
        if self._worker is not None:
            self._batches.put_nowait(None)
            await self._worker

    def _pass(self, batch: str) -> None:
        if not self._guards:
            self._release(batch)
            return
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())
        self._batches.put_nowait(batch)

    async def _work(self) -> None:
        while (batch := await self._batches.get()) is not None:
            if not self._closed:
                checked = await self._guarded(batch)
                if checked is None:
                    self._closed = True
                    self._withheld()
                else:
                    self._release(checked)

    async def _guarded(self, batch: str) -> str | None:
        """Return what the guards release; a guard that breaks withholds."""
        for guard in self._guards:
            try:
                verdict: Any = guard(self._out, batch)
                if inspect.isawaitable(verdict):
                    verdict = await verdict
            except Exception:
                return None
            if isinstance(verdict, Rewrite) and isinstance(verdict.value, str):
                batch = verdict.value
            elif verdict is not True and verdict is not None:
                return None
        return batch

    def _release(self, batch: str) -> None:
        self._out = (self._out + batch)[-CONTEXT:]
        if batch:
            self._released(batch)
