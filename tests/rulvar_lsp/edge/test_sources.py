"""Texts of files that are not open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rulvar_lsp.edge import sources
from rulvar_lsp.edge.sources import MOST_REMEMBERED, SourceTexts, read_source


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x = 1\r\ny\r", "x = 1\r\ny\r"),
        (b"\xef\xbb\xbfx", "x"),
        ("# coding: latin-1\né".encode("latin-1"), "# coding: latin-1\né"),
        ("# coding: no-such\né".encode(), "# coding: no-such\né"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
    ],
)
def test_any_bytes_are_a_text(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(data)
    assert read_source(str(path)) == text


def test_what_is_no_file_has_no_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "", "missing", "a\0b"):
        path = f"{tmp_path}/{name}"
        assert read_source(path) is None
        assert SourceTexts().text(path) is None


def test_a_text_is_read_once_as_long_as_its_file_is_what_it_was(tmp_path: Path, monkeypatch: Any) -> None:
    texts, path = SourceTexts(), tmp_path / "a.py"
    path.write_text("x = 1\n")
    first = texts.text(str(path))
    assert first is not None and texts.text(str(path)) is first
    path.write_text("x = 1234\n")
    again = texts.text(str(path))
    assert again is not None and again.source == "x = 1234\n"
    path.unlink()
    assert texts.text(str(path)) is None
    reads: list[str] = []
    monkeypatch.setattr(sources, "read_source", lambda path: reads.append(path) or "")
    for number in range(2 * MOST_REMEMBERED):
        (tmp_path / f"{number}.py").write_text("")
        texts.text(str(tmp_path / f"{number}.py"))
    texts.text(str(tmp_path / f"{2 * MOST_REMEMBERED - 1}.py"))
    assert len(reads) == 2 * MOST_REMEMBERED
    texts.text(str(tmp_path / "0.py"))  # forgotten meanwhile
    assert len(reads) == 2 * MOST_REMEMBERED + 1
