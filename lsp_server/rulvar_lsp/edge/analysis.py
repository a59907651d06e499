"""Documents looked at in the background: the lint, and the recorded calls put into the text.

One worker thread owns the lint's projects. Requests for the same text share one job; a newer text
is looked at next and the ones between are skipped, since nobody asks for them any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar_lsp.edge.cassettes import CassetteChecker
from rulvar_lsp.edge.collection import Collector
from rulvar_lsp.edge.forecasts import Forecaster
from rulvar_lsp.edge.sources import read_source
from rulvar_lsp.edge.uris import path_to_uri, uri_key
from rulvar_lsp.features.diagnostics import Finding, lint_findings
from rulvar_lsp.features.forecast import Forecast, open_forecasts
from rulvar_lsp.features.outline import (
    blocks,
    find_tests,
    is_test_file,
    named_functions,
)
from rulvar_lsp.features.sites import static_calls
from rulvar_lsp.features.views import Analysis, FileLook, View, look_back, too_large
from rulvar_lsp.snapshot import Document, Recorded
from rulvar_lsp.text import Text

if TYPE_CHECKING:
    from rulvar_lint import Project, RuleInfo
    from rulvar_lsp.edge.session import Session

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 5_000_000
MOST_IDLE_PROJECTS = (
    4  # remembered though nothing of them is open: a file is often closed to open its neighbour
)
# the root of files without a project: a folder that does not exist
_NOWHERE = f"/rulvar-lsp-no-project-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the lint finds a document: a project's root and the path in it."""

    root: str
    path: str

    def absolute(self, path: str) -> str | None:
        """A path that the lint gave, as an absolute one; None for the document itself."""
        found = os.path.normpath(os.path.join(self.root, path))
        return None if found == self.path else found


@dataclass(slots=True)
class _Job:
    document: Document
    revision: int
    task: asyncio.Future[Analysis]


@dataclass(slots=True)
class _Viewed:
    analysis: Analysis
    recorded: Recorded
    task: asyncio.Future[View]


@dataclass(slots=True)
class _Forecasted:
    view: View
    tapes: int
    task: asyncio.Future[tuple[Forecast, ...]]


