"""One exchange with a model: send a request, read the stream to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import msgspec

from rulvar.contracts.canonical import MAX_DEPTH
from rulvar.contracts.exception_text import exception_text
from rulvar.contracts.jsonable import is_deeper_than
from rulvar.contracts.messages import ChatRequest, Part, ProviderRawPart, TextPart, ToolCallPart
from rulvar.contracts.ports.provider import Adapter, Served, provider_family, served_by
from rulvar.contracts.stream import (
    ChatEvent,
    Finish,
    StreamError,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
    WireError,
)
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import BudgetExhaustedError, RulvarError
from rulvar.runtime.timers import Later, Timers
from rulvar.runtime.told_usage import impossible_usage, repaired_update, repaired_usage

__all__ = ["Turn", "take_turn"]

_DEEPEST = MAX_DEPTH - 16
"""How deep a value of an answer may be nested: it stands some levels below the top of what is kept."""


class Turn(msgspec.Struct):
    """What one exchange came to; filled while the stream is read, so an abort leaves what was seen."""

    served: Served
    text: str = ""
    tool_calls: list[ToolCallPart] = []
    raw: list[ProviderRawPart] = []
    usage: Usage = ZERO_USAGE
    usage_is_exact: bool = False
    broken_counts: list[str] = []
    finish: Finish | None = None
    error: WireError | None = None
    failure: BaseException | None = None
    metadata: Mapping[str, Any] | None = None
    response_id: str | None = None
    went_quiet: bool = False

    @property
    def parts(self) -> tuple[Part, ...]:
        """The assistant message's parts: raw blocks, text, tool calls."""
        parts: list[Part] = list(self.raw)
        if self.text:
            parts.append(TextPart(text=self.text))
        parts.extend(self.tool_calls)
        return tuple(parts)


async def take_turn(
    adapter: Adapter,
    request: ChatRequest,
    signal: asyncio.Event,
    turn: Turn,
    *,
    on_event: Callable[[ChatEvent], None] | None = None,
    affords: Callable[[Usage], bool] | None = None,
    idle_s: float | None = None,
    later: Later | None = None,
) -> None:
    """Read one exchange into ``turn``; errors of the provider become ``turn.error``.

    Args:
        signal: set to abort the exchange.
        on_event: called with every event, or None.
        affords: asked with the usage so far when the provider tells it; False ends the exchange.
        idle_s: seconds without an event after which the exchange is cut; None is no bound.
        later: calls back after some seconds, and returns what forgets it; the event loop's own timers unless told.

    Raises:
        BudgetExhaustedError: ``affords`` said no.
        asyncio.CancelledError: the call was cancelled while the stream was read.
    """
    names: dict[str, str] = {}
    text: list[str] = []
    stream: Any = None
    watch = _IdleWatch(idle_s, later)
    try:
        stream = adapter.stream(request, signal)
        with watch:
            async for event in stream:
                watch.seen_event()
                if on_event is not None:
                    on_event(event)
                _read_event(event, turn, text, names)
                if turn.finish is not None or turn.error is not None:
                    break  # nothing that comes after the terminal event changes what the exchange came to
                if type(event) is UsageUpdate and affords is not None and not affords(turn.usage):
                    raise _Unaffordable
        await _close(stream)
        if turn.finish is None and turn.error is None and not signal.is_set():
            turn.error = _broken_off("the stream ended without a terminal event")
        _keep_metadata(turn, adapter)
        _drop_bottomless(turn)
    except _Unaffordable:
        await _close(stream)
        raise BudgetExhaustedError("the budget was used up while the model answered") from None
    except TimeoutError as error:
        if watch.is_cut:
            await _close(stream)
            turn.went_quiet = True
            turn.error = _broken_off(f"the model sent nothing for {idle_s} seconds")
        else:
            turn.error = _broken_off(exception_text(error))
    except RulvarError as error:
        turn.failure = error
        turn.error = WireError(
            code=error.code, message=error.message, retryable=error.retryable, data=error.data or None
        )
    except Exception as error:
        turn.error = _broken_off(exception_text(error))
    finally:
        if stream is not None:
            turn.served = served_by(stream)
        turn.text = "".join(text)


class _Unaffordable(Exception):
    """What the exchange has cost so far is more than the budget has left."""


