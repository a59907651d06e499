"""The parts of a running server, wired together, and what they share: settings, reports, messages.

Made when the client has been answered: until then nothing that a first answer does not need is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from rulvar_lsp.edge.analysis import Analyst
from rulvar_lsp.edge.answers import Answers
from rulvar_lsp.edge.capabilities import NAME, registrations
from rulvar_lsp.edge.convert import Converter
from rulvar_lsp.edge.documents import DocumentSync
from rulvar_lsp.edge.progress import ProgressBoard
from rulvar_lsp.edge.protocol import ResponseFault
from rulvar_lsp.edge.reports import ReportStore, Scan
from rulvar_lsp.edge.session import PROJECT_FILE, Session
from rulvar_lsp.edge.settings import SECTION, Settings, read_settings
from rulvar_lsp.edge.sources import SourceTexts
from rulvar_lsp.edge.uris import path_to_uri
from rulvar_lsp.edge.watching import Watcher
from rulvar_lsp.edge.workspace_check import WorkspaceCheck
from rulvar_lsp.features.outline import is_test_file
from rulvar_lsp.snapshot import Document
from rulvar_lsp.text import Text

if TYPE_CHECKING:
    from rulvar_lsp.edge.commands import CommandBoard
    from rulvar_lsp.edge.protocol import RulvarProtocol
    from rulvar_lsp.edge.runs import RunBoard

logger = logging.getLogger(__name__)

_SETTINGS_SECONDS = 2.0


class Workbench:
    """Everything that works for one session."""

    def __init__(self, version: str, session: Session, protocol: RulvarProtocol, settings: Settings) -> None:
        self.version = version
        self.session = session
        self.protocol = protocol
        self._texts = SourceTexts()
        self.convert = Converter(session.client, self._uri_of, self._text_of)
        self.analyst = Analyst(session)
        self.documents = DocumentSync(self)
        self.answers = Answers(self)
        self.bars = ProgressBoard(protocol)
        self.watcher = Watcher(self)
        self.workspace_check = WorkspaceCheck(self)
        self.reports = ReportStore()
        self._offered = settings  # of the initialization options
        self._pulls = 0  # how often settings were asked for
        self._settings_known = asyncio.Event()
        self._scanning = asyncio.Lock()
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rulvar-lsp reports")
        self._scanned: set[str] = set()
        self._shown_faults: dict[str, str] = {}

    @cached_property
    def runs(self) -> RunBoard:
        """The runs of tests; loaded with the first one."""
        from rulvar_lsp.edge.runs import RunBoard

        return RunBoard(self)

    @cached_property
    def commands(self) -> CommandBoard:
        """What the user asks for; loaded with the first command."""
        from rulvar_lsp.edge.commands import CommandBoard

        return CommandBoard(self)

    def handlers(self) -> dict[str, Callable[[Any], Any]]:
        """What answers each method."""
        documents, answers = self.documents, self.answers
        return {
            lsp.INITIALIZED: self._initialized,
            lsp.TEXT_DOCUMENT_DID_OPEN: documents.did_open,
            lsp.TEXT_DOCUMENT_DID_CHANGE: documents.did_change,
            lsp.TEXT_DOCUMENT_DID_SAVE: documents.did_save,
            lsp.TEXT_DOCUMENT_DID_CLOSE: documents.did_close,
            lsp.TEXT_DOCUMENT_DIAGNOSTIC: documents.pull,
            lsp.WORKSPACE_DIAGNOSTIC: self.workspace_check.pull,
            lsp.TEXT_DOCUMENT_INLAY_HINT: answers.inlay_hint,
            lsp.INLAY_HINT_RESOLVE: answers.resolve_hint,
            lsp.TEXT_DOCUMENT_CODE_LENS: answers.code_lens,
            lsp.TEXT_DOCUMENT_HOVER: answers.hover,
            lsp.TEXT_DOCUMENT_CODE_ACTION: answers.code_action,
            lsp.CODE_ACTION_RESOLVE: answers.resolve_action,
            lsp.TEXT_DOCUMENT_DEFINITION: answers.definition,
            lsp.TEXT_DOCUMENT_REFERENCES: answers.references,
            lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: answers.document_symbol,
            lsp.TEXT_DOCUMENT_DOCUMENT_LINK: answers.document_link,
            lsp.WORKSPACE_EXECUTE_COMMAND: lambda p: self.commands.execute(p),
            lsp.WINDOW_WORK_DONE_PROGRESS_CANCEL: lambda p: self.bars.cancel(p.token),
            lsp.WORKSPACE_DID_CHANGE_CONFIGURATION: self._did_change_configuration,
            lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: self._did_change_folders,
            lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES: self.watcher.did_change_watched_files,
            "rulvar/tests": answers.discover,
            "rulvar/nearest": answers.sides,
            "rulvar/recordedBy": answers.recorded_by,
            "rulvar/trust": self._did_trust,
            "rulvar/held": self._held,
        }

    async def _held(self, params: object) -> dict[str, int]:
        from rulvar_lsp.edge.holdings import holdings

        return await holdings(self)

    async def _initialized(self, params: object) -> None:
        client = self.session.client
        self.watcher.start()
        logger.info(
            "%s %s for %s: %s diagnostics, %s, running tests is %s",
            NAME,
            self.version,
            client.name or "an unnamed client",
            "pulled" if client.pulls_diagnostics else "pushed",
            client.encoding,
            "on" if self.session.trusted else "off (not trusted)",
        )
        await self._pull_settings()
        self._settings_known.set()
        if (wanted := registrations(client)) is not None:
            with contextlib.suppress(ResponseFault, TimeoutError):
                await self.protocol.ask(lsp.CLIENT_REGISTER_CAPABILITY, wanted)
        await self.look_for_reports()
        self.workspace_check.soon()

    def stop(self) -> None:
        """End children and timers: the server is leaving."""
        self.watcher.stop()
        if "runs" in self.__dict__:
            self.runs.kill_all()

    # -- settings and folders -------------------------------------------------------------------
    async def know_settings(self) -> None:
        """Wait for the client's settings, though not for ever: a test shall not run with another interpreter."""
        if self.session.client.can_configure:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settings_known.wait(), _SETTINGS_SECONDS)

    def _use_settings(self, raw: Any) -> None:
        self.session.settings, faults = read_settings(raw, self._offered)
        for fault in faults:
            logger.warning("settings: %s", fault)

    async def _pull_settings(self) -> None:
        if not self.session.client.can_configure:
            return
        uris = self.session.folder_uris
        items = [lsp.ConfigurationItem(section=SECTION)]
        items += [lsp.ConfigurationItem(scope_uri=uri, section=SECTION) for uri in uris]
        self._pulls += 1
        pull = self._pulls
        try:
            got = await self.protocol.ask(lsp.WORKSPACE_CONFIGURATION, lsp.ConfigurationParams(items=items))
        except (ResponseFault, TimeoutError) as error:
            logger.warning("settings: the client did not give them (%s)", error)
            return
        if pull != self._pulls:
            return  # asked again meanwhile: a client may answer in any order
        values = got if isinstance(got, list) else []
        base = self._offered
        faults: tuple[str, ...] = ()
        for uri, value in zip((None, *uris), values, strict=False):
            settings, more = read_settings(value, base)
            faults += more
            if uri is None:
                self.session.settings = settings
            else:
                self.session.set_folder_settings(uri, settings)
        for fault in dict.fromkeys(faults):
            logger.warning("settings: %s", fault)

    async def _did_change_configuration(self, raw: Any) -> None:
        if self.session.client.can_configure:
            await self._pull_settings()
        else:
            given = raw.get("settings") if isinstance(raw, dict) else None
            if isinstance(given, dict):
                self._use_settings(given)
        await self.look_for_reports()
        self.refresh_results()

    async def _did_change_folders(self, params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        for folder in params.event.removed:
            self.session.remove_folder(folder.uri)
        for folder in params.event.added:
            self.session.add_folder(folder.uri)
        await self._pull_settings()
        await self.look_for_reports()
        self.analyst.folders_changed()
        self.refresh_results()

    def _did_trust(self, raw: Any) -> None:
        self.session.trusted = isinstance(raw, dict) and raw.get("trusted") is True
        if self.session.client.can_refresh_lenses:
            self.refresh(lsp.WORKSPACE_CODE_LENS_REFRESH)

    # -- reports --------------------------------------------------------------------------------
    async def look_for_reports(self) -> None:
        """Read what changed on disk and show it."""
        async with self._scanning:
            session = self.session
            patterns = [
                (folder, pattern)
                for folder in session.folders
                for pattern in session.settings_for(folder).reports
            ]
            roots = session.project_roots
            loop = asyncio.get_running_loop()
            scan: Scan = await loop.run_in_executor(self._disk, self.reports.scan, roots, patterns)
            self._scanned.update(roots)
        for path, fault in scan.faults.items():
            logger.warning("%s", fault)
            self._show_file_fault(path, "replay-report", fault)
        for path in scan.healed:
            self.documents.send(path_to_uri(path), None, [])
        if scan.changed:
            self.session.recorded = scan.recorded
            self.refresh_results()

    async def know_reports(self, document: Document) -> None:
        """Have the reports of the document's project read at least once."""
        path = document.path
        if path is not None and self.session.root_of(path) not in self._scanned:
            await self.look_for_reports()

    def show_configuration_faults(self) -> None:
        """Show what is wrong with the lint's configuration, in the file that it stands in."""
        faults = dict(self.analyst.faults)
        if faults == self._shown_faults:
            return
        for root in self._shown_faults.keys() - faults.keys():
            self.documents.send(path_to_uri(os.path.join(root, PROJECT_FILE)), None, [])
        for root, fault in faults.items():
            self._show_file_fault(os.path.join(root, PROJECT_FILE), "configuration", fault)
        self._shown_faults = faults

    def _show_file_fault(self, path: str, code: str, fault: str) -> None:
        place = lsp.Position(line=0, character=0)
        self.documents.send(
            path_to_uri(path),
            None,
            [
                lsp.Diagnostic(
                    range=lsp.Range(start=place, end=place),
                    message=fault,
                    severity=lsp.DiagnosticSeverity.Error,
                    code=code,
                    source="rulvar",
                )
            ],
        )

    def refresh_results(self) -> None:
        """Results changed without an edit: have everything shown again."""
        self.documents.refresh_all()
        if self.session.client.can_refresh_hints:
            self.refresh(lsp.WORKSPACE_INLAY_HINT_REFRESH)
        if self.session.client.can_refresh_lenses:
            self.refresh(lsp.WORKSPACE_CODE_LENS_REFRESH)

    def refresh(self, method: str) -> None:
        """Ask the client to ask again; it may refuse, and nothing fails for that."""
        self.protocol.spawn(self._ask_quietly(method), method)

    async def _ask_quietly(self, method: str) -> None:
        with contextlib.suppress(ResponseFault, TimeoutError):
            await self.protocol.ask(method)

    # -- the rest -------------------------------------------------------------------------------
    def saved(self, document: Document) -> None:
        """A document was saved: run its tests where run-on-save is switched on."""
        path = document.path
        wanted = path is not None and self.session.settings_for(path).run_on_save
        if path is not None and wanted and self.session.trusted and is_test_file(path):
            self.protocol.spawn(self.runs.run([(path, None)]), "run on save")

    def show(self, kind: lsp.MessageType, message: str) -> None:
        """Show the user a message."""
        self.protocol.notify(lsp.WINDOW_SHOW_MESSAGE, lsp.ShowMessageParams(type=kind, message=message))

    def _uri_of(self, path: str) -> str:
        for document in self.session.documents:
            if document.path == path:
                return document.uri
        return path_to_uri(path)

    def _text_of(self, path: str) -> Text | None:
        for document in self.session.documents:
            if document.path == path:
                return document.text
        if not path.endswith(".py"):
            return None  # a cassette may be large, and only its lines are pointed at
        return self._texts.text(path)
