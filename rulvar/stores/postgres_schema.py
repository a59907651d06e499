"""The tables of a PostgreSQL store, and how older ones are brought up to date."""

from __future__ import annotations

import re
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["VERSION", "migrate", "quoted_schema"]

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

_MIGRATIONS = (
    """
    CREATE TABLE {schema}.entries (
        run_id text COLLATE "C" NOT NULL,
        seq bigint NOT NULL,
        line bytea NOT NULL,
        PRIMARY KEY (run_id, seq)
    );
    CREATE TABLE {schema}.metas (
        run_id text COLLATE "C" PRIMARY KEY,
        status text NOT NULL,
        meta bytea NOT NULL
    );
    CREATE INDEX metas_running ON {schema}.metas (run_id) WHERE status = 'running';
    CREATE TABLE {schema}.blobs (
        run_id text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (run_id, name)
    );
    CREATE TABLE {schema}.leases (
        run_id text COLLATE "C" PRIMARY KEY,
        epoch bigint NOT NULL,
        owner text NOT NULL,
        token uuid NOT NULL,
        expires timestamptz NOT NULL,
        held boolean NOT NULL
    ) WITH (fillfactor = 50);
    """,
    """
    CREATE TABLE {schema}.limits (
        name text COLLATE "C" PRIMARY KEY,
        free_at timestamptz NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE {schema}.slots (
        name text COLLATE "C" NOT NULL,
        token uuid NOT NULL,
        expires timestamptz NOT NULL,
        PRIMARY KEY (name, token)
    );
    """,
)
VERSION = len(_MIGRATIONS)


def quoted_schema(name: str) -> str:
    """Return a schema's name as SQL takes it.

    Raises:
        ConfigError: not 1 to 63 characters of ``a-z 0-9 _``.
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        return f'"{name}"'
    raise ConfigError(
        f"schema={name!r}: use 1 to 63 characters of a-z 0-9 _, not starting with a digit",
        data={"field": "schema"},
    )


async def migrate(connection: Any, schema: str) -> None:
    """Bring a database to the newest schema, in one transaction; several processes may try at once.

    Args:
        connection: a psycopg connection in autocommit mode.
        schema: the PostgreSQL schema, checked and quoted by the caller.

    Raises:
        ConfigError: a newer release has written the schema, or somebody else uses it.
    """
    from psycopg import errors

    try:
        await _migrate(connection, schema)
    except (
        errors.DuplicateTable,
        errors.DuplicateObject,
        errors.UndefinedColumn,
        errors.UndefinedTable,
        errors.WrongObjectType,
        errors.NotNullViolation,
    ) as error:
        raise _not_ours(schema, str(error.diag.message_primary)) from error


async def _migrate(connection: Any, schema: str) -> None:
    if await _version(connection, schema) == VERSION:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('rulvar'), hashtext(%s))", (schema,))
        version = await _version(connection, schema)
        if version > VERSION:
            raise ConfigError(
                f"the schema {schema} has version {version}, and this release knows {VERSION}; use a newer release",
                data={"schema": schema, "version": version},
            )
        if version == 0:
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS {schema}.schema_version (version int NOT NULL)"
            )
            await connection.execute(f"INSERT INTO {schema}.schema_version VALUES (0)")
        for script in _MIGRATIONS[version:]:
            await connection.execute(script.format(schema=schema))
        await connection.execute(f"UPDATE {schema}.schema_version SET version = %s", (VERSION,))


async def _version(connection: Any, schema: str) -> int:
    # a scan of the catalogue: to_regclass() may remember that another session's tables did not exist
    known = await connection.execute(
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'schema_version'",
        (schema.strip('"'),),
    )
    if await known.fetchone() is None:
        return 0
    row = await (await connection.execute(f"SELECT version FROM {schema}.schema_version")).fetchone()
    if row is None:
        return 0
    if not isinstance(row[0], int):
        raise _not_ours(schema, f"schema_version says {row[0]!r}")
    return row[0]


def _not_ours(schema: str, why: str) -> ConfigError:
    return ConfigError(
        f"the schema {schema} holds tables that are not rulvar's ({why}); choose another one, schema='...'",
        data={"field": "schema", "schema": schema},
    )
