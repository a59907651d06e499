"""Serves recorded exchanges: the adapters of a cassette, without a provider.

Rows of one (adapter, request hash) are an ordered list; every ``stream`` call takes the next one, in
the call itself, so that concurrent identical calls each get their own exchange.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import Adapter, Served
from rulvar.contracts.request_hash import former_request_hash, request_hash
from rulvar.contracts.stream import ChatEvent
from rulvar.errors import ConfigError, VcrMissError
from rulvar.testing.cassette import Cassette, read_cassette
from rulvar.testing.cassette_lines import Declaration
from rulvar.testing.cassette_rules import check_live_declarations, check_replayable, ordered_group
from rulvar.testing.wrapped import check_adapters, start_stream

if TYPE_CHECKING:
    from rulvar.testing.diagnose import MissDiagnosis

__all__ = ["ReplayAdapter", "ReplayAdapters", "replay"]

OnMiss = Literal["throw", "passthrough"]


def replay(
    *misplaced: object,
    cassette: str | os.PathLike[str] = "",
    on_miss: OnMiss = "throw",
    adapters: Iterable[Adapter] = (),
) -> ReplayAdapters:
    """Build adapters that serve a cassette.

    Args:
        cassette: the recorded file.
        on_miss: ``"throw"`` raises :class:`~rulvar.errors.VcrMissError` at the first pull of a stream
            that no row serves; ``"passthrough"`` hands the call to the live adapter of the same id.
        adapters: live adapters; used by ``"passthrough"``, and for the capabilities of models that
            the cassette does not know.

    Returns:
        One adapter per adapter in the cassette, then the live ones that have no rows, as a list. The
        list holds the cursors: one ``replay`` serves every row once.

    Raises:
        ConfigError: the cassette cannot be trusted, or a live adapter declares another provider or
            usage semantics than its rows (``"passthrough"``).
        TypeError: a positional argument: tool fixtures are read by ``load_fixture``.
    """
    if misplaced:
        raise TypeError(
            "replay() takes a cassette of model calls, by name: replay(cassette=...); a fixture of tool responses is "
            "read by load_fixture(path) and passed as run_workflow(..., replay=...)"
        )
    if on_miss not in ("throw", "passthrough"):
        raise ConfigError(f'on_miss: expected "throw" or "passthrough", got {on_miss!r}')
    live = list(check_adapters(adapters, "replay"))
    recorded = read_cassette(cassette)
    check_replayable(recorded, {adapter.id: adapter for adapter in live} if on_miss == "passthrough" else {})
    return serve(Tape(recorded), on_miss, live)


def serve(tape: Tape, on_miss: OnMiss, adapters: Iterable[Adapter] = ()) -> ReplayAdapters:
    """Build adapters that serve a checked tape from where it stands; see :func:`replay`."""
    live = {adapter.id: adapter for adapter in check_adapters(adapters, "replay")}
    recorded = tape.cassette
    if on_miss == "passthrough":
        check_live_declarations(recorded, live)
    ids = [*recorded.groups, *(adapter_id for adapter_id in live if adapter_id not in recorded.groups)]
    return ReplayAdapters(
        tape, [ReplayAdapter(tape, adapter_id, on_miss, live.get(adapter_id)) for adapter_id in ids]
    )


class ReplayAdapters(list["ReplayAdapter"]):
    """The adapters of one cassette; they share its cursors."""

    def __init__(self, tape: Tape, adapters: Iterable[ReplayAdapter]) -> None:
        super().__init__(adapters)
        self._tape = tape

    @property
    def cassette(self) -> Cassette:
        """The cassette that is served."""
        return self._tape.cassette

    @property
    def tape(self) -> Tape:
        """The cassette and how far it has been served."""
        return self._tape

    @property
    def served_lines(self) -> tuple[int, ...]:
        """The lines of the rows that were served so far, in file order."""
        return self._tape.lines(served=True)

    @property
    def unused_lines(self) -> tuple[int, ...]:
        """The lines of the rows that were not served yet, in file order."""
        return self._tape.lines(served=False)


class Claim:
    """What one call got: a row and its place among its group, or nothing."""

    __slots__ = ("occurrence", "occurrences", "row")

    def __init__(self, row: int | None, occurrence: int, occurrences: int) -> None:
        self.row = row
        self.occurrence = occurrence
        self.occurrences = occurrences


class Tape:
    """A cassette and how far it has been served. Safe across threads.

    Attributes:
        cassette: the recorded file.
        declared: adapter to model to what was declared of both.
    """

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette
        self._lock = threading.Lock()
        self._used: dict[tuple[str, str], int] = {}
        self._ordered: dict[tuple[str, str], list[int]] = {}
        self._served = bytearray(len(cassette.rows))
        self.declared: dict[str, dict[str, Declaration]] = {}
        for declaration in cassette.declarations:
            self.declared.setdefault(declaration.adapter_id, {})[declaration.model] = declaration

    def claim(self, adapter_id: str, digest: str) -> Claim:
        """Take the next row of a request."""
        group = self.cassette.groups.get(adapter_id)
        rows = group.get(digest) if group is not None else None
        if rows is None:
            return Claim(None, 0, 0)
        key = (adapter_id, digest)
        with self._lock:
            used = self._used.get(key, 0)
            self._used[key] = used + 1
            if isinstance(rows, int):
                row, count = (rows if used == 0 else None), 1
            else:
                ordered = self._ordered.get(key)
                if ordered is None:
                    ordered = self._ordered[key] = ordered_group(self.cassette, rows)
                count = len(ordered)
                row = ordered[used] if used < count else None
            if row is not None:
                self._served[row] = 1
        return Claim(row, used, count)

    def lines(self, *, served: bool) -> tuple[int, ...]:
        """Return the lines of the rows that were, or were not, served."""
        lines = self.cassette.lines
        return tuple(lines[row] for row, done in enumerate(self._served) if bool(done) is served)


class ReplayAdapter:
    """One recorded adapter: its rows, and what it declared when they were recorded.

    Attributes:
        id, provider, usage_semantics: as recorded.
        on_miss: what happens to a call that no row serves.
        tape: the cassette and how far it has been served; shared by the adapters of one ``replay``.
    """

    def __init__(self, tape: Tape, adapter_id: str, on_miss: OnMiss, live: Adapter | None) -> None:
        self.id = adapter_id
        self.on_miss: OnMiss = on_miss
        self.tape = tape
        self._live = live
        self._caps = tape.declared.get(adapter_id, {})
        declared = next(iter(self._caps.values()), None)
        source: Any = declared if declared is not None else live
        self.provider: str | None = getattr(source, "provider", None)
        self.usage_semantics: str | None = getattr(source, "usage_semantics", None)

    @property
    def cassette(self) -> Cassette:
        """The cassette that this adapter serves."""
        return self.tape.cassette

    @property
    def is_hermetic(self) -> bool:
        """Whether no call of this adapter can reach a provider."""
        return self.on_miss == "throw"

    def caps(self, model: str) -> ModelCaps:
        """Return the recorded capabilities of a model, or the live adapter's.

        Raises:
            ConfigError: the model is not in the cassette, and there is no live adapter to ask.
        """
        recorded = self._caps.get(model)
        if recorded is not None:
            return recorded.caps
        if self._live is not None:
            return self._live.caps(model)
        known = ", ".join(self._caps) or "none"
        raise ConfigError(
            f'{self.cassette.path}: adapter "{self.id}": no recorded caps of model "{model}"; '
            f"recorded models are {known}",
            data={"cassette": self.cassette.path, "adapterId": self.id, "model": model},
        )

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one recorded exchange; its row is taken here. The stream carries ``served``."""
        digest = request_hash(request)
        claim = self.tape.claim(self.id, digest)
        if claim.row is None and not claim.occurrences:
            former = former_request_hash(request)
            if former is not None:
                claim = self.tape.claim(self.id, former)
                digest = former if claim.occurrences else digest
        if claim.row is not None:
            return ReplayStream(self.tape.cassette, digest, claim, signal)
        if self.on_miss == "passthrough" and self._live is not None:
            return PassthroughStream(start_stream(self._live, request, signal), digest)
        return MissStream(self.tape.cassette, self.id, digest, claim, request, signal)

    def __repr__(self) -> str:
        return f"<ReplayAdapter {self.id} of {self.cassette.path}, on_miss={self.on_miss}>"


