"""Runs that lie in files of their own: a journal, or an exported run."""

from __future__ import annotations

import sys
from pathlib import Path

from rulvar.cli.bundle import Bundle, decode_bundle
from rulvar.contracts.canonical import decode_json
from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError
from rulvar.stores.journal_lines import read_journal_lines

__all__ = ["is_file", "read_bytes", "read_source"]


def is_file(name: str) -> bool:
    """Whether a run is named by a file: run ids hold no slash, and files of runs end in .json or .jsonl."""
    return "/" in name or "\\" in name or name.endswith((".json", ".jsonl"))


async def read_source(path: Path) -> Bundle:
    """Read a run from a journal file (with the meta row beside it, where there is one) or an exported run.

    Raises:
        ConfigError: there is no such file, or it is no run.
        JournalOrderViolation: the journal is damaged.
    """
    data = read_bytes(str(path))
    if path.suffix != ".jsonl":
        return decode_bundle(data, str(path))
    entries = read_journal_lines(data, str(path)).entries
    run_id = check_run_id(path.name.removesuffix(".jsonl"))
    beside = path.with_name(f"{run_id}.meta.json")
    meta = {}
    if beside.is_file():
        try:
            meta = decode_json(beside.read_bytes())
        except ValueError as error:
            raise ConfigError(f"{beside}: not JSON: {error}") from None
    return Bundle(run_id, meta if isinstance(meta, dict) else {}, entries)


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file; ``-`` is stdin.

    Raises:
        ConfigError: there is no such file, or it cannot be read.
    """
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}", data={"file": name}) from None
