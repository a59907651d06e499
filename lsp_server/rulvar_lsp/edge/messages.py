"""The protocol's messages as this server uses them: the shape of what goes in and out.

Only what is read or written here is written down; fields of a client beyond that are passed over. What comes in is
checked by `structured`, which names the field that is wrong; what goes out leaves out every field that was not set.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Annotated, Any, TypeVar

import msgspec

from rulvar_lsp.edge import methods

T = TypeVar("T")


class MessageType(IntEnum):
    """How loud a message to the user is."""

    Error = 1
    Warning = 2
    Info = 3
    Log = 4


class DiagnosticSeverity(IntEnum):
    """How bad a finding is."""

    Error = 1
    Warning = 2
    Information = 3
    Hint = 4


class SymbolKind(IntEnum):
    """What a symbol is; the few kinds that are given."""

    Class = 5
    Event = 24


INCREMENTAL = 2  # TextDocumentSyncKind
UNNECESSARY = 1  # DiagnosticTag

_Place = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Token = int | str


class Message(msgspec.Struct, omit_defaults=True, rename="camel", kw_only=True, gc=False):
    """What all shapes share: names in camel case, unset fields left out."""


# -- places -------------------------------------------------------------------------------------
class Position(Message):
    """A place in a document, in the units agreed on."""

    line: _Place
    character: _Place


class Range(Message):
    """A half-open stretch of a document."""

    start: Position
    end: Position


class Location(Message):
    """A stretch of a document that is named."""

    uri: str
    range: Range


class DocumentId(Message):
    """A document; `version` where the client gives one."""

    uri: str
    version: int | None = None


class OfDocument(Message):
    """Params of a request about a whole document."""

    text_document: DocumentId


class AtPosition(OfDocument):
    """Params of a request about a place in a document."""

    position: Position


class AtRange(OfDocument):
    """Params of a request about a stretch of a document."""

    range: Range


# -- documents ----------------------------------------------------------------------------------
class TextDocumentItem(Message):
    """A document that a client opens."""

    uri: str
    language_id: str
    version: int
    text: str


class DidOpen(Message):
    """A document was opened."""

    text_document: TextDocumentItem


class ContentChange(Message):
    """One change; without a range `text` is the whole new text."""

    text: str
    range: Range | None = None


class DidChange(OfDocument):
    """A document was changed."""

    content_changes: list[ContentChange]


# -- diagnostics --------------------------------------------------------------------------------
class RelatedInformation(Message):
    """Another place that belongs to a finding."""

    location: Location
    message: str


class Diagnostic(Message):
    """A finding."""

    range: Range
    message: str
    severity: DiagnosticSeverity
    code: str
    source: str
    code_description: dict[str, str] | None = None
    tags: list[int] | None = None
    related_information: list[RelatedInformation] | None = None


class PublishDiagnostics(Message):
    """The findings of a document."""

    uri: str
    diagnostics: list[Diagnostic]
    version: int | None = None


class PullDiagnostics(OfDocument):
    """A client asks for the findings of a document."""

    previous_result_id: str | None = None


class FullReport(Message, tag_field="kind", tag="full"):
    """All findings of a document."""

    items: list[Diagnostic]
    result_id: str | None = None


class UnchangedReport(Message, tag_field="kind", tag="unchanged"):
    """The findings that the client has are right."""

    result_id: str


class PreviousResult(Message):
    """What a client knows of one file."""

    uri: str
    value: str


class PullWorkspace(Message):
    """A client asks for the findings of the workspace."""

    previous_result_ids: list[PreviousResult]


class WorkspaceFullReport(Message, tag_field="kind", tag="full"):
    """All findings of a file of the workspace."""

    uri: str
    items: list[Diagnostic]
    version: int | None
    result_id: str | None = None


class WorkspaceUnchangedReport(Message, tag_field="kind", tag="unchanged"):
    """The findings that the client has of a file are right."""

    uri: str
    result_id: str
    version: int | None


class WorkspaceReport(Message):
    """The findings of the workspace's files."""

    items: list[WorkspaceFullReport | WorkspaceUnchangedReport]


# -- what is shown in a document ----------------------------------------------------------------
class Command(Message):
    """Something to do, offered to the user."""

    title: str
    command: str
    arguments: list[Any] | None = None


class MarkupContent(Message):
    """A text and its format, `markdown` or `plaintext`."""

    kind: str
    value: str


