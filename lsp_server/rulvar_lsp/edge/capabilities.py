"""What the server offers to a client."""

from __future__ import annotations

from typing import Any

from rulvar_lsp.edge import methods
from rulvar_lsp.edge.client import Client
from rulvar_lsp.edge.command_names import COMMANDS
from rulvar_lsp.edge.messages import INCREMENTAL
from rulvar_lsp.edge.settings import SECTION
from rulvar_lsp.features.action_kinds import KINDS

NAME = "rulvar-lsp"
WATCHED = (
    "**/*.py",
    "**/pyproject.toml",
    "**/.rulvar_cache/reports/*.json",
    "**/*.jsonl",
)


def server_capabilities(client: Client) -> dict[str, Any]:
    """Capabilities for this client; what it could not use rightly is not offered."""
    offered: dict[str, Any] = {
        "positionEncoding": client.encoding,
        "textDocumentSync": {"openClose": True, "change": INCREMENTAL, "save": {"includeText": False}},
        "codeActionProvider": {"codeActionKinds": list(KINDS), "resolveProvider": True},
        "codeLensProvider": {"resolveProvider": False},
        "inlayHintProvider": {"resolveProvider": True},
        "hoverProvider": True,
        "definitionProvider": True,
        "referencesProvider": True,
        "documentSymbolProvider": {"label": "rulvar"},
        "documentLinkProvider": {"resolveProvider": False},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
    }
    if client.pulls_diagnostics:
        offered["diagnosticProvider"] = {
            "identifier": "rulvar",
            "interFileDependencies": True,
            "workspaceDiagnostics": True,
        }
    if not client.owns_commands:
        offered["executeCommandProvider"] = {"commands": list(COMMANDS), "workDoneProgress": True}
    return offered


def registrations(client: Client) -> dict[str, Any] | None:
    """Ask the client to tell of changed files and settings, as far as it can."""
    found: list[dict[str, Any]] = []
    if client.can_watch:
        found.append(
            {
                "id": "rulvar-watch",
                "method": methods.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                "registerOptions": {"watchers": [{"globPattern": pattern} for pattern in WATCHED]},
            }
        )
    if client.can_register_settings:
        found.append(
            {
                "id": "rulvar-settings",
                "method": methods.WORKSPACE_DID_CHANGE_CONFIGURATION,
                "registerOptions": {"section": SECTION},
            }
        )
    return {"registrations": found} if found else None
