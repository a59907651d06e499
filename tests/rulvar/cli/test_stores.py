"""Every verb works over every store that a project can configure, and a store that cannot be had is told in a line."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer, postgres  # noqa: F401

from rulvar.cli.stores import FolderPlace, ObjectPlace, PostgresPlace, SqlitePlace, name_of_store, named_place
from rulvar.errors import ConfigError

Rulvar = Callable[..., Any]
CONFIGURED = {
    "folder": ("pyproject.toml", '[tool.rulvar]\nstore = "kept/runs"\n', "runs"),
    "sqlite file": ("pyproject.toml", '[tool.rulvar]\nstore = "runs.db"\n', "runs.db"),
    "sqlite url": ("pyproject.toml", '[tool.rulvar]\nstore = "sqlite:///kept/all"\n', "all"),
    "sqlite of an engine": (
        "rulvar_config.py",
        "from rulvar import Engine\nfrom rulvar.stores import SqliteStore\nprint('loaded')\n"
        "def engine():\n    return Engine(journal=SqliteStore('own.db'))\n",
        "own.db",
    ),
    "a store of the project's": (
        "pyproject.toml",
        '[tool.rulvar]\nstore = "storing.py:make"\n',
        "sealed.db",
    ),
    "postgres": ("pyproject.toml", '[tool.rulvar]\nstore = "$RUNS_DSN"\n', "postgresql://tests@127.0.0.1"),
}
STORING = """
print("what code of the project says")
from rulvar.stores import LocalKeys, SealedStore, SqliteStore

def make():
    return SealedStore(SqliteStore("sealed.db"), LocalKeys({"k": b"0" * 32}))
"""


@pytest.fixture(params=list(CONFIGURED))
def configured(request: pytest.FixtureRequest, project: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A project that keeps its runs somewhere; returns what that place is called."""
    file, text, name = CONFIGURED[request.param]
    (project / file).write_text(text)
    (project / "storing.py").write_text(STORING)
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        monkeypatch.setenv("RUNS_DSN", f"{server.dsn}?schema=s{uuid.uuid4().hex}")
    return name


def test_a_run_is_started_seen_answered_resumed_checked_and_carried_over(
    configured: str, rulvar: Rulvar, look: Rulvar, project: Path
) -> None:
    started = rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1", "--no-input")
    assert started.code == 3, started.err
    listed = look("runs", "ls", "--json").json
    assert configured in listed["store"]
    assert [(run["runId"], run["status"]) for run in listed["runs"]] == [("r1", "suspended")]
    assert "gate" in look("inspect", "r1").out
    assert look("inspect", "r1", "--seq", "0").code == 0
    refused = look("answer", "r1", "gate", '{"approved": "maybe"}')
    assert (refused.code, "does not fit its schema" in refused.err) == (2, True)
    assert look("answer", "r1", "gate", '{"approved": true}').code == 0
    resumed = rulvar("resume", "r1", "flows.py:release", "--json")
    assert resumed.json["value"] == {"notes": "notes for 1", "approved": True}, resumed.err
    assert look("runs", "audit").out == "1 run, no problems\n"
    assert look("export", "r1").code == 0
    assert "already; pass --force" in look("import", "r1.run.json").err
    assert look("import", "r1.run.json", "--force").code == 0
    assert look("diff", "r1", "./r1.run.json").out.startswith("same")
    again = rulvar("resume", "r1", "flows.py:release", "--json")  # the kept arguments came along
    assert again.json["preview"]["misses"] == 0, again.err
    assert not (project / ".rulvar").exists()


def test_a_run_that_is_not_there_names_the_nearest(configured: str, rulvar: Rulvar, look: Rulvar) -> None:
    assert rulvar("run", "flows.py:hello", "--run-id", "alpha").code == 0
    for words in (["inspect", "alhpa"], ["answer", "alhpa"], ["export", "alhpa"], ["runs", "audit", "alhpa"]):
        done = look(*words)
        assert done.code == 2
        assert "did you mean 'alpha'?" in done.err
        assert configured in done.err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("runs", FolderPlace(Path("root/runs"))),
        ("runs.db", SqlitePlace(Path("root/runs.db"))),
        ("a/b.sqlite3", SqlitePlace(Path("root/a/b.sqlite3"))),
        ("sqlite:///a/b", SqlitePlace(Path("root/a/b"))),
        ("sqlite:////a/b", SqlitePlace(Path("/a/b"))),
        ("sqlite:a b", SqlitePlace(Path("root/a b"))),
        ("postgresql://u:p@h/db", PostgresPlace("postgresql://u:p@h/db", None)),
        ("postgres://h/db?schema=s&sslmode=require", PostgresPlace("postgres://h/db?sslmode=require", "s")),
        ("$PLACE", SqlitePlace(Path("root/env.db"))),
        ("${PLACE}", SqlitePlace(Path("root/env.db"))),
    ],
)
def test_a_text_names_a_place(text: str, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "env.db")
    assert named_place(text, Path("root"), "store", lambda: None) == place


def test_a_name_of_code_names_a_store_that_is_not_made_yet() -> None:
    assert isinstance(named_place("stores:make", Path(), "store", lambda: None), ObjectPlace)