class Analyst:
    """Looks at documents of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rulvar-lsp analysis")
        self._projects: dict[str, Project | None] = {}  # of the worker thread
        self._overlays: dict[
            str, tuple[str, Document]
        ] = {}  # of the worker thread: path -> root, text the lint has
        self._cassettes: dict[str, CassetteChecker] = {}  # of the worker thread
        # of the worker thread: names of the workflows in the last text of a file that parsed
        self._workflows: dict[str, frozenset[str]] = {}
        self._jobs: dict[str, _Job] = {}
        self._views: dict[str, _Viewed] = {}
        self._collector = Collector(self._submit)
        self._forecasts: dict[str, _Forecasted] = {}
        self._forecaster = Forecaster()  # of the worker thread
        self._tapes = 0  # grows when cassettes change
        self.revision = 0
        self.faults: dict[str, str] = {}  # project root -> what is wrong with its configuration

    # -- on the loop ----------------------------------------------------------------------------
    async def view(self, document: Document, *, fresh: bool = False) -> View:
        """Look at a document; `fresh` also takes the newest texts of the other files in.

        Raises `Superseded` for a text that is not the newest, or whose document was closed.
        """
        analysis = await self._analysis(document, fresh)
        self._check_newest(document)
        recorded = self._session.recorded
        key = uri_key(document.uri)
        known = self._views.get(key)
        if known is None or known.analysis is not analysis or known.recorded is not recorded:
            task = self._submit(look_back, analysis, recorded)
            known = self._views[key] = _Viewed(analysis, recorded, task)
        return await asyncio.shield(known.task)

    async def forecasts(self, view: View) -> tuple[Forecast, ...]:
        """What the calls of a document will be served of which no run of this text is known."""
        root = self._place(view.document).root
        if root == _NOWHERE or not view.analysis.calls or not self._is_newest(view.document):
            return ()
        key = uri_key(view.document.uri)
        known = self._forecasts.get(key)
        if known is None or known.view is not view or known.tapes != self._tapes:
            task = self._submit(self._forecast, view, root, self._session.documents)
            known = self._forecasts[key] = _Forecasted(view, self._tapes, task)
        return await asyncio.shield(known.task)

    async def _analysis(self, document: Document, fresh: bool) -> Analysis:
        key = uri_key(document.uri)
        while True:
            self._check_newest(
                document
            )  # else a late request for an old text would take the place of the new one's
            job = self._jobs.get(key)
            if job is None or job.document is not document or (fresh and job.revision != self.revision):
                if job is not None:
                    job.task.cancel()  # of no effect once the worker has begun with it
                job = self._jobs[key] = self._begin(document)
            try:
                return await asyncio.shield(job.task)
            except asyncio.CancelledError:
                own = asyncio.current_task()
                if (own is not None and own.cancelling()) or self._jobs.get(key) is job:
                    raise  # otherwise another job has taken the place of this one

    def _begin(self, document: Document) -> _Job:
        self._collector.wait()
        task = self._submit(self._look, document, self._place(document))
        task.add_done_callback(lambda _: self._collector.worked())
        return _Job(document, self.revision, task)

    def _is_newest(self, document: Document) -> bool:
        return self._session.document(document.uri) is document

    def _check_newest(self, document: Document) -> None:
        if not self._is_newest(document):
            raise Superseded

    def edited(self, document: Document) -> None:
        """A text has changed: what was found in other files may change with it."""
        self.revision += 1

    def closed(self, document: Document) -> None:
        """A document was closed: the file on disk counts again."""
        key = uri_key(document.uri)
        if (job := self._jobs.pop(key, None)) is not None:
            job.task.cancel()
        self._views.pop(key, None)
        self._forecasts.pop(key, None)
        self.revision += 1
        used = {*self._session.folders, *(self._place(d).root for d in self._session.documents)}
        self._submit(self._drop, key, self._place(document), used)

    async def held(self) -> dict[str, int]:
        """How much is remembered, once the worker has done what it was given."""
        return await asyncio.shield(self._submit(self._count))

    def folders_changed(self) -> None:
        """Workspace folders came or went: files may belong to another project now."""
        self._jobs.clear()
        self._views.clear()
        self.revision += 1

    def changed_on_disk(self, paths: list[str], *, configuration: bool = False) -> None:
        """Files were changed by others; `configuration` also makes new projects."""
        self.revision += 1
        self._submit(self._invalidate, paths, configuration)

    async def notice_cassettes(self, certain: bool = False) -> bool:
        """Take cassettes as they are now; says whether one has changed that forecasts rest on."""
        changed: bool = await asyncio.shield(self._submit(self._forecaster.changed, certain))
        self._tapes += changed
        return changed

    async def rule_info(self, code: str) -> RuleInfo | None:
        """What is known about a rule, None for a code that is none."""
        return await asyncio.shield(self._submit(_rule_info, code))

    async def fix_all(self, document: Document, unsafe: bool = False) -> str | None:
        """The text with every safe fix applied, None when that changes nothing."""
        place = self._place(document)
        return await asyncio.shield(self._submit(self._fix_all, document, place, unsafe))

    async def candidates(self, root: str) -> list[str]:
        """The files of a project that the lint would look at, as absolute paths."""
        return await asyncio.shield(self._submit(self._candidates, root))

    async def look_at_file(self, root: str, path: str, before: FileLook | None = None) -> FileLook | None:
        """Look at a file that is not open, None where it cannot be read; `before` itself where nothing has changed."""
        recorded = self._session.recorded
        return await asyncio.shield(self._submit(self._look_at_file, Place(root, path), recorded, before))

    def _submit(self, work: Any, *args: Any) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().run_in_executor(self._worker, work, *args)
        future.add_done_callback(_retrieve)
        return future

    def _place(self, document: Document) -> Place:
        session = self._session
        path = document.path
        if path is not None and session.is_in_project(path):
            return Place(session.root_of(path), path)
        # a buffer without a file, or a file that belongs to no project: looked at by itself, since the
        # folder around it may be anybody's home
        name = hashlib.sha256(uri_key(document.uri).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return Place(_NOWHERE, f"{_NOWHERE}/{name}/{os.path.basename(path or 'untitled.py')}")

    # -- in the worker --------------------------------------------------------------------------
    def _look(self, document: Document, place: Place) -> Analysis:
        if len(document.text.source) > MOST_CHARACTERS:
            return Analysis(document, (too_large(document, MOST_CHARACTERS),))
        if document.language != "python":
            return Analysis(document, self._cassette_findings(document))
        started = time.monotonic()
        path = place.path
        outline = blocks(document.text)
        found_tests = find_tests(outline) if is_test_file(path) else ()
        try:
            project = self._project(place.root)
            if project is None:
                return Analysis(document, tests=found_tests)
            self._overlay(project, place, document)
            found = project.check_file(path)
            parsed = not any(d.code == "RLV001" for d in found)
            calls = static_calls(outline, project.ctx_calls(path)) if parsed else None
            findings = lint_findings(document, found, place.absolute)
            if parsed:
                self._workflows[path] = frozenset(w.name for w in project.workflows(path))
            workflows = named_functions(outline, self._workflows.get(path, frozenset()))
            seconds = time.monotonic() - started
            return Analysis(document, findings, calls, found_tests, workflows, seconds)
        except Exception:
            logger.exception("the lint failed on %s", document.uri)
            return Analysis(document, tests=found_tests)

    def _overlay(self, project: Project, place: Place, document: Document) -> None:
        """Give the lint the text; the file may belong to another project than before."""
        root, known = self._overlays.get(place.path, (place.root, None))
        if known is document and root == place.root:
            return
        if root != place.root:
            self._take_back(place.path)
        project.set_text(place.path, document.text.source)
        self._overlays[place.path] = (place.root, document)

    def _take_back(self, path: str) -> None:
        """Let the lint read the file on disk again."""
        root, _ = self._overlays.pop(path, (None, None))
        project = self._projects.get(root) if root is not None else None
        if project is not None:
            project.set_text(path, None)

    def _candidates(self, root: str) -> list[str]:
        project = self._project(root)
        if project is None:
            return []
        return sorted(os.path.join(root, path) for path in project.candidates() if path.endswith(".py"))

    def _look_at_file(self, place: Place, recorded: Recorded, before: FileLook | None) -> FileLook | None:
        project, path = self._project(place.root), place.path
        if project is None:
            return None
        told = recorded if recorded.tells_of(path) else None
        try:
            stat = os.stat(path)
            stamp = (stat.st_mtime_ns, stat.st_size)
            found = tuple(project.check_file(path))
            if before is not None and (before.stamp, before.found) == (stamp, found) and before.told is told:
                return before
            source = read_source(path)
            if source is None:
                return None
            document = Document(path_to_uri(path), path, None, Text(source), changed_at=stat.st_mtime)
            outline = blocks(document.text)
            calls = static_calls(outline, project.ctx_calls(path))
        except (OSError, ValueError):
            return None
        except Exception:
            logger.exception("the lint failed on %s", path)
            return None
        findings = lint_findings(document, found, place.absolute)
        view = look_back(Analysis(document, findings, calls, find_tests(outline)), recorded)
        return FileLook(stamp, found, told, view)

    def _forecast(self, view: View, root: str, opened: tuple[Document, ...]) -> tuple[Forecast, ...]:
        try:
            found = self._forecaster.forecast(view.document, view.analysis.calls or (), root, opened)
        except Exception:
            logger.exception("forecasting %s failed", view.document.uri)
            return ()
        return open_forecasts(found, view.placed)

    def _cassette_findings(self, document: Document) -> tuple[Finding, ...]:
        checker = self._cassettes.setdefault(uri_key(document.uri), CassetteChecker())
        try:
            return checker.check(document.text)
        except Exception:
            logger.exception("checking the cassette %s failed", document.uri)
            return ()

    def _project(self, root: str) -> Project | None:
        """The lint's project; None while its configuration cannot be used."""
        if root not in self._projects:
            from rulvar_lint import ConfigError, Project

            try:
                self._projects[root] = Project(Path(root))
            except ConfigError as error:
                self._projects[root] = None
                self.faults[root] = str(error)
                logger.error("the lint's configuration cannot be used: %s", error)
            else:
                self.faults.pop(root, None)
        project = self._projects[root] = self._projects.pop(root)  # used last
        return project

    def _drop(self, key: str, place: Place, used: set[str]) -> None:
        self._cassettes.pop(key, None)
        self._workflows.pop(place.path, None)
        self._take_back(place.path)
        idle = [root for root in self._projects if root not in used]
        for root in idle[:-MOST_IDLE_PROJECTS]:
            del self._projects[root]
            self.faults.pop(root, None)

    def _count(self) -> dict[str, int]:
        return {
            "jobs": len(self._jobs),
            "views": len(self._views),
            "forecasts": len(self._forecasts),
            "overlays": len(self._overlays),
            "cassettes": len(self._cassettes),
            "workflows": len(self._workflows),
            "projects": len(self._projects),
        }

    def _invalidate(self, paths: list[str], configuration: bool) -> None:
        if configuration:
            self._projects.clear()
            self._overlays.clear()
            return
        for project in self._projects.values():
            for path in paths:
                if project is not None:
                    project.invalidate(path)

    def _fix_all(self, document: Document, place: Place, unsafe: bool) -> str | None:
        from rulvar_lint import fix_source

        self._look(document, place)
        project = self._project(place.root)
        if project is None:
            return None
        source = document.text.source
        fixed = fix_source(source, project.check_file(place.path), unsafe=unsafe)
        return fixed if fixed != source else None


class Superseded(Exception):
    """A newer text came before this one was looked at."""


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _rule_info(code: str) -> RuleInfo | None:
    from rulvar_lint import rule_info

    return rule_info(code)
