"""Stored bytes that only those who have the keys can read: a store around any other store.

Envelope encryption: every run has data keys of its own, each wrapped by the key provider's master key and
kept, wrapped, with every record. Entries, meta rows and blobs are sealed with AES-256-GCM and bound to
their place (run, seq, reference), so they cannot be swapped unnoticed. In the clear stay run ids, seqs,
status, segments, times of change, and the names and sizes of things.
"""

from __future__ import annotations

import base64
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.contracts.ports.keys import KeyProvider, WrappedKey
from rulvar.contracts.ports.lease import Lease
from rulvar.contracts.ports.store import RunMeta
from rulvar.errors import ConfigError, StoreError
from rulvar.stores.meta_row import decode_meta, encode_meta

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["LocalKeys", "Seal", "SealedStore", "SealedTranscripts"]

_MAGIC = b"RLVS\x01"
_NONCE = 12
_CLEAR = ("runId", "status", "segments", "updatedAt")
_KEYS_KEPT = 1024
SEALED_NAME = "(sealed: open the store with SealedStore and its keys)"


class LocalKeys:
    """Master keys that the caller holds: 32 bytes each, by name.

    Args:
        keys: name to key. Old ones stay here for as long as something they sealed is kept.
        active: the one that wraps new data keys; the last one unless given.

    Raises:
        ConfigError: a key is not 32 bytes, or ``active`` is not among them.
    """

    def __init__(self, keys: Mapping[str, bytes], *, active: str | None = None) -> None:
        for name, key in keys.items():
            if not isinstance(key, bytes) or len(key) != 32:
                raise ConfigError(f"keys[{name!r}]: expected 32 bytes", data={"field": "keys"})
        if not keys or (active is not None and active not in keys):
            raise ConfigError(f"active={active!r}: expected one of the keys' names", data={"field": "active"})
        self._ciphers = {name: _cipher(key) for name, key in keys.items()}
        self._active = list(keys)[-1] if active is None else active

    async def wrap(self, data_key: bytes) -> WrappedKey:
        """Wrap a data key with the active master key."""
        nonce = os.urandom(_NONCE)
        sealed = self._ciphers[self._active].encrypt(nonce, data_key, self._active.encode("utf-8"))
        return WrappedKey(self._active, nonce + sealed)

    async def unwrap(self, wrapped: WrappedKey) -> bytes:
        """Return a data key."""
        cipher = self._ciphers.get(wrapped.key_id)
        if cipher is None:
            raise _unreadable(f"the master key {wrapped.key_id!r} is not among those that were given")
        return _open(cipher, wrapped.data, wrapped.key_id.encode("utf-8"))


class Seal:
    """Seals bytes and opens them again.

    Args:
        keys: wraps and unwraps data keys; asked once for each of them.
        reads_plain: whether bytes that were stored before they were sealed are read as they are.
    """

    def __init__(self, keys: KeyProvider, *, reads_plain: bool = False) -> None:
        self.reads_plain = reads_plain
        self._keys = keys
        self._writing: OrderedDict[str, tuple[bytes, AESGCM]] = OrderedDict()
        self._reading: OrderedDict[bytes, AESGCM] = OrderedDict()

    async def close(self, run_id: str, data: bytes, place: str) -> bytes:
        """Seal bytes of a run for a place; the same bytes never look the same twice."""
        header, cipher = await self._key_of(run_id)
        nonce = os.urandom(_NONCE)
        return header + nonce + cipher.encrypt(nonce, data, place.encode("utf-8"))

    async def open(self, data: bytes, place: str) -> bytes:
        """Open sealed bytes.

        Raises:
            StoreError: they are not sealed, were sealed for another place, or the key does not fit.
        """
        if not data.startswith(_MAGIC):
            if self.reads_plain:
                return data
            raise _unreadable(f"{place} is not sealed; SealedStore(..., reads_plain=True) reads older data")
        try:
            header, rest = _split(data)
        except (IndexError, UnicodeDecodeError):
            raise _unreadable(f"{place} is cut off") from None
        cipher = self._reading.get(header)
        if cipher is None:
            cipher = _cipher(await self._unwrapped(header, place))
            _keep(self._reading, header, cipher)
        return _open(cipher, rest, place.encode("utf-8"))

    async def _unwrapped(self, header: bytes, place: str) -> bytes:
        try:
            return await self._keys.unwrap(_wrapped(header))
        except StoreError as error:
            raise StoreError(
                f"{place}: {error.message}", data=error.data, retryable=error.retryable
            ) from error

    async def _key_of(self, run_id: str) -> tuple[bytes, AESGCM]:
        known = self._writing.get(run_id)
        if known is None:
            data_key = os.urandom(32)
            wrapped = await self._keys.wrap(data_key)
            known = _header(wrapped), _cipher(data_key)
            _keep(self._writing, run_id, known)
            _keep(self._reading, known[0], known[1])
        return known


