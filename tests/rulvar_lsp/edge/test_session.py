"""Folders, roots, settings, URIs: what the session knows, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulvar_lsp.edge.reports import ReportStore
from rulvar_lsp.edge.session import Session
from rulvar_lsp.edge.settings import Settings, read_settings
from rulvar_lsp.edge.uris import path_to_uri, uri_key, uri_to_path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b.py", "/a/b.py"),
        ("file:///a/with%20space/%C3%A9.py", "/a/with space/é.py"),
        ("file://localhost/a.py", "/a.py"),
        ("file:///a%23b%3F.py", "/a#b?.py"),
        ("file:///a#b?.py", "/a#b?.py"),
        ("file:///c%3A/x.py", "c:/x.py"),
        ("file:///C:/x.py", "c:/x.py"),
        ("file:///a/../b.py", "/b.py"),
        ("untitled:Untitled-1", None),
        ("git:/a.py", None),
        ("file:", None),
        ("", None),
        ("file:///a%00b", None),
    ],
)
def test_a_uri_is_a_path_or_is_none(uri: str, path: str | None) -> None:
    assert uri_to_path(uri) == path


@pytest.mark.parametrize("path", ["/a/b.py", "/a b/é😋.py", "/a#b?c%.py", "/(x)/[y].py"])
def test_a_path_survives_the_way_to_a_uri_and_back(path: str) -> None:
    assert uri_to_path(path_to_uri(path)) == path


def test_spellings_of_one_file_have_one_key() -> None:
    assert uri_key("file:///c%3A/A.py") == uri_key("file:///C:/A.py")
    assert uri_key("file:///a%28b%29.py") == uri_key("file:///a(b).py")
    assert uri_key("file:///A.py") != uri_key("file:///a.py")


def test_each_file_has_the_settings_of_its_innermost_folder(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    session = Session()
    for number, folder in enumerate((outer, inner)):
        session.add_folder(folder.as_uri())
        session.set_folder_settings(folder.as_uri(), Settings(run_timeout_seconds=number + 1))
    assert session.settings_for(str(inner / "a.py")).run_timeout_seconds == 2
    assert session.settings_for(str(outer / "a.py")).run_timeout_seconds == 1
    assert session.settings_for("/elsewhere/a.py") == Settings()
    session.remove_folder(inner.as_uri())
    assert session.settings_for(str(inner / "a.py")).run_timeout_seconds == 1


def test_the_root_is_the_nearest_project_file_within_the_folder(tmp_path: Path) -> None:
    package = tmp_path / "repo" / "package"
    package.mkdir(parents=True)
    session = Session()
    session.add_folder((tmp_path / "repo").as_uri())
    file = str(package / "a.py")
    (tmp_path / "pyproject.toml").write_text("")
    assert session.root_of(file) == str(tmp_path / "repo")
    (package / "pyproject.toml").write_text("")
    session.forget_roots()
    assert session.root_of(file) == str(package)
    assert session.is_in_project(file)
    assert not session.is_in_project("/nowhere/a.py")


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ({"diagnostics": "yes"}, "rulvar.diagnostics: expected true or false, got str"),
        ({"interpreter": 3}, "rulvar.interpreter: expected a string, got int"),
        ({"pytestArgs": ["-x", 3]}, "rulvar.pytestArgs: expected a list of strings, got list"),
        ({"runTimeoutSeconds": 0}, "rulvar.runTimeoutSeconds: expected a positive number, got int"),
        ({"runTimeoutSeconds": True}, "rulvar.runTimeoutSeconds: expected a positive number, got bool"),
    ],
)
def test_a_wrong_setting_is_named_and_the_default_stays(raw: dict[str, Any], fault: str) -> None:
    settings, faults = read_settings({**raw, "codeLens": False}, Settings())
    assert faults == (fault,)
    assert settings == Settings(code_lens=False)


@pytest.mark.parametrize("raw", [None, 3, [], "x", {}, {"rulvar": {}}, {"unknown": 1, "codeLens": None}])
def test_settings_of_any_shape_are_survived(raw: Any) -> None:
    assert read_settings(raw, Settings()) == (Settings(), ())


def test_settings_may_be_wrapped_in_their_section() -> None:
    assert read_settings({"rulvar": {"codeLens": False}}, Settings())[0].code_lens is False


def test_reports_are_read_once_and_forgotten_when_they_are_gone(project: Any) -> None:
    store = ReportStore()
    path = project.report(project.test())
    first = store.scan([str(project.root)])
    assert (first.changed, len(first.recorded.tests)) == (True, 1)
    again = store.scan([str(project.root)])
    assert (again.changed, again.recorded) == (False, first.recorded)
    path.unlink()
    gone = store.scan([str(project.root)])
    assert (gone.changed, gone.recorded.tests) == (True, ())


def test_further_reports_are_found_by_pattern(project: Any) -> None:
    path = project.report(project.test())
    path.rename(project.root / "mine.json")
    scan = ReportStore().scan([], [(str(project.root), "*.json")])
    assert len(scan.recorded.tests) == 1


def test_a_report_that_is_a_folder_or_unreadable_is_a_fault(project: Any) -> None:
    (project.root / ".rulvar_cache/reports/x.json").mkdir(parents=True)
    scan = ReportStore().scan([str(project.root)])
    assert [fault.split(": ", 1)[1] for fault in scan.faults.values()] == ["cannot be read (Is a directory)"]
    assert ReportStore().scan(["/no/such/folder"]).faults == {}
