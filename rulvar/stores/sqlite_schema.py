"""The tables of a SQLite store, and how older ones are brought up to date."""

from __future__ import annotations

import sqlite3

from rulvar.errors import ConfigError

__all__ = ["migrate"]

_MIGRATIONS = (
    """
    CREATE TABLE rulvar_entries (
        run_id TEXT NOT NULL, seq INTEGER NOT NULL, line BLOB NOT NULL, PRIMARY KEY (run_id, seq)
    );
    CREATE TABLE rulvar_metas (run_id TEXT PRIMARY KEY NOT NULL, status TEXT NOT NULL, meta BLOB NOT NULL);
    CREATE TABLE rulvar_blobs (
        run_id TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (run_id, name)
    );
    CREATE TABLE rulvar_leases (
        run_id TEXT PRIMARY KEY NOT NULL, epoch INTEGER NOT NULL, owner TEXT NOT NULL,
        process TEXT NOT NULL, boot TEXT NOT NULL, expires REAL NOT NULL, held INTEGER NOT NULL
    );
    """,
)


def migrate(connection: sqlite3.Connection, name: str) -> None:
    """Bring a database to the newest schema, in one transaction.

    Raises:
        ConfigError: a newer release has written the database, or somebody else uses our tables' names.
    """
    if _version(connection, name) == len(_MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, name)
        if version > len(_MIGRATIONS):
            raise ConfigError(
                f"{name}: its schema has version {version}, and this release knows {len(_MIGRATIONS)}; "
                "use a newer release",
                data={"file": name, "version": version},
            )
        if version == 0:
            connection.execute("CREATE TABLE IF NOT EXISTS rulvar_schema (version INTEGER NOT NULL)")
            connection.execute("INSERT INTO rulvar_schema VALUES (0)")
        for script in _MIGRATIONS[version:]:
            for statement in script.split(";"):
                _make(connection, statement, name)
        connection.execute("UPDATE rulvar_schema SET version = ?", (len(_MIGRATIONS),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _make(connection: sqlite3.Connection, statement: str, name: str) -> None:
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # what a disk refuses has codes of its own
            raise _not_ours(name, str(error)) from error
        raise


def _version(connection: sqlite3.Connection, name: str) -> int:
    columns = connection.execute("SELECT name FROM pragma_table_info('rulvar_schema')").fetchall()
    if not columns:
        return 0
    if columns != [("version",)]:
        raise _not_ours(name, "rulvar_schema has other columns")
    row = connection.execute("SELECT max(version) FROM rulvar_schema").fetchone()
    version = 0 if row[0] is None else row[0]
    if not isinstance(version, int) or version < 0:
        raise _not_ours(name, f"rulvar_schema says {version!r}")
    return version


def _not_ours(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name}: holds tables that are not rulvar's ({why}); choose another file",
        data={"field": "path", "file": name},
    )
