"""Static calls compared with the cassettes that their tests name. Nothing of the project is run or imported.

The tests of a module are the test files that import it; the cassettes they name stand in their text and in the
conftest files above them, or are those of the `cassette` fixture.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rulvar_lsp.edge.sources import read_source
from rulvar_lsp.edge.uris import path_to_uri
from rulvar_lsp.features.cassette import cassette_links
from rulvar_lsp.features.forecast import Forecast
from rulvar_lsp.features.outline import is_test_file
from rulvar_lsp.features.static_request import (
    ModuleStrings,
    StaticRequest,
    call_source,
    imports_module,
    routed_models,
    static_request,
)
from rulvar_lsp.snapshot import Document
from rulvar_lsp.text import Span, Text

if TYPE_CHECKING:
    from rulvar.testing.cassette import Cassette
    from rulvar_lsp.features.sites import StaticCall

_LOOK_SECONDS = 2.0
_MOST_FILES = 20_000
_MOST_ANSWERS = 1_000
_NOWHERE = Span(0, 0, 0, 0)
_MOST_BYTES = 32 * 1024 * 1024
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist"})
CONFTEST = "conftest.py"
_MARKED = re.compile(r"""\brulvar_cassette\(\s*(?:name\s*=\s*)?["']([^"'\r\n]+)["']""")

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the tests of a module say: the cassettes that they name, and the models that they route calls to."""

    cassettes: tuple[str, ...] = ()
    models: frozenset[str] = frozenset()
    tests: str = ""  # the text of the test files

    def mention(self, name: str) -> bool:
        """Say whether a test file has a word."""
        return bool(name) and re.search(rf"\b{re.escape(name)}\b", self.tests) is not None


class Forecaster:
    """Forecasts of a project's calls. Belongs to the worker thread."""

    def __init__(self) -> None:
        self._tests: dict[
            str, tuple[float, tuple[str, ...]]
        ] = {}  # root -> when to look again, test files, conftests
        self._texts: dict[str, tuple[Stamp, str]] = {}
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
        around = self._surroundings(document.path, root, lambda path: buffers.get(path) or self._text(path))
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

    def changed(self) -> bool:
        """Forget the cassettes that were written, made or deleted since; says whether there was one."""
        gone = [path for path, (stamp, _) in self._tapes.items() if _stamp(path) != stamp]
        for path in gone:
            del self._tapes[path]
        return bool(gone)

    @staticmethod
    def _static(text: Text, calls: Sequence[StaticCall]) -> list[tuple[StaticCall, StaticRequest]]:
        agents = [call for call in calls if call.kind == "agent"]
        if not agents:
            return []
        strings = ModuleStrings(text)
        pairs = [(call, static_request(call_source(text, call.span), strings)) for call in agents]
        return [(call, request) for call, request in pairs if request is not None]

    # -- files ----------------------------------------------------------------------------------
    def _surroundings(self, path: str, root: str, read: Callable[[str], str]) -> Surroundings:
        stem = os.path.splitext(os.path.basename(path))[0]
        if stem == "__init__":
            stem = os.path.basename(os.path.dirname(path))
        files = self._test_files(root)
        tests = [f for f in files if f == path or (is_test_file(f) and imports_module(read(f), stem))]
        if is_test_file(path) and path not in tests:
            tests.append(path)
        folders = {os.path.dirname(test) for test in tests}
        above = [
            f for f in files if os.path.basename(f) == CONFTEST and _is_above(os.path.dirname(f), folders)
        ]
        cassettes: dict[str, None] = {}
        models: set[str] = set()
        for source in (*tests, *above):
            text = Text(read(source))
            models |= routed_models(text.source)
            place = Document(path_to_uri(source), source, None, text)
            cassettes |= {link.path: None for link in cassette_links(place, [root], {}, os.path.isfile)}
            if is_test_file(source):
                cassettes |= dict.fromkeys(_of_fixture(source, text.source))
        return Surroundings(tuple(cassettes), frozenset(models), "\n".join(read(test) for test in tests))

    def _test_files(self, root: str) -> tuple[str, ...]:
        again, files = self._tests.get(root, (0.0, ()))
        began = time.monotonic()
        if began >= again:
            files = tuple(_walk(root))
            now = time.monotonic()
            # a project that takes long to look through is looked through less often
            self._tests[root] = (now + max(_LOOK_SECONDS, 50 * (now - began)), files)
        return files

    def _text(self, path: str) -> str:
        stamp = _stamp(path)
        known = self._texts.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        text = read_source(path, _MOST_BYTES) or ""
        self._texts[path] = (stamp, text)
        return text

    def _tape(self, path: str) -> Cassette | None:
        """A cassette, None for one that cannot be used (it has diagnostics of its own)."""
        stamp = _stamp(path)
        known = self._tapes.get(path)
        if known is None or known[0] != stamp:
            known = self._tapes[path] = (stamp, _read_tape(path) if stamp[1] <= _MOST_BYTES else None)
        return known[1]


def _walk(root: str) -> Iterable[str]:
    """The test files and conftests below a root; environments, caches and hidden folders are left out."""
    seen = 0
    waiting = [root]
    while waiting and seen < _MOST_FILES:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        seen += len(entries)
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                    waiting.append(entry.path)
            elif entry.name == CONFTEST or is_test_file(entry.name):
                yield entry.path


def _is_above(folder: str, folders: Iterable[str]) -> bool:
    return any(one == folder or one.startswith(folder.rstrip("/") + "/") for one in folders)


def _of_fixture(test_file: str, source: str) -> list[str]:
    """The cassettes of the `cassette` fixture: those that markers name, and those of the file's own folder."""
    folder = os.path.join(os.path.dirname(test_file), "cassettes")
    named = [
        os.path.join(folder, re.sub(r"(?:\.jsonl)?$", ".jsonl", name)) for name in _MARKED.findall(source)
    ]
    own = os.path.join(folder, os.path.splitext(os.path.basename(test_file))[0])
    with contextlib.suppress(OSError):
        named += sorted(os.path.join(own, name) for name in os.listdir(own) if name.endswith(".jsonl"))
    return [path for path in named if os.path.isfile(path)]


def _stamp(path: str) -> Stamp:
    try:
        stat = os.stat(path)
    except OSError:
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)


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