def test_a_file_is_known_by_what_is_in_it_and_a_folder_by_what_it_is(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "plain").execute("CREATE TABLE t (x)").connection.close()
    (tmp_path / "dir.db").mkdir()
    assert isinstance(named_place("plain", tmp_path, "store", lambda: None), SqlitePlace)
    assert isinstance(named_place("dir.db", tmp_path, "store", lambda: None), FolderPlace)


@pytest.mark.parametrize(
    "text", ["", "  ", "redis://x", "mysql://u:secret@h/db", "sqlite://", "sqlite:", "$NO_SUCH"]
)
def test_a_text_that_names_no_store_is_refused_without_showing_what_may_be_secret(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        named_place(text, Path(), "store", lambda: None)
    assert "secret" not in str(caught.value)


def test_a_store_that_cannot_be_had_is_told_in_one_line(look: Rulvar, project: Path) -> None:
    (project / "text.db").write_text("no database")
    sqlite3.connect(project / "foreign.db").execute("CREATE TABLE t (x)").connection.close()
    (project / "bad.py").write_text(
        "x = 1\ndef fails():\n    raise RuntimeError('no key')\ndef three():\n    return 3\n"
    )
    before = (project / "foreign.db").read_bytes()
    for store, named in {
        "nope.db": "no such file",
        "text.db": "not a SQLite file",
        "foreign.db": "none that holds runs",
        "bad.py:nope": "has no 'nope'",
        "bad.py:fails": "making the store failed: RuntimeError: no key",
        "bad.py:three": "expected a store",
        "$NO_SUCH_VARIABLE": "the environment has no NO_SUCH_VARIABLE",
    }.items():
        for words in (["runs", "ls"], ["inspect", "r1"], ["answer", "r1"]):
            done = look(*words, "--store", store)
            assert done.code == 2
            assert named in done.err
            assert len(done.err.splitlines()) == 1
    assert (project / "foreign.db").read_bytes() == before
    assert not (project / "nope.db").exists()


def test_a_database_that_does_not_answer_is_told_without_its_password(look: Rulvar) -> None:
    pytest.importorskip("psycopg")
    done = look("runs", "ls", "--store", "postgresql://me:hunter2@127.0.0.1:1/db")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "hunter2" not in done.err


def test_a_damaged_row_is_listed_and_audited_beside_the_others(
    rulvar: Rulvar, look: Rulvar, project: Path
) -> None:
    for run_id in ("good", "bad"):
        assert rulvar("run", "flows.py:hello", "--run-id", run_id, "--store", "runs.db").code == 0
    with sqlite3.connect(project / "runs.db") as connection:
        connection.execute("UPDATE rulvar_metas SET meta = ? WHERE run_id = 'bad'", (b"{",))
    connection.close()
    listed = look("runs", "ls", "--store", "runs.db", "--json").json
    assert [run["runId"] for run in listed["runs"]] == ["good"]
    assert [problem["runId"] for problem in listed["problems"]] == ["bad"]
    audited = look("runs", "audit", "--store", "runs.db", "--repair")
    assert "unreadable-meta" in audited.out
    assert look("runs", "audit", "--store", "runs.db").code == 0


def test_a_run_without_a_meta_row_is_listed(rulvar: Rulvar, look: Rulvar, project: Path) -> None:
    assert rulvar("run", "flows.py:hello", "--run-id", "r1", "--store", "runs.db").code == 0
    with sqlite3.connect(project / "runs.db") as connection:
        connection.execute("DELETE FROM rulvar_metas")
    connection.close()
    [problem] = look("runs", "ls", "--store", "runs.db", "--json").json["problems"]
    assert problem == {"runId": "r1", "message": "there is a journal and no meta row"}
    assert "no-meta" in look("runs", "audit", "--store", "runs.db").out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_told(look: Rulvar, project: Path) -> None:
    (project / "runs.db").touch(0o400)
    assert "may not write" in look("run", "flows.py:hello", "--store", "runs.db").err


def test_a_store_is_called_by_its_place_without_passwords() -> None:
    class Database:
        def __init__(self, dsn: str) -> None:
            self.dsn = dsn

    assert name_of_store(Database("postgresql://u:p@h:1/db?sslpassword=x&sslmode=require")) == (
        "postgresql://u@h:1/db?sslmode=require"
    )
    assert name_of_store(Database("host=h password=p")) == "PostgreSQL"
    assert name_of_store(object()) == "object"


@pytest.mark.parametrize("name", [".rulvar", "runs.db"])
def test_a_store_that_may_not_be_written_to_can_be_looked_at(
    look: Any, rulvar: Any, project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--store", name)
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1", *at)
    before = sorted(project.rglob("*"))
    monkeypatch.setattr("os.access", lambda path, mode, **more: mode != os.W_OK)
    assert "r1" in look("runs", "ls", *at).out
    for words in (("inspect", "r1"), ("runs", "r1"), ("runs", "audit"), ("diff", "r1", "r1")):
        done = look(*words, *at)
        assert done.code == 0, done.err
    assert sorted(project.rglob("*")) == before
    if name == "runs.db":
        refused = look("answer", "r1", "gate", '{"approved": true}', *at)
        assert refused.code == 2
        assert "make the file and its folder writable" in refused.err
