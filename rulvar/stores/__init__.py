"""Where runs are kept: in memory, in files, in SQLite, in PostgreSQL.

A store's module is loaded when its name is first used, so that nobody pays for the others' drivers.
"""

from typing import TYPE_CHECKING

from rulvar.lazy_names import lazy_names

if TYPE_CHECKING:
    from rulvar.stores.archive import export_runs as export_runs
    from rulvar.stores.archive import import_runs as import_runs
    from rulvar.stores.archive import read_archive as read_archive
    from rulvar.stores.jsonl import JsonlFileStore as JsonlFileStore
    from rulvar.stores.memory import InMemoryStore as InMemoryStore
    from rulvar.stores.memory import InMemoryTranscripts as InMemoryTranscripts
    from rulvar.stores.postgres import PostgresStore as PostgresStore
    from rulvar.stores.retention import delete_run as delete_run
    from rulvar.stores.retention import prune_runs as prune_runs
    from rulvar.stores.sealed import LocalKeys as LocalKeys
    from rulvar.stores.sealed import SealedStore as SealedStore
    from rulvar.stores.sqlite import SqliteStore as SqliteStore
    from rulvar.stores.transcripts import FileTranscriptStore as FileTranscriptStore

_HOMES = {
    "FileTranscriptStore": "rulvar.stores.transcripts",
    "InMemoryStore": "rulvar.stores.memory",
    "InMemoryTranscripts": "rulvar.stores.memory",
    "JsonlFileStore": "rulvar.stores.jsonl",
    "LocalKeys": "rulvar.stores.sealed",
    "PostgresStore": "rulvar.stores.postgres",
    "SealedStore": "rulvar.stores.sealed",
    "SqliteStore": "rulvar.stores.sqlite",
    "delete_run": "rulvar.stores.retention",
    "export_runs": "rulvar.stores.archive",
    "import_runs": "rulvar.stores.archive",
    "prune_runs": "rulvar.stores.retention",
    "read_archive": "rulvar.stores.archive",
}

__all__ = [
    "FileTranscriptStore",
    "InMemoryStore",
    "InMemoryTranscripts",
    "JsonlFileStore",
    "LocalKeys",
    "PostgresStore",
    "SealedStore",
    "SqliteStore",
    "delete_run",
    "export_runs",
    "import_runs",
    "prune_runs",
    "read_archive",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
