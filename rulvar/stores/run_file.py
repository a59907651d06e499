"""Runs that lie in files of their own: a journal, or an exported run."""

from __future__ import annotations

import os
from pathlib import Path

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError
from rulvar.stores.bundle import Bundle, decode_bundle
from rulvar.stores.journal_lines import read_journal_lines

__all__ = ["read_run_file"]


def read_run_file(path: str | os.PathLike[str]) -> Bundle:
    """Read a run from a journal file (``.jsonl``, with the meta row beside it, where there is one) or an exported run.

    Raises:
        ConfigError: there is no such file, or it is no run.
        JournalOrderViolation: the journal is damaged; names file and line.
    """
    file = Path(path)
    data = _bytes_of(file)
    if file.suffix != ".jsonl":
        return decode_bundle(data, str(file))
    entries = read_journal_lines(data, str(file)).entries
    run_id = check_run_id(file.name.removesuffix(".jsonl"))
    beside = file.with_name(f"{run_id}.meta.json")
    meta = {}
    if beside.is_file():
        try:
            meta = decode_json(_bytes_of(beside))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{beside}: not JSON: {error}", data={"file": str(beside)}) from None
    return Bundle(run_id, meta if isinstance(meta, dict) else {}, entries)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", data={"file": str(path)}) from None
    except ValueError as error:  # a name with a NUL in it
        raise ConfigError(f"{str(path)!r}: {error}", data={"file": str(path)}) from None
