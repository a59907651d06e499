"""Static calls compared with the cassettes that their tests name. Nothing of the project is run or imported."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rulvar_lsp.edge.surroundings import Stamp, Surroundings, TestFiles, stamp_of
from rulvar_lsp.features.forecast import Forecast
from rulvar_lsp.features.static_request import (
    ModuleStrings,
    StaticRequest,
    call_source,
    static_request,
)
from rulvar_lsp.snapshot import Document
from rulvar_lsp.text import Span, Text

if TYPE_CHECKING:
    from rulvar.testing.cassette import Cassette
    from rulvar_lsp.features.sites import StaticCall

_MOST_ANSWERS = 1_000
_NOWHERE = Span(0, 0, 0, 0)
_MOST_BYTES = 32 * 1024 * 1024


class Forecaster:
    """Forecasts of a project's calls. Belongs to the worker thread."""

    def __init__(self) -> None:
        self._tests = TestFiles()
        self._tapes: dict[str, tuple[Stamp, Cassette | None]] = {}
        self._answers: dict[Hashable, tuple[Sequence[Cassette], Forecast | None]] = {}

    def forecast(
        self, document: Document, calls: Sequence[StaticCall], root: str, opened: Iterable[Document]
    ) -> tuple[Forecast, ...]:
        """Return what the static calls of a document will be served; `opened` are the unsaved texts."""
        wanted = self._static(document.text, calls)
        if not wanted or document.path is None:
            return ()
        buffers = {d.path: d.text.source for d in opened if d.path is not None}
        around = self._tests.around(document.path, root, buffers)
        tapes = [tape for path in around.cassettes if (tape := self._tape(path)) is not None]
        if not tapes:
            return ()
        found = [self._served(call, request, around, tapes) for call, request in wanted]
        return tuple(forecast for forecast in found if forecast is not None)

    def _served(
        self, call: StaticCall, request: StaticRequest, around: Surroundings, tapes: Sequence[Cassette]
    ) -> Forecast | None:
        """The forecast of one call; None where it depends on something that is not in the text."""
        # a test that does not name the workflow may never come here: then a miss is none
        may_miss = around.mention(call.function)
        models = frozenset({request.model}) if request.model is not None else around.models
        key = (request, models, may_miss, tuple(id(tape) for tape in tapes))
        if key not in self._answers:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            # the tapes are kept along: an id stands for its tape as long as that lives
            self._answers[key] = (tapes, served(request, models, may_miss, tapes))
        found = self._answers[key][1]
        return replace(found, span=call.span) if found is not None else None

    def changed(self, certain: bool = False) -> bool:
        """Forget the cassettes that were written, deleted or made since; says whether there was one, or `certain`."""
        gone = [path for path, (stamp, _) in self._tapes.items() if stamp_of(path) != stamp]
        for path in gone:
            del self._tapes[path]
        if gone or certain or self._tests.cassettes_came_or_went():
            self._tests.look_again()
            return True
        return False

    @staticmethod
    def _static(text: Text, calls: Sequence[StaticCall]) -> list[tuple[StaticCall, StaticRequest]]:
        agents = [call for call in calls if call.kind == "agent"]
        if not agents:
            return []
        strings = ModuleStrings(text)
        pairs = [(call, static_request(call_source(text, call.span), strings)) for call in agents]
        return [(call, request) for call, request in pairs if request is not None]

    def _tape(self, path: str) -> Cassette | None:
        """A cassette, None for one that cannot be used (it has diagnostics of its own)."""
        stamp = stamp_of(path)
        known = self._tapes.get(path)
        if known is None or known[0] != stamp:
            known = self._tapes[path] = (stamp, _read_tape(path) if stamp[1] <= _MOST_BYTES else None)
        return known[1]


def _read_tape(path: str) -> Cassette | None:
    from rulvar.errors import RulvarError
    from rulvar.testing.cassette import read_cassette

    try:
        return read_cassette(path)
    except RulvarError:
        return None


# -- requests ---------------------------------------------------------------------------------------
def served(
    request: StaticRequest, models: frozenset[str], may_miss: bool, tapes: Sequence[Cassette]
) -> Forecast | None:
    """The forecast of a request, wherever it stands."""
    from rulvar.contracts.request_hash import request_hash

    asked = [(model, wire) for model in sorted(models) for wire in _wires(request, model)]
    for model, wire in asked:
        digest = request_hash(wire)
        for tape in tapes:
            if rows := tape.group(model.partition(":")[0], digest):
                return Forecast(_NOWHERE, "hit", digest, model, tape.path, tape.lines[rows[0]])
    if len(models) != 1 or not asked or not may_miss:
        return None
    return _missed(*asked[0], tapes)


def _wires(request: StaticRequest, model: str) -> list[dict[str, Any]]:
    """The requests that may go out: a model that knows no efforts is sent none."""
    wire: dict[str, Any] = {
        "model": model.partition(":")[2],
        "messages": [{"role": "user", "parts": [{"type": "text", "text": request.prompt}]}],
    }
    if request.schema is not None:
        schema = _native_schema(request.schema)
        if schema is None:
            return []
        wire["schema"] = schema
    return [wire] if request.effort is None else [{**wire, "effort": request.effort}, wire]


def _native_schema(literal: str) -> Any:
    """The schema as a model with native structured output is sent it; None where another way would be taken."""
    from rulvar.contracts.schema import schema_contract
    from rulvar.runtime.structured import select_tier

    try:
        canonical = schema_contract(ast.literal_eval(literal)).canonical
    except Exception:  # whatever is wrong with a schema, the engine says so when it runs
        return None
    return canonical if select_tier("native", canonical) == "native" else None


def _missed(model: str, wire: dict[str, Any], tapes: Sequence[Cassette]) -> Forecast | None:
    from rulvar.testing.diagnose import diagnose_miss
    from rulvar_lsp.report import Difference

    told = [diagnose_miss(tape, wire, model.partition(":")[0]) for tape in tapes]
    best = min(told, key=lambda one: float("inf") if one.distance is None else one.distance)
    if best.nearest is None:
        return Forecast(_NOWHERE, "miss", best.request_hash, model)
    if not any(_is_written(found.path) for found in best.differences):
        return None  # a budget, a profile or a capability may make up for what differs
    return Forecast(
        _NOWHERE,
        "miss",
        best.request_hash,
        model,
        best.nearest.cassette,
        best.nearest.row,
        tuple(Difference(found.path, found.recorded, found.actual) for found in best.differences),
    )


def _is_written(path: str) -> bool:
    """Say whether a field of a request stands in the text of its call."""
    return path == "model" or path.endswith(".text")
