"""What the client can do, read once from `initialize`, leniently: capabilities of any shape are
survived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulvar_lsp.text import ENCODINGS, Encoding


@dataclass(frozen=True, slots=True)
class Client:
    """The abilities that decide how the server talks to this client."""

    name: str = ""
    encoding: Encoding = "utf-16"
    pulls_diagnostics: bool = False
    can_refresh_hints: bool = False
    can_refresh_lenses: bool = False
    can_configure: bool = False
    can_watch: bool = False
    can_register_settings: bool = False
    has_relative_patterns: bool = False
    has_progress: bool = False
    has_document_changes: bool = False
    has_related: bool = False
    has_tags: bool = False
    has_code_description: bool = False
    has_action_literals: bool = False
    has_preferred: bool = False
    resolves_hint_tooltip: bool = False
    has_markdown: bool = False
    can_show_document: bool = False
    can_apply_edits: bool = False
    has_folders: bool = False
    # commands are registered by the client itself (VS Code): not advertised, else they are
    # registered twice
    owns_commands: bool = False

    @classmethod
    def of(cls, params: dict[str, Any], options: dict[str, Any]) -> Client:
        """Read `initialize` params and the initialization options."""
        caps = params.get("capabilities")
        offered = _get(caps, "general.positionEncodings")
        encodings = [e for e in offered if e in ENCODINGS] if isinstance(offered, list) else []
        formats = _get(caps, "textDocument.hover.contentFormat")
        diagnostics = "textDocument.publishDiagnostics"
        return cls(
            name=str(_get(params, "clientInfo.name") or ""),
            encoding=encodings[0] if encodings else "utf-16",
            # results change without an edit (a run, a cassette): a client that cannot be told to
            # pull again would show old ones, so it gets them pushed
            pulls_diagnostics=_get(caps, "textDocument.diagnostic") is not None
            and _get(caps, "workspace.diagnostics.refreshSupport") is True,
            can_refresh_hints=_get(caps, "workspace.inlayHint.refreshSupport") is True,
            can_refresh_lenses=_get(caps, "workspace.codeLens.refreshSupport") is True,
            can_configure=_get(caps, "workspace.configuration") is True,
            can_watch=_get(caps, "workspace.didChangeWatchedFiles.dynamicRegistration") is True,
            can_register_settings=_get(caps, "workspace.didChangeConfiguration.dynamicRegistration") is True,
            has_relative_patterns=_get(caps, "workspace.didChangeWatchedFiles.relativePatternSupport")
            is True,
            has_progress=_get(caps, "window.workDoneProgress") is True,
            has_document_changes=_get(caps, "workspace.workspaceEdit.documentChanges") is True,
            has_related=_get(caps, f"{diagnostics}.relatedInformation") is True,
            has_tags=_get(caps, f"{diagnostics}.tagSupport") is not None,
            has_code_description=_get(caps, f"{diagnostics}.codeDescriptionSupport") is True,
            has_action_literals=_get(caps, "textDocument.codeAction.codeActionLiteralSupport") is not None,
            has_preferred=_get(caps, "textDocument.codeAction.isPreferredSupport") is True,
            resolves_hint_tooltip="tooltip"
            in (_get(caps, "textDocument.inlayHint.resolveSupport.properties") or ()),
            has_markdown=isinstance(formats, list) and "markdown" in formats,
            can_show_document=_get(caps, "window.showDocument.support") is True,
            can_apply_edits=_get(caps, "workspace.applyEdit") is True,
            has_folders=_get(caps, "workspace.workspaceFolders") is True,
            owns_commands=options.get("ownsCommands") is True,
        )


def _get(value: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value
