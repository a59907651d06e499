"""Where runs are kept, as a person names it: a folder, a SQLite file, a PostgreSQL database, an object.

==============================  =======================================================================
``.rulvar``                     a folder
``runs.db``, ``sqlite:///x``    a SQLite file: by its ending (.db, .sqlite, .sqlite3), its content or URL
``postgresql://host/db``        a database; ``?schema=name`` names the schema that holds the tables
``module:name``, ``x.py:name``  a store, or a function that makes one; code of the project is run for it
``$NAME``                       one of these, in an environment variable
==============================  =======================================================================
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from rulvar.cli.references import load_reference
from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import JournalStore
    from rulvar.contracts.ports.transcripts import TranscriptStore
    from rulvar.engine.engine import Engine

__all__ = [
    "FolderPlace",
    "Place",
    "Runs",
    "close_store",
    "name_of_store",
    "named_place",
    "transcripts_beside",
]

_KINDS = "a folder, a SQLite file (runs.db or sqlite:///PATH), postgresql://..., or module:name"
_ENDINGS = (".db", ".sqlite", ".sqlite3")
_MAGIC = b"SQLite format 3\x00"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PATIENCE_S = 3.0
"""A person who has mistyped a host is not kept waiting for long."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A store that is open, and what belongs to it.

    Attributes:
        name: what it is called in messages; without passwords.
        engine: the project's engine, when it was made because it is what names the store.
    """

    journal: JournalStore
    transcripts: TranscriptStore
    name: str
    engine: Engine | None = None


class Place(Protocol):
    """A store that is not open yet."""

    def open_existing(self, *, repair: bool) -> JournalStore:
        """Open it for runs that are there.

        Raises:
            ConfigError: there is nothing, or something else.
        """

    def open_to_write(self) -> JournalStore:
        """Open it for a run that may be the first one.

        Raises:
            ConfigError: nothing can be made there.
        """


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A folder of journals.

    Attributes:
        hint: what to do when it is not there.
    """

    path: Path
    hint: str = ""

    def open_existing(self, *, repair: bool) -> JournalStore:
        """Open the folder."""
        if not self.path.is_dir():
            if self.path.exists():
                problem = "neither a folder nor a SQLite file; pass --store"
            else:
                problem = "no such folder" + (f"; {self.hint}" if self.hint else "")
            raise _refused(self.path, problem)
        return self._open(repair)

    def open_to_write(self) -> JournalStore:
        """Open the folder; it is made with the first run."""
        _check_writable(self.path)
        return self._open(repair=True)

    def _open(self, repair: bool) -> JournalStore:
        from rulvar.stores.jsonl import JsonlFileStore

        return JsonlFileStore(self.path, repair_on_load=repair)


