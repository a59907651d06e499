"""A database of its own for each test of workers."""

from postgres_server import postgres  # noqa: F401
from worker_database import database  # noqa: F401
