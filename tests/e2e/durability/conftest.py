"""A PostgreSQL server for the durability tests."""

from postgres_server import postgres  # noqa: F401
