"""Where runs are kept: in memory, or in files."""

from rulvar.stores.jsonl import JsonlFileStore
from rulvar.stores.memory import InMemoryStore, InMemoryTranscripts
from rulvar.stores.transcripts import FileTranscriptStore

__all__ = ["FileTranscriptStore", "InMemoryStore", "InMemoryTranscripts", "JsonlFileStore"]
