"""Commands that the server carries out: run, cancel, explain, open.

Arguments come from outside (a lens, a key binding, another extension) and are checked field by
field.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from rulvar_lsp.edge.command_names import (
    CANCEL,
    EXPLAIN,
    OPEN,
    RECORD,
    RUN,
    RUN_RECORDED,
    SHOW_DIAGRAM,
    SHOW_RESULT,
)
from rulvar_lsp.edge.documents import view_of
from rulvar_lsp.edge.protocol import INVALID_PARAMS, REQUEST_FAILED, ResponseFault
from rulvar_lsp.edge.runner import make_cache_folder
from rulvar_lsp.edge.uris import path_to_uri, uri_to_path
from rulvar_lsp.features.recorded import site_markdown

if TYPE_CHECKING:
    from rulvar_lsp.edge.workbench import Workbench

logger = logging.getLogger(__name__)


DIAGRAM_FOLDER = os.path.join(".rulvar_cache", "diagrams")


class CommandBoard:
    """Carries commands out."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._table = {
            RUN: self._run,
            RUN_RECORDED: self._run_recorded,
            RECORD: self._record,
            CANCEL: self._cancel,
            EXPLAIN: self._explain,
            OPEN: self._open,
            SHOW_RESULT: self._show_result,
            SHOW_DIAGRAM: self._show_diagram,
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
        return await self._bench.runs.run([(path, test)], token, argument.get("quiet") is True)

    async def _record(self, argument: dict[str, Any], token: int | str | None) -> dict[str, Any]:
        path, test = _path(argument, RECORD), _text(argument, "test", RECORD)
        if test is None:
            raise ResponseFault(INVALID_PARAMS, f"{RECORD}: test: expected the name of one test")
        return await self._bench.runs.run([(path, test)], token, record=True)

    async def _run_recorded(self, argument: dict[str, Any], token: int | str | None) -> dict[str, Any]:
        tests = await self._bench.answers.recorded_by(argument)
        return await self._bench.runs.run([(t["path"], t["test"]) for t in tests], token)

    async def _cancel(self, argument: dict[str, Any], token: int | str | None) -> bool:
        path = _path(argument, CANCEL) if argument.get("uri") or argument.get("path") else None
        return self._bench.runs.cancel(path, _text(argument, "test", CANCEL))

    async def _explain(self, argument: dict[str, Any], token: int | str | None) -> str | None:
        uri = _text(argument, "uri", EXPLAIN) or ""
        line, column = _number(argument, "line", EXPLAIN), _number(argument, "column", EXPLAIN)
        document = self._bench.session.document(uri)
        if document is None:
            return None
        view = await view_of(self._bench, document)
        for site in view.placed:
            if site.span.contains(line, column):
                text = site_markdown(site)
                self._bench.show(lsp.MessageType.Info, self._bench.convert.plain(text))
                return text
        return None

    async def _open(self, argument: dict[str, Any], token: int | str | None) -> bool:
        path = _path(argument, OPEN)
        line = max(0, _number(argument, "line", OPEN) - 1)
        if not self._bench.session.client.can_show_document:
            self._bench.show(lsp.MessageType.Info, f"{path}:{line + 1}")
            return False
        place = lsp.Position(line=line, character=0)
        params = lsp.ShowDocumentParams(
            uri=path_to_uri(path), take_focus=True, selection=lsp.Range(start=place, end=place)
        )
        shown = await self._bench.protocol.ask(lsp.WINDOW_SHOW_DOCUMENT, params)
        return isinstance(shown, dict) and shown.get("success") is True

    async def _show_diagram(self, argument: dict[str, Any], token: int | str | None) -> str | None:
        uri, name = _text(argument, "uri", SHOW_DIAGRAM), _text(argument, "machine", SHOW_DIAGRAM)
        found = self._bench.answers.diagram(uri or "", name or "")
        if found is None:
            return None
        document, mermaid = found
        if document.path is not None:
            path = os.path.join(self._bench.session.root_of(document.path), DIAGRAM_FOLDER, f"{name}.md")
            try:
                make_cache_folder(os.path.dirname(path))
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"# {name}\n\n```mermaid\n{mermaid}```\n")
            except OSError as error:
                raise ResponseFault(REQUEST_FAILED, f"{path}: {error.strerror}") from None
            await self._open({"path": path}, token)
        return mermaid

    async def _show_result(self, argument: dict[str, Any], token: int | str | None) -> str:
        path, test = _path(argument, SHOW_RESULT), _text(argument, "test", SHOW_RESULT)
        runs = [
            run
            for run in self._bench.session.recorded.tests_in.get(path, ())
            if test is None or run.function == test
        ]
        lines = [f"{run.name}: {run.run.outcome}, {run.created_at}" for run in runs]
        lines += [run.run.message for run in runs if run.run.message]
        text = "\n".join(lines) or "no run is known"
        self._bench.show(lsp.MessageType.Info, text)
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
