"""Runs in one file: a ZIP of the files that a JsonlFileStore would keep, and a manifest of their digests.

Unpacked, the folder ``runs`` is a JsonlFileStore's. Importing never unpacks: names are matched against
the ones that the manifest's runs may have, and every byte is counted and checked before it is stored.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.store import JournalStore, RunMeta
from rulvar.contracts.ports.transcripts import TranscriptStore, split_ref
from rulvar.errors import ConfigError, RulvarError, RunNotFoundError
from rulvar.stores.file_writes import refusing
from rulvar.stores.journal_lines import portions, read_journal_lines
from rulvar.stores.meta_row import decode_meta, encode_meta
from rulvar.stores.refs import refs_of
from rulvar.stores.retention import holding, is_known

__all__ = ["ArchivedRun", "export_runs", "import_runs", "read_archive"]

_MANIFEST = "rulvar-archive.json"
_KIND = "rulvar-archive"
_MAX_BYTES = 1 << 30
_MAX_MEMBERS = 1_000_000
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ENCRYPTED = 0x1
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""What unpacking raises for bytes that are no archive; a seek to nowhere is an OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRun:
    """One run of an archive, checked."""

    run_id: str
    meta: RunMeta | None
    entries: list[JournalEntry]
    blobs: Mapping[str, bytes] = field(default_factory=dict)


async def export_runs(
    store: JournalStore,
    run_ids: Iterable[str],
    path: str | os.PathLike[str],
    *,
    transcripts: TranscriptStore | None = None,
) -> int:
    """Write runs to an archive, which appears when it is whole; return how many there are.

    Raises:
        RunNotFoundError: the store has no such run; no archive is written then.
        StoreError: the file cannot be written.
    """
    target = Path(path)
    draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    blobs: Any = transcripts or getattr(store, "transcripts", None)
    manifest: dict[str, Any] = {"v": 1, "kind": _KIND, "runs": []}
    with refusing(target, "cannot be written"):
        try:
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
                for run_id in run_ids:
                    digests: dict[str, str] = {}
                    async for name, data in _files_of(store, blobs, check_run_id(run_id)):
                        archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
                        digests[name] = sha256(data).hexdigest()
                    manifest["runs"].append({"runId": run_id, "files": digests})
                text = json.dumps(manifest, indent=1)
                archive.writestr(zipfile.ZipInfo(_MANIFEST, _EPOCH), text, zipfile.ZIP_DEFLATED)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    return len(manifest["runs"])


async def import_runs(
    store: JournalStore,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    transcripts: TranscriptStore | None = None,
    max_bytes: int = _MAX_BYTES,
) -> list[str]:
    """Store the runs of an archive and return their ids; the whole archive is checked first.

    Args:
        overwrite: whether a run that the store has already is replaced instead of refused.
        max_bytes: an archive that holds more is refused.

    Raises:
        ConfigError: not a sound archive, or a run exists already; nothing is stored then.
        LeaseHeldError: somebody drives a run that would be replaced.
    """
    runs = list(read_archive(path, max_bytes=max_bytes))
    for run in runs:
        if not overwrite and await is_known(store, run.run_id):
            raise _exists(run.run_id)
    for run in runs:
        await _import(store, run, transcripts, overwrite)
    return [run.run_id for run in runs]


def read_archive(path: str | os.PathLike[str], *, max_bytes: int = _MAX_BYTES) -> Iterator[ArchivedRun]:
    """Yield the runs of an archive, each checked.

    Raises:
        ConfigError: not a sound archive; names the member.
        StoreError: the file cannot be read.
    """
    name = os.fspath(path)
    with refusing(Path(path), "cannot be read"):
        file = open(path, "rb")  # noqa: SIM115 - closed below; only opening it is the disk's fault
    with file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_members(archive, name, max_bytes)
                manifest = _manifest(archive, name)
                _check_names(archive, manifest, name)
                for run_id, digests in manifest.items():
                    yield _run(archive, run_id, digests, name)
        except _BROKEN as error:
            raise _unsound(name, str(error)) from None


# -- writing ---------------------------------------------------------------------------------------


async def _files_of(store: JournalStore, blobs: Any, run_id: str) -> AsyncIterator[tuple[str, bytes]]:
    entries = await store.load(run_id)
    meta = await store.load_meta(run_id)
    if meta is None and not entries:
        raise RunNotFoundError(f"no run {run_id!r} in the store", data={"runId": run_id})
    yield f"runs/{run_id}.jsonl", b"".join(entry.line + b"\n" for entry in entries)
    if meta is not None:
        yield f"runs/{run_id}.meta.json", encode_meta(meta, indent=True)
    if blobs is None:
        return
    for ref in await refs_of(blobs, run_id, entries):
        data = await blobs.get(ref)
        if data is not None:
            yield f"runs/transcripts/{ref}.bin", data


# -- reading ---------------------------------------------------------------------------------------


def _check_members(archive: zipfile.ZipFile, name: str, max_bytes: int) -> None:
    members = archive.infolist()
    if len(members) > _MAX_MEMBERS:
        raise _unsound(name, f"it has more than {_MAX_MEMBERS} members")
    if sum(member.file_size for member in members) > max_bytes:
        raise _unsound(name, f"it unpacks to more than {max_bytes} bytes (max_bytes)")
    seen: set[str] = set()
    for member in members:
        if member.filename in seen:
            raise _unsound(name, f"{member.filename!r} is there twice")
        seen.add(member.filename)
        if member.flag_bits & _ENCRYPTED or member.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            raise _unsound(name, f"{member.filename!r} is encrypted, or packed in an unknown way")


def _manifest(archive: zipfile.ZipFile, name: str) -> dict[str, dict[str, str]]:
    try:
        manifest = decode_json(archive.read(_MANIFEST))
    except KeyError:
        raise _unsound(name, f"{_MANIFEST} is missing") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != _KIND or manifest.get("v") != 1:
        raise _unsound(name, f"{_MANIFEST} is no manifest of version 1")
    runs: dict[str, dict[str, str]] = {}
    for index, run in enumerate(_list(manifest.get("runs"))):
        files = run.get("files") if isinstance(run, dict) else None
        if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
            raise _unsound(name, f"{_MANIFEST}, runs[{index}]: files is no object of digests")
        run_id = check_run_id(run.get("runId"))
        if run_id in runs:
            raise _unsound(name, f"{_MANIFEST}: run {run_id!r} is there twice")
        for file in files:
            _check_name(file, run_id, name)
        runs[run_id] = files
    return runs


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check_name(file: str, run_id: str, name: str) -> None:
    if file in (f"runs/{run_id}.jsonl", f"runs/{run_id}.meta.json"):
        return
    ref = file.removeprefix("runs/transcripts/").removesuffix(".bin")
    if file != f"runs/transcripts/{ref}.bin" or split_ref(ref)[0] != run_id:
        raise _unsound(name, f"{file!r} is no file of run {run_id!r}")


def _check_names(archive: zipfile.ZipFile, manifest: dict[str, dict[str, str]], name: str) -> None:
    listed = {file for files in manifest.values() for file in files}
    there = {member.filename for member in archive.infolist()} - {_MANIFEST}
    for file in sorted(listed ^ there):
        raise _unsound(name, f"{file!r} is {'missing' if file in listed else 'not in the manifest'}")


def _run(archive: zipfile.ZipFile, run_id: str, digests: Mapping[str, str], name: str) -> ArchivedRun:
    files: dict[str, bytes] = {}
    for file, digest in digests.items():
        data = archive.read(file)
        if sha256(data).hexdigest() != digest:
            raise _unsound(name, f"{file!r} has changed since it was exported")
        files[file] = data
    journal = files.pop(f"runs/{run_id}.jsonl", b"")
    try:
        lines = read_journal_lines(journal, f"{name}, run {run_id}")
    except RulvarError as error:
        raise _unsound(name, error.message) from None
    if lines.torn:
        raise _unsound(name, f"the journal of run {run_id!r} is torn")
    raw = files.pop(f"runs/{run_id}.meta.json", None)
    return ArchivedRun(
        run_id=run_id,
        meta=None if raw is None else decode_meta(raw, f"{name}, run {run_id}", run_id),
        entries=lines.entries,
        blobs={
            file.removeprefix("runs/transcripts/").removesuffix(".bin"): data for file, data in files.items()
        },
    )


# -- storing ---------------------------------------------------------------------------------------


async def _import(
    store: JournalStore, run: ArchivedRun, transcripts: TranscriptStore | None, overwrite: bool
) -> None:
    blobs: Any = transcripts or getattr(store, "transcripts", None)
    fenced = blobs is getattr(store, "transcripts", None)
    async with holding(store, run.run_id, "import") as lease:
        if await is_known(store, run.run_id):
            if not overwrite:
                raise _exists(run.run_id)
            await store.delete(run.run_id, **lease)
        for ref, data in run.blobs.items():
            await blobs.put(ref, data, **(lease if fenced else {}))
        for part in portions(run.entries):
            await store.append(run.run_id, part, **lease)
        if run.meta is not None:  # last: a run without its meta row is not listed
            await store.save_meta(run.run_id, run.meta, **lease)


def _exists(run_id: str) -> ConfigError:
    return ConfigError(f"run {run_id!r} is in the store already; overwrite it on purpose, or delete it")


def _unsound(name: str, why: str) -> ConfigError:
    return ConfigError(f"{name}: no sound archive: {why}", data={"file": name})
