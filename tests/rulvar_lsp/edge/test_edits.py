"""Any sequence of edits leaves the server with the text that the client has, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulvar_lsp.edge.client import Client
from rulvar_lsp.edge.session import Change, Session
from rulvar_lsp.text import ENCODINGS, Encoding, Span, Text, encoded_length

WF = """from datetime import datetime
from rulvar import workflow


@workflow(name="w")
async def w(ctx, args):
    now = datetime.now()
    return now
"""
TEXTS = st.sampled_from(
    [
        "",
        "x",
        "é",
        "😋",
        "\n",
        "\r\n",
        "\r",
        "    ",
        "datetime.now()",
        "\x0c",
        "\n    b = datetime.now()",
        "#",
    ]
)
# line, character, end line, end character (far out of range included), text; None: the whole text
EDITS = st.lists(
    st.one_of(
        st.tuples(*[st.integers(0, 30)] * 4, TEXTS),
        st.tuples(*[st.integers(0, 2**31 - 1)] * 4, TEXTS),
        st.just(None),
    ),
    max_size=12,
)


def apply(source: str, edit: Any, encoding: Encoding) -> str:
    """What a client's own text is after the edit: positions clamped, in its units."""
    if edit is None:
        return WF
    text = Text(source)

    def offset(line: int, character: int) -> int:
        if line >= text.line_count:
            return len(source)
        content = text.line(line)
        column = max(c for c in range(len(content) + 1) if encoded_length(content[:c], encoding) <= character)
        return text.offset(line, column)

    a, b = sorted([offset(*edit[:2]), offset(*edit[2:4])])
    return source[:a] + edit[4] + source[b:]


@given(EDITS, st.sampled_from(ENCODINGS))
def test_the_session_has_the_clients_text(edits: list[Any], encoding: Encoding) -> None:
    session = Session(client=Client(encoding=encoding))
    session.open("file:///a.py", "python", 1, WF)
    source = WF
    for version, edit in enumerate(edits, 2):
        change = Change(WF) if edit is None else Change(edit[4], Span(*edit[:4]))
        session.change("file:///a.py", version, [change])
        source = apply(source, edit, encoding)
        document = session.document("file:///a.py")
        assert document is not None
        assert (document.text.source, document.version) == (source, version)


@given(st.lists(EDITS, max_size=4), st.sampled_from(ENCODINGS))
def test_several_cursors_edit_one_after_the_other(batches: list[list[Any]], encoding: Encoding) -> None:
    """The changes of one notification count in the text that the changes before them have left."""
    session = Session(client=Client(encoding=encoding))
    session.open("file:///a.py", "python", 1, WF)
    source = WF
    for version, batch in enumerate(batches, 2):
        changes = [Change(WF) if edit is None else Change(edit[4], Span(*edit[:4])) for edit in batch]
        session.change("file:///a.py", version, changes)
        for edit in batch:
            source = apply(source, edit, encoding)
    document = session.document("file:///a.py")
    assert document is not None and document.text.source == source


@pytest.fixture(scope="module")
def server(tmp_path_factory: Any, lsp_class: Any) -> Iterator[Any]:
    root = tmp_path_factory.mktemp("edits")
    client = lsp_class(root, root / "server.log")
    client.initialize()
    client.count = 0
    yield client
    client.kill()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(EDITS.filter(bool), max_size=6), ask=st.lists(st.integers(0, 3), max_size=6))
def test_diagnostics_after_edits_are_those_of_a_fresh_document(
    server: Any, batches: list[list[Any]], ask: list[int]
) -> None:
    """Also with requests and cancellations in between, every one of which is answered."""
    server.count += 1
    uri = server.open(f"a{server.count}.py", WF)
    source = WF
    asked = []
    for version, batch in enumerate(batches, 2):
        server.change(uri, version, *[WF if edit is None else edit for edit in batch])
        for edit in batch:
            source = apply(source, edit, "utf-16")
        if version - 2 < len(ask):
            method, params = (
                ("textDocument/hover", server.at(uri, 6, 12)),
                ("textDocument/codeLens", server.doc(uri)),
                ("textDocument/inlayHint", {**server.doc(uri), "range": server.range(0, 0, 9, 0)}),
                ("textDocument/definition", server.at(uri, 6, 12)),
            )[ask[version - 2]]
            asked.append(server.start(method, params))
            if version % 2:
                server.notify("$/cancelRequest", {"id": asked[-1]})
    last = len(batches) + 1
    edited = server.diagnostics(uri, last)
    fresh = server.open(f"b{server.count}.py", source)
    assert edited == rewritten(server.diagnostics(fresh), fresh, uri)
    for msg_id in asked:
        answer = server.answer(msg_id)
        assert "result" in answer or answer["error"]["code"] in (-32800, -32801)
    for one in (uri, fresh):
        server.notify("textDocument/didClose", server.doc(one))
    server.seen.clear()


def rewritten(found: list[Any], old: str, new: str) -> list[Any]:
    import json

    return json.loads(json.dumps(found).replace(old, new))