@dataclass(frozen=True, slots=True)
class SqlitePlace:
    """A SQLite file."""

    path: Path

    def open_existing(self, *, repair: bool) -> JournalStore:
        """Open the file, after a look at whether it holds runs: nothing is made in a stranger's database."""
        import sqlite3

        from rulvar.stores.sqlite_connection import still_uri

        if not self.path.is_file():
            raise _refused(self.path, "is a folder" if self.path.is_dir() else "no such file")
        try:
            with self.path.open("rb") as file:
                magic = file.read(len(_MAGIC))
        except OSError as error:
            raise _refused(self.path, f"cannot be read: {error.strerror}") from None
        if magic != _MAGIC:
            raise _refused(self.path, "not a SQLite file")
        uri = still_uri(self.path) or f"{self.path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
        try:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'rulvar_schema'").fetchone()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _refused(self.path, f"cannot be read: {error}") from None
        finally:
            connection.close()
        if found is None:
            raise _refused(self.path, "a SQLite file, but none that holds runs")
        return self._open()

    def open_to_write(self) -> JournalStore:
        """Open the file; it is made with the first run."""
        if self.path.exists():
            if not self.path.is_file():
                raise _refused(self.path, "is a folder, not a SQLite file")
            if not os.access(self.path, os.W_OK):
                raise _refused(self.path, "this user may not write to it; pass --store")
        _check_writable(self.path.parent)
        return self._open()

    def _open(self) -> JournalStore:
        from rulvar.stores.sqlite import SqliteStore

        return SqliteStore(self.path)


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """A database, and the schema in it."""

    dsn: str
    schema: str | None

    def open_existing(self, *, repair: bool) -> JournalStore:
        """Return the store; it connects when it is first used."""
        from rulvar.stores.postgres import PostgresStore

        options: dict[str, Any] = {} if self.schema is None else {"schema": self.schema}
        return PostgresStore(self.dsn, patience_s=_PATIENCE_S, **options)

    def open_to_write(self) -> JournalStore:
        """Return the store; its tables are made when it is first used."""
        return self.open_existing(repair=True)


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A store that code of the project makes."""

    reference: str
    root: Path
    what: str
    check: Callable[[], None]

    def open_existing(self, *, repair: bool) -> JournalStore:
        """Import the code, and have the store made."""
        from rulvar.engine.options import check_journal

        self.check()
        made = load_reference(self.reference, self.root, self.what)
        if not callable(getattr(made, "load", None)) or isinstance(made, type):
            try:
                made = made()
            except ConfigError as error:
                raise ConfigError(f"{self.what}: {error.message}", data=error.data) from None
            except Exception as error:
                problem = f"making the store failed: {type(error).__name__}: {error}"
                raise ConfigError(
                    f"{self.what}: {self.reference}: {problem}", data={"field": self.what}
                ) from error
        try:
            return check_journal(made)
        except ConfigError:
            raise ConfigError(
                f"{self.what}: {self.reference}: expected a store, or a function that returns one, "
                f"got {type(made).__name__}",
                data={"field": self.what},
            ) from None

    def open_to_write(self) -> JournalStore:
        """Import the code, and have the store made."""
        return self.open_existing(repair=True)


def named_place(text: str, root: Path, what: str, check: Callable[[], None]) -> Place:
    """Return the place that a text names.

    Args:
        root: where relative paths and modules are looked for.
        what: where the text stands, for messages.
        check: called before code of the project is run; may refuse it.

    Raises:
        ConfigError: the text names no store; says what does.
    """
    if variable := _VARIABLE.fullmatch(text.strip()):
        name = variable[1] or variable[2]
        value = os.environ.get(name, "").strip()
        if not value:
            raise ConfigError(f"{what}: the environment has no {name}", data={"field": what})
        text, what = value, f"{what}: {name}"
    text = text.strip()
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() in ("postgresql", "postgres"):
        return _database(text, what)
    if text.startswith("sqlite:"):
        return SqlitePlace(root / os.path.expanduser(_sqlite_path(text, what)))
    if not text or scheme is not None:
        shown = f"{scheme[1]}://..." if scheme is not None else text
        raise ConfigError(f"{what}: {shown!r}: expected {_KINDS}", data={"field": what})
    if ":" in os.path.splitdrive(text)[1]:
        return ObjectPlace(text, root, what, check)
    path = root / os.path.expanduser(text)
    is_file = path.is_file() and (path.suffix in _ENDINGS or _begins_as_sqlite(path))
    if is_file or (path.suffix in _ENDINGS and not path.is_dir()):
        return SqlitePlace(path)
    return FolderPlace(path)


def _sqlite_path(text: str, what: str) -> str:
    rest = text.removeprefix("sqlite:")
    path = rest.removeprefix("///") if rest.startswith("///") else rest
    if not path or path.startswith("//") or path == ":memory:":
        raise ConfigError(f"{what}: {text!r}: expected sqlite:///PATH", data={"field": what})
    return path


def _database(text: str, what: str) -> PostgresPlace:
    try:
        url = urlsplit(text)
        options = parse_qsl(url.query, keep_blank_values=True)
    except ValueError as error:
        raise ConfigError(f"{what}: no URL of a database: {error}", data={"field": what}) from None
    schema = next((value for name, value in options if name == "schema"), None)
    kept = urlencode([(name, value) for name, value in options if name != "schema"])
    return PostgresPlace(text if schema is None else urlunsplit(url._replace(query=kept)), schema)


def _begins_as_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _check_writable(path: Path) -> None:
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not existing.is_dir():
        raise _refused(path, f"{existing} is a file; a store is a folder, or a SQLite file (runs.db)")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _refused(path, f"this user may not write in {existing}; pass --store")


def _refused(path: Path, problem: str) -> ConfigError:
    return ConfigError(f"store {path}: {problem}", data={"field": "store", "file": str(path)})


def name_of_store(store: Any) -> str:
    """Return what a store is called in messages: its folder or file, its database without passwords."""
    place = getattr(store, "directory", None) or getattr(store, "path", None)
    if isinstance(place, (str, os.PathLike)):
        return os.fspath(place)
    dsn = getattr(store, "dsn", None)
    if not isinstance(dsn, str):
        inner = getattr(store, "inner", None)  # one around another store
        return type(store).__name__ if inner is None else name_of_store(inner)
    if _SCHEME.match(dsn) is None:
        return "PostgreSQL"  # keywords, a password perhaps among them
    url = urlsplit(dsn)
    user, at, host = url.netloc.rpartition("@")
    kept = [(name, value) for name, value in parse_qsl(url.query) if "password" not in name]
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return urlunsplit(url._replace(netloc=netloc, query=urlencode(kept)))


def transcripts_beside(store: Any) -> TranscriptStore:
    """Return where a store keeps transcripts."""
    beside: TranscriptStore | None = getattr(store, "transcripts", None)
    if beside is not None:
        return beside
    from rulvar.stores.memory import InMemoryTranscripts

    return InMemoryTranscripts()


async def close_store(store: Any) -> None:
    """Close a store that can be closed."""
    close = getattr(store, "close", None)
    if callable(close):
        closing = close()
        if hasattr(closing, "__await__"):
            await closing
