"""The only mutable state of the server: client, settings, folders, documents, recorded truth.

Changed on the event loop only; everything handed out is immutable.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rulvar_lsp.edge.client import Client
from rulvar_lsp.edge.settings import Settings
from rulvar_lsp.edge.sources import read_source
from rulvar_lsp.edge.uris import uri_key, uri_to_path
from rulvar_lsp.snapshot import Document, Recorded
from rulvar_lsp.text import LineEditor, Span, Text

PROJECT_FILE = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Change:
    """One content change: a replaced span in the client's units, or, without a span, the whole
    text.
    """

    text: str
    span: Span | None = None


@dataclass(slots=True)
class Session:
    """State between `initialize` and `exit`."""

    client: Client = field(default_factory=Client)
    settings: Settings = field(default_factory=Settings)
    trusted: bool = False
    recorded: Recorded = field(default_factory=Recorded)
    _folders: dict[str, str] = field(default_factory=dict)  # uri -> path
    _folder_settings: dict[str, Settings] = field(default_factory=dict)  # path -> settings
    _documents: dict[str, Document] = field(default_factory=dict)
    _roots: dict[str, str] = field(default_factory=dict)  # folder of a file -> project root

    # -- folders and settings -------------------------------------------------------------------
    @property
    def folders(self) -> tuple[str, ...]:
        """Paths of the workspace folders."""
        return tuple(dict.fromkeys(self._folders.values()))

    @property
    def folder_uris(self) -> tuple[str, ...]:
        """The folders as the client spells them."""
        return tuple(self._folders)

    def add_folder(self, uri: str) -> None:
        """Add a workspace folder; one without a path is ignored."""
        path = uri_to_path(uri)
        if path is not None:
            self._folders[uri] = path
            self._roots.clear()

    def remove_folder(self, uri: str) -> None:
        """Remove a workspace folder."""
        key = uri_key(uri)
        for known in [u for u in self._folders if uri_key(u) == key]:
            self._folder_settings.pop(self._folders.pop(known), None)
        self._roots.clear()

    def set_folder_settings(self, uri: str, settings: Settings) -> None:
        """Set what the client says for one folder."""
        if uri in self._folders:
            self._folder_settings[self._folders[uri]] = settings

    def settings_for(self, path: str | None) -> Settings:
        """The settings of the folder around the path."""
        folder = self.folder_of(path) if path else None
        return self._folder_settings.get(folder or "", self.settings)

    def folder_of(self, path: str) -> str | None:
        """The innermost workspace folder around the path."""
        around = [f for f in self.folders if path == f or path.startswith(f.rstrip("/") + "/")]
        return max(around, key=len, default=None)

    def is_in_project(self, path: str) -> bool:
        """Say whether the file lies in a workspace folder or below a pyproject.toml."""
        if self.folder_of(path) is not None:
            return True
        return os.path.isfile(os.path.join(self.root_of(path), PROJECT_FILE))

    def root_of(self, path: str) -> str:
        """The project root of a file: the nearest folder with a pyproject.toml, else the workspace
        folder, else the file's own folder."""
        start = os.path.dirname(path)
        if start not in self._roots:
            self._roots[start] = self._find_root(start, self.folder_of(path))
        return self._roots[start]

    def _find_root(self, start: str, folder: str | None) -> str:
        here = start
        while True:
            if os.path.isfile(os.path.join(here, PROJECT_FILE)):
                return here
            parent = os.path.dirname(here)
            if here in (folder, parent) or not parent:
                return folder or start
            here = parent

    def forget_roots(self) -> None:
        """Look for project files again: one was created or deleted."""
        self._roots.clear()

    @property
    def project_roots(self) -> tuple[str, ...]:
        """Workspace folders and the project roots of open files."""
        paths = [d.path for d in self._documents.values() if d.path]
        return tuple(dict.fromkeys([*self.folders, *(self.root_of(p) for p in paths)]))

    # -- documents ------------------------------------------------------------------------------
    @property
    def documents(self) -> tuple[Document, ...]:
        """All open documents."""
        return tuple(self._documents.values())

    def document(self, uri: str) -> Document | None:
        """The open document of this URI in any spelling."""
        return self._documents.get(uri_key(uri))

    def open(self, uri: str, language: str, version: int, source: str) -> Document:
        """Open a document; one that is open already is replaced."""
        path = uri_to_path(uri)
        document = Document(uri, path, version, Text(source), language, _changed_at(path, source))
        self._documents[uri_key(uri)] = document
        return document

    def change(self, uri: str, version: int | None, changes: Iterable[Change]) -> Document | None:
        """Apply changes in order; None for a document that is not open."""
        document = self.document(uri)
        if document is None:
            return None
        text = self._edited(document.text, list(changes))
        document = replace(document, version=version, text=text, changed_at=time.time())
        self._documents[uri_key(uri)] = document
        return document

    def _edited(self, text: Text, changes: Sequence[Change]) -> Text:
        if len(changes) == 1:
            return self._applied(text, changes[0])
        editor = LineEditor(text)
        for change in changes:
            if change.span is None:
                editor = LineEditor(Text(change.text))
            else:
                editor.replace(change.span, change.text, self.client.encoding)
        return editor.text()

    def _applied(self, text: Text, change: Change) -> Text:
        if change.span is None:
            return Text(change.text)
        span, encoding = change.span, self.client.encoding
        columns = Span(
            span.line,
            text.column_from(span.line, span.column, encoding),
            span.end_line,
            text.column_from(span.end_line, span.end_column, encoding),
        )
        return text.splice(columns, change.text)

    def close(self, uri: str) -> Document | None:
        """Close a document and return it."""
        return self._documents.pop(uri_key(uri), None)


def _changed_at(path: str | None, source: str) -> float:
    """When text that a client opens last changed: the file's time, now if the buffer differs from
    it.
    """
    if path is None:
        return time.time()
    try:
        changed = os.stat(path).st_mtime
    except (OSError, ValueError):
        return time.time()
    return changed if read_source(path, 4 * len(source) + 4) == source else time.time()