class SealedStore:
    """Keeps runs in another store, sealed.

    Args:
        inner: the store that keeps the bytes; any of ours or yours.
        keys: where master keys live.
        reads_plain: whether runs that were stored before they were sealed can be read.

    Raises:
        ConfigError: the extra ``encryption`` is not installed.
    """

    immediate = False

    def __init__(self, inner: Any, keys: KeyProvider, *, reads_plain: bool = False) -> None:
        _require_cryptography()
        self.inner = inner
        self.seal = Seal(keys, reads_plain=reads_plain)
        beside = getattr(inner, "transcripts", None)
        if beside is not None:
            self.transcripts = SealedTranscripts(beside, self.seal)

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a run's entries; raises StoreError when one cannot be opened."""
        return [await self._opened(run_id, entry) for entry in await self.inner.load(run_id)]

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        """Store entries, sealed."""
        sealed = [await self._closed(run_id, entry) for entry in entries]
        await self.inner.append(run_id, sealed, **_with(lease))

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row."""
        meta = await self.inner.load_meta(run_id)
        return None if meta is None else await self._opened_meta(meta, run_id)

    async def save_meta(self, run_id: str, meta: RunMeta, *, lease: Lease | None = None) -> None:
        """Replace a run's meta row, sealed but for what listing needs."""
        sealed = await self.seal.close(run_id, encode_meta(meta), f"meta {run_id}")
        clear = {name: meta[name] for name in _CLEAR if name in meta}
        # no workflow has this name: whoever opens the store without its seal is refused, and does not pay again
        clear["workflowName"] = SEALED_NAME
        row = {**clear, "sealed": base64.b64encode(sealed).decode("ascii")}
        await self.inner.save_meta(run_id, row, **_with(lease))

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id."""
        rows = await self.inner.list_runs()
        return [await self._opened_meta(row, str(row.get("runId"))) for row in rows]

    async def delete(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget a run."""
        await self.inner.delete(run_id, **_with(lease))

    def __getattr__(self, name: str) -> Any:
        # leases and closing are the inner store's, when it has them
        if name in (
            "acquire_lease",
            "renew_lease",
            "release_lease",
            "lease_of",
            "leases_expire",
            "orphaned_runs",
            "run_ids",
            "close",
        ):
            return getattr(self.inner, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    async def _closed(self, run_id: str, entry: JournalEntry) -> JournalEntry:
        sealed = await self.seal.close(run_id, entry.line, f"entry {run_id} {entry.seq}")
        line = orjson.dumps({"seq": entry.seq, "sealed": base64.b64encode(sealed).decode("ascii")})
        return JournalEntry(seq=entry.seq, line=line)

    async def _opened(self, run_id: str, entry: JournalEntry) -> JournalEntry:
        place = f"entry {run_id} {entry.seq}"
        sealed = _sealed_field(decode_json(entry.line), place)
        if sealed is None:
            return decode_entry(await self.seal.open(entry.line, place))
        return decode_entry(await self.seal.open(sealed, place))

    async def _opened_meta(self, row: RunMeta, run_id: str) -> RunMeta:
        place = f"meta {run_id}"
        sealed = _sealed_field(row, place)
        if sealed is None:
            await self.seal.open(b"", place)  # refused, unless plain rows are read
            return row
        return decode_meta(await self.seal.open(sealed, place), f"run {run_id}", run_id)


class SealedTranscripts:
    """Keeps blobs in another transcript store, sealed."""

    def __init__(self, inner: Any, seal: Seal) -> None:
        self.inner = inner
        self.seal = seal

    async def put(self, ref: str, data: bytes, *, lease: Lease | None = None) -> None:
        """Store a blob, sealed."""
        sealed = await self.seal.close(ref.partition("/")[0], data, f"blob {ref}")
        await self.inner.put(ref, sealed, **_with(lease))

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None; raises StoreError when it cannot be opened."""
        data = await self.inner.get(ref)
        return None if data is None else await self.seal.open(data, f"blob {ref}")

    async def refs(self, run_id: str) -> list[str]:
        """Return the references of a run's blobs."""
        found: list[str] = await self.inner.refs(run_id)
        return found

    async def delete_run(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget every blob of a run."""
        await self.inner.delete_run(run_id, **_with(lease))


def _with(lease: Lease | None) -> dict[str, Any]:
    return {} if lease is None else {"lease": lease}


def _sealed_field(wire: Any, place: str) -> bytes | None:
    text = wire.get("sealed") if isinstance(wire, dict) else None
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _unreadable(f"{place} is not base64") from None


def _header(wrapped: WrappedKey) -> bytes:
    name = wrapped.key_id.encode("utf-8")
    if len(name) > 255 or len(wrapped.data) > 0xFFFF:
        raise ConfigError("a wrapped key: key_id has at most 255 bytes, data at most 65,535")
    return _MAGIC + bytes([len(name)]) + name + len(wrapped.data).to_bytes(2, "big") + wrapped.data


def _split(data: bytes) -> tuple[bytes, bytes]:
    end = len(_MAGIC) + 1 + data[len(_MAGIC)]
    length = int.from_bytes(data[end : end + 2], "big")
    stop = end + 2 + length
    if len(data) < stop + _NONCE:
        raise IndexError
    return data[:stop], data[stop:]


def _wrapped(header: bytes) -> WrappedKey:
    start = len(_MAGIC) + 1
    end = start + header[len(_MAGIC)]
    return WrappedKey(header[start:end].decode("utf-8", "replace"), header[end + 2 :])


def _open(cipher: AESGCM, data: bytes, place: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(data[:_NONCE], data[_NONCE:], place)
    except (InvalidTag, ValueError):
        raise _unreadable(
            f"{place.decode('utf-8', 'replace')} was changed, or the key does not fit"
        ) from None


def _cipher(key: bytes) -> AESGCM:
    _require_cryptography()
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    if len(cache) > _KEYS_KEPT:
        cache.popitem(last=False)


def _unreadable(why: str) -> StoreError:
    return StoreError(f"a sealed record cannot be opened: {why}", data={"reason": "corrupt"})


def _require_cryptography() -> None:
    try:
        import cryptography
    except ImportError:
        raise ConfigError(
            "sealing needs the extra 'encryption': pip install 'rulvar[encryption]'",
            data={"extra": "encryption"},
        ) from None
    del cryptography
