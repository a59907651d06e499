"""A PostgreSQL server for tests of stores."""

from postgres_server import postgres  # noqa: F401
