"""Commands that the server carries out: run, cancel, explain, open.

Arguments come from outside (a lens, a key binding, another extension) and are checked field by
field.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from rulvar_lsp.edge.documents import view_of
from rulvar_lsp.edge.protocol import INVALID_PARAMS, ResponseFault
from rulvar_lsp.edge.uris import path_to_uri, uri_to_path
from rulvar_lsp.features.recorded import site_markdown

if TYPE_CHECKING:
    from rulvar_lsp.edge.server import RulvarServer

logger = logging.getLogger(__name__)

RUN = "rulvar.replayStrict"
CANCEL = "rulvar.cancelRun"
EXPLAIN = "rulvar.explainMiss"
OPEN = "rulvar.openFile"
SHOW_RESULT = "rulvar.showResult"
COMMANDS = (RUN, CANCEL, EXPLAIN, OPEN, SHOW_RESULT)


class CommandBoard:
    """Carries commands out."""

    def __init__(self, server: RulvarServer) -> None:
        self._server = server
        self._table = {
            RUN: self._run,
            CANCEL: self._cancel,
            EXPLAIN: self._explain,
            OPEN: self._open,
            SHOW_RESULT: self._show_result,
        }

    async def execute(self, raw: Any) -> Any:
        """Carry out `workspace/executeCommand`."""
        params = raw if isinstance(raw, dict) else {}
        name = params.get("command")
        handler = self._table.get(name) if isinstance(name, str) else None
        if handler is None:
            raise ResponseFault(INVALID_PARAMS, f"command: unknown command {name!r}")
        arguments = params.get("arguments") or []
        first = arguments[0] if isinstance(arguments, list) and arguments else {}
        if isinstance(first, str) and isinstance(arguments, list):  # (uri, test): easy to type by hand
            first = dict(zip(("uri", "test"), arguments, strict=False))
        if not isinstance(first, dict):
            raise ResponseFault(INVALID_PARAMS, f"{name}: arguments[0]: expected an object")
        token = params.get("workDoneToken")
        return await handler(first, token if isinstance(token, int | str) else None)

    async def _run(self, argument: dict[str, Any], token: int | str | None) -> dict[str, Any]:
        path = _path(argument, RUN)
        test = _text(argument, "test", RUN)
        return await self._server.runs.run(path, test, token, argument.get("quiet") is True)

    async def _cancel(self, argument: dict[str, Any], token: int | str | None) -> bool:
        path = _path(argument, CANCEL) if argument.get("uri") or argument.get("path") else None
        return self._server.runs.cancel(path, _text(argument, "test", CANCEL))

    async def _explain(self, argument: dict[str, Any], token: int | str | None) -> str | None:
        uri = _text(argument, "uri", EXPLAIN) or ""
        line, column = _number(argument, "line", EXPLAIN), _number(argument, "column", EXPLAIN)
        document = self._server.session.document(uri)
        if document is None:
            return None
        view = await view_of(self._server, document)
        for site in view.placed:
            if site.span.contains(line, column):
                text = site_markdown(site)
                self._server.show(lsp.MessageType.Info, self._server.convert.plain(text))
                return text
        return None

    async def _open(self, argument: dict[str, Any], token: int | str | None) -> bool:
        path = _path(argument, OPEN)
        line = max(0, _number(argument, "line", OPEN) - 1)
        if not self._server.session.client.can_show_document:
            self._server.show(lsp.MessageType.Info, f"{path}:{line + 1}")
            return False
        place = lsp.Position(line=line, character=0)
        params = lsp.ShowDocumentParams(
            uri=path_to_uri(path), take_focus=True, selection=lsp.Range(start=place, end=place)
        )
        shown = await self._server.protocol.ask(lsp.WINDOW_SHOW_DOCUMENT, params)
        return isinstance(shown, dict) and shown.get("success") is True

    async def _show_result(self, argument: dict[str, Any], token: int | str | None) -> str:
        path, test = _path(argument, SHOW_RESULT), _text(argument, "test", SHOW_RESULT)
        runs = [
            run
            for run in self._server.session.recorded.tests_in.get(path, ())
            if test is None or run.function == test
        ]
        lines = [f"{run.name}: {run.run.outcome}, {run.created_at}" for run in runs]
        lines += [run.run.message for run in runs if run.run.message]
        text = "\n".join(lines) or "no run is known"
        self._server.show(lsp.MessageType.Info, text)
        return text


def _path(argument: dict[str, Any], command: str) -> str:
    uri, path = _text(argument, "uri", command), _text(argument, "path", command)
    found = path if path is not None else uri_to_path(uri or "")
    if found is None or (not found.startswith("/") and ":" not in found[:3]):
        raise ResponseFault(INVALID_PARAMS, f"{command}: uri: expected the URI of a file")
    return found


def _text(argument: dict[str, Any], name: str, command: str) -> str | None:
    value = argument.get(name)
    if value is not None and not isinstance(value, str):
        raise ResponseFault(INVALID_PARAMS, f"{command}: {name}: expected a string")
    return value


def _number(argument: dict[str, Any], name: str, command: str) -> int:
    value = argument.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ResponseFault(INVALID_PARAMS, f"{command}: {name}: expected an integer")
    return value
