"""Where runs are kept: in memory, in files, in SQLite, in PostgreSQL.

A store's module is loaded when its name is first used, so that nobody pays for the others' drivers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rulvar.stores.jsonl import JsonlFileStore as JsonlFileStore
    from rulvar.stores.memory import InMemoryStore as InMemoryStore
    from rulvar.stores.memory import InMemoryTranscripts as InMemoryTranscripts
    from rulvar.stores.postgres import PostgresStore as PostgresStore
    from rulvar.stores.sqlite import SqliteStore as SqliteStore
    from rulvar.stores.transcripts import FileTranscriptStore as FileTranscriptStore

_HOMES = {
    "FileTranscriptStore": "rulvar.stores.transcripts",
    "InMemoryStore": "rulvar.stores.memory",
    "InMemoryTranscripts": "rulvar.stores.memory",
    "JsonlFileStore": "rulvar.stores.jsonl",
    "PostgresStore": "rulvar.stores.postgres",
    "SqliteStore": "rulvar.stores.sqlite",
}

__all__ = [
    "FileTranscriptStore",
    "InMemoryStore",
    "InMemoryTranscripts",
    "JsonlFileStore",
    "PostgresStore",
    "SqliteStore",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rulvar.stores' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