class Hover(Message):
    """What is shown over a place."""

    contents: MarkupContent
    range: Range | None = None


class InlayHint(Message):
    """A text put between the characters."""

    position: Position
    label: Any
    padding_left: bool = False
    tooltip: Any = None
    data: Any = None


class CodeLens(Message):
    """A command put above a line."""

    range: Range
    command: Command


class DocumentLink(Message):
    """Text that leads to a file."""

    range: Range
    target: str


class DocumentSymbol(Message):
    """A thing that has a name, with what it is made of."""

    name: str
    kind: SymbolKind
    range: Range
    selection_range: Range
    detail: str | None = None
    children: list[DocumentSymbol] | None = None


# -- edits and actions --------------------------------------------------------------------------
class TextEdit(Message):
    """A stretch replaced."""

    range: Range
    new_text: str


class VersionedDocument(Message):
    """A document and the version that an edit is for, null for a file that is not open."""

    uri: str
    version: int | None


class TextDocumentEdit(Message):
    """The edits of one document."""

    text_document: VersionedDocument
    edits: list[TextEdit]


class WorkspaceEdit(Message):
    """Edits by document, in one of two forms."""

    changes: dict[str, list[TextEdit]] | None = None
    document_changes: list[TextDocumentEdit] | None = None


class CodeActionContext(Message):
    """What kinds of actions are wanted. The client's diagnostics are passed over: they may be another tool's."""

    only: list[str] | None = None


class AskActions(AtRange):
    """Params of a request for actions."""

    context: CodeActionContext


class CodeAction(Message):
    """Something that can be done at a place; `diagnostics` may come back from a client in any shape."""

    title: str
    kind: str | None = None
    diagnostics: Any = None
    is_preferred: bool | None = None
    edit: Any = None
    command: Any = None
    data: Any = None


# -- workspace and window -----------------------------------------------------------------------
class Named(Message):
    """A folder or a file, named."""

    uri: str


class FolderChanges(Message):
    """Folders that came and went."""

    added: list[Named]
    removed: list[Named]


class DidChangeFolders(Message):
    """Workspace folders came or went."""

    event: FolderChanges


class DidChangeFiles(Message):
    """Watched files were changed."""

    changes: list[Named]


class ProgressCancel(Message):
    """The user cancelled a progress bar."""

    token: Token


PARAMS: dict[str, type[Message]] = {
    methods.TEXT_DOCUMENT_DID_OPEN: DidOpen,
    methods.TEXT_DOCUMENT_DID_CHANGE: DidChange,
    methods.TEXT_DOCUMENT_DID_SAVE: OfDocument,
    methods.TEXT_DOCUMENT_DID_CLOSE: OfDocument,
    methods.TEXT_DOCUMENT_DIAGNOSTIC: PullDiagnostics,
    methods.TEXT_DOCUMENT_INLAY_HINT: AtRange,
    methods.TEXT_DOCUMENT_CODE_LENS: OfDocument,
    methods.TEXT_DOCUMENT_CODE_ACTION: AskActions,
    methods.TEXT_DOCUMENT_HOVER: AtPosition,
    methods.TEXT_DOCUMENT_DEFINITION: AtPosition,
    methods.TEXT_DOCUMENT_REFERENCES: AtPosition,
    methods.TEXT_DOCUMENT_DOCUMENT_SYMBOL: OfDocument,
    methods.TEXT_DOCUMENT_DOCUMENT_LINK: OfDocument,
    methods.INLAY_HINT_RESOLVE: InlayHint,
    methods.CODE_ACTION_RESOLVE: CodeAction,
    methods.WORKSPACE_DIAGNOSTIC: PullWorkspace,
    methods.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: DidChangeFolders,
    methods.WORKSPACE_DID_CHANGE_WATCHED_FILES: DidChangeFiles,
    methods.WINDOW_WORK_DONE_PROGRESS_CANCEL: ProgressCancel,
}
"""The shape of the params of each method that has one here; those of the others are read as they come."""


def structured(raw: object, shape: type[T]) -> T:
    """Return JSON data in a shape. Raises `ValueError`, which names the field, where it does not fit."""
    return msgspec.convert(raw, shape)


def plain(value: object) -> Any:
    """Return the JSON data of a message."""
    return msgspec.to_builtins(value)


def encoded(value: object) -> bytes:
    """Return a message as JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which a client may send: only an escape can write it
        return json.dumps(plain(value), separators=(",", ":")).encode("ascii")