class ReplayStream:
    """The recorded events of one row."""

    __slots__ = ("_cassette", "_claim", "_digest", "_events", "_position", "_signal")

    def __init__(self, cassette: Cassette, digest: str, claim: Claim, signal: asyncio.Event | None) -> None:
        self._cassette = cassette
        self._digest = digest
        self._claim = claim
        self._signal = signal
        self._events: tuple[ChatEvent, ...] | None = None
        self._position = 0

    @property
    def served(self) -> Served:
        """The row that serves this call, and its place among the recorded occurrences."""
        row = self._claim.row
        return Served(
            how="hit",
            request_hash=self._digest,
            cassette=self._cassette.place,
            row=None if row is None else self._cassette.lines[row],
            occurrence=self._claim.occurrence,
            occurrences=self._claim.occurrences,
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        if self._signal is not None and self._signal.is_set():
            raise StopAsyncIteration
        events = self._events
        if events is None:
            row = self._claim.row
            events = self._events = () if row is None else self._cassette.events(row)
        position = self._position
        if position == len(events):
            raise StopAsyncIteration
        self._position = position + 1
        return events[position]

    async def aclose(self) -> None:
        """End the stream."""
        self._events, self._position = (), 0


class PassthroughStream:
    """A live stream behind a cassette that does not hold its request."""

    __slots__ = ("_digest", "_inner")

    def __init__(self, inner: AsyncIterator[ChatEvent], digest: str) -> None:
        self._inner = inner
        self._digest = digest

    @property
    def served(self) -> Served:
        """Passed through; with cassette and line when it was recorded on the way."""
        inner = getattr(self._inner, "served", None)
        if not isinstance(inner, Served):
            return Served(how="passthrough", request_hash=self._digest)
        return replace(inner, how="passthrough", request_hash=self._digest)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        return await anext(self._inner)

    async def aclose(self) -> None:
        """Close the live stream."""
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()


class MissStream:
    """A call that no row serves; the first pull raises. ``served`` says why, and what came nearest."""

    def __init__(
        self,
        cassette: Cassette,
        adapter_id: str,
        digest: str,
        claim: Claim,
        request: ChatRequest | Mapping[str, Any],
        signal: asyncio.Event | None,
    ) -> None:
        self._cassette = cassette
        self._adapter_id = adapter_id
        self._digest = digest
        self._recorded = claim.occurrences
        self._request = request
        self._signal = signal
        self._over = False

    @cached_property
    def diagnosis(self) -> MissDiagnosis:
        """Why no row served the request."""
        from rulvar.testing.diagnose import diagnose_miss

        return diagnose_miss(self._cassette, self._request, self._adapter_id)

    @cached_property
    def served(self) -> Served:
        """Missed or used up; with the nearest row and a line for a person."""
        return Served(
            how="exhausted" if self._recorded else "miss",
            request_hash=self._digest,
            cassette=self._cassette.place,
            occurrences=self._recorded,
            nearest=None if self._recorded else self.diagnosis.nearest,
            message=self.diagnosis.message,
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        if self._over or (self._signal is not None and self._signal.is_set()):
            raise StopAsyncIteration
        self._over = True
        raise VcrMissError(
            self.diagnosis.explanation,
            adapter_id=self._adapter_id,
            request_hash=self._digest,
            recorded_occurrences=self._recorded,
            data={"cassette": self._cassette.path, **self.diagnosis.to_wire()},
        )

    async def aclose(self) -> None:
        """End the stream."""
        self._over = True
