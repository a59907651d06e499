"""What the server offers to a client."""

from __future__ import annotations

from lsprotocol import types as lsp

from rulvar_lsp.edge.client import Client
from rulvar_lsp.edge.command_names import COMMANDS
from rulvar_lsp.edge.settings import SECTION
from rulvar_lsp.features.action_kinds import KINDS

NAME = "rulvar-lsp"
WATCHED = (
    "**/*.py",
    "**/pyproject.toml",
    "**/.rulvar_cache/reports/*.json",
    "**/*.jsonl",
)


def server_capabilities(client: Client) -> lsp.ServerCapabilities:
    """Capabilities for this client; what it could not use rightly is not offered."""
    return lsp.ServerCapabilities(
        position_encoding=client.encoding,
        text_document_sync=lsp.TextDocumentSyncOptions(
            open_close=True,
            change=lsp.TextDocumentSyncKind.Incremental,
            save=lsp.SaveOptions(include_text=False),
        ),
        diagnostic_provider=lsp.DiagnosticOptions(
            identifier="rulvar", inter_file_dependencies=True, workspace_diagnostics=True
        )
        if client.pulls_diagnostics
        else None,
        code_action_provider=lsp.CodeActionOptions(code_action_kinds=list(KINDS), resolve_provider=True),
        code_lens_provider=lsp.CodeLensOptions(resolve_provider=False),
        inlay_hint_provider=lsp.InlayHintOptions(resolve_provider=True),
        hover_provider=True,
        definition_provider=True,
        references_provider=True,
        document_symbol_provider=lsp.DocumentSymbolOptions(label="rulvar"),
        document_link_provider=lsp.DocumentLinkOptions(resolve_provider=False),
        execute_command_provider=None
        if client.owns_commands
        else lsp.ExecuteCommandOptions(commands=list(COMMANDS), work_done_progress=True),
        workspace=lsp.WorkspaceOptions(
            workspace_folders=lsp.WorkspaceFoldersServerCapabilities(
                supported=True, change_notifications=True
            )
        ),
    )


def registrations(client: Client) -> lsp.RegistrationParams | None:
    """Ask the client to tell of changed files and settings, as far as it can."""
    found = []
    if client.can_watch:
        watchers = [lsp.FileSystemWatcher(glob_pattern=pattern) for pattern in WATCHED]
        found.append(
            lsp.Registration(
                id="rulvar-watch",
                method=lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                register_options=lsp.DidChangeWatchedFilesRegistrationOptions(watchers=watchers),
            )
        )
    if client.can_register_settings:
        found.append(
            lsp.Registration(
                id="rulvar-settings",
                method=lsp.WORKSPACE_DID_CHANGE_CONFIGURATION,
                register_options=lsp.DidChangeConfigurationRegistrationOptions(section=SECTION),
            )
        )
    return lsp.RegistrationParams(registrations=found) if found else None
