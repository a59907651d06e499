"""Databases of their own for tests of workers: a queue's tables belong to a database, not to a schema."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from postgres_server import PostgresServer, postgres  # noqa: F401


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:  # noqa: F811
    """The connection string of an empty database."""
    name = f"d{uuid.uuid4().hex}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres.dsn.replace("/postgres", f"/{name}")
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