class _IdleWatch:
    """Cuts the block when no event was seen for a while; costs one timeout per exchange."""

    __slots__ = ("_bound_s", "_cancelling", "_clock", "_forget", "_later", "_seen_at", "_task", "is_cut")

    def __init__(self, bound_s: float | None, later: Later | None) -> None:
        self._bound_s = bound_s
        self._later = later or Timers().later
        self._clock = asyncio.get_running_loop().time
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._forget: Callable[[], object] | None = None
        self._seen_at = 0.0
        self.is_cut = False

    def __enter__(self) -> None:
        if self._bound_s is not None:
            self._seen_at = self._clock()
            self._task = asyncio.current_task()
            assert self._task is not None
            self._cancelling = self._task.cancelling()
            self._forget = self._later(self._bound_s, self._check)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._forget is None:
            return
        self._forget()
        if not self.is_cut:
            return
        assert self._task is not None
        ours = self._task.uncancel() <= self._cancelling
        if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error

    def seen_event(self) -> None:
        self._seen_at = self._clock()

    def _check(self) -> None:
        assert self._bound_s is not None
        quiet = self._clock() - self._seen_at
        if quiet < self._bound_s:
            self._forget = self._later(self._bound_s - quiet, self._check)
        else:
            self.is_cut = True
            assert self._task is not None
            self._task.cancel()


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        with contextlib.suppress(Exception):
            await close()


def _broken_off(what: str) -> WireError:
    """Return the error of an exchange that did not come to its end; it may be tried again."""
    return WireError(code="agent", message=what, retryable=True, data={"kind": "transport"})


def _drop_bottomless(turn: Turn) -> None:
    """Turn away what no journal could keep: arguments and blocks that are nested too deeply."""
    if not turn.tool_calls and not turn.raw:
        return
    kept = [call for call in turn.tool_calls if not is_deeper_than(call.args, _DEEPEST)]
    blocks = [part for part in turn.raw if not is_deeper_than(part.block, _DEEPEST)]
    if len(kept) < len(turn.tool_calls):
        names = sorted({call.name for call in turn.tool_calls} - {call.name for call in kept})
        what = f"the arguments of {', '.join(names)}" if names else "a tool call's arguments"
    elif len(blocks) < len(turn.raw):
        what = "a provider's block"
    else:
        return
    turn.tool_calls, turn.raw = kept, blocks
    turn.error = turn.error or WireError(
        code="agent",
        message=f"the model answered with {what} nested deeper than {_DEEPEST} levels",
        retryable=False,
        data={"kind": "terminal"},
    )


def _read_event(event: ChatEvent, turn: Turn, text: list[str], names: dict[str, str]) -> None:
    if isinstance(event, TextDelta):
        text.append(event.text)
    elif isinstance(event, Finish):
        turn.finish = event
        turn.usage, broken = repaired_usage(event.usage)
        if broken := turn.broken_counts + broken:
            turn.error = impossible_usage(broken)
        turn.usage_is_exact = True
        turn.metadata = event.provider_metadata
    elif isinstance(event, ToolCallStart):
        names[event.id] = event.name
    elif isinstance(event, ToolCallEnd):
        turn.tool_calls.append(ToolCallPart(id=event.id, name=names.get(event.id, ""), args=event.args))
    elif isinstance(event, StreamError):
        turn.error = event.error
        turn.metadata = event.provider_metadata
    elif isinstance(event, UsageUpdate):
        seen, broken = repaired_update(event.usage)
        turn.broken_counts += broken
        turn.usage = _update(turn.usage, seen)


def _keep_metadata(turn: Turn, adapter: Adapter) -> None:
    """Keep what the adapter tells beside the answer: its id, and blocks that must survive the round trip."""
    told = turn.metadata
    if not told:
        return
    family = provider_family(adapter)
    meta = told.get(adapter.id, told.get(family))
    if not isinstance(meta, dict):
        return
    named = meta.get("responseId")
    if named is None and isinstance(nested := meta.get("response"), dict):
        named = nested.get("id")
    turn.response_id = named if isinstance(named, str) else None
    blocks = meta.get("retainedParts") if turn.finish is not None else None
    for block in blocks if isinstance(blocks, list) else ():
        turn.raw.append(ProviderRawPart(provider=family, block=block))


def _update(usage: Usage, seen: Any) -> Usage:
    return Usage(
        input_tokens=usage.input_tokens if seen.input_tokens is None else seen.input_tokens,
        output_tokens=usage.output_tokens if seen.output_tokens is None else seen.output_tokens,
        cache_read_tokens=usage.cache_read_tokens
        if seen.cache_read_tokens is None
        else seen.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens
        if seen.cache_write_tokens is None
        else seen.cache_write_tokens,
    )
