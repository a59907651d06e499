"""The bytes of a meta row."""

from __future__ import annotations

import orjson

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.ports.store import RunMeta
from rulvar.errors import ConfigError

__all__ = ["column_text", "decode_meta", "encode_meta"]


def column_text(text: object) -> str:
    """Return a text as every database takes it; what it cannot hold (a lone surrogate, a NUL) is replaced."""
    return str(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "?")


def encode_meta(meta: RunMeta, *, indent: bool = False) -> bytes:
    """Return the JSON bytes of a meta row; ``indent`` is for people who read files."""
    try:
        return orjson.dumps(meta, option=orjson.OPT_INDENT_2 if indent else None)
    except TypeError:
        return encode_json(meta)  # a lone surrogate


def decode_meta(data: bytes, where: str, run_id: str) -> RunMeta:
    """Read the meta row that lies in a run's place; a row that was copied there from another run is this run's.

    Raises:
        ConfigError: not a JSON object, or of a run whose name differs by case only; names where it is.
    """
    try:
        meta = decode_json(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{where}: not JSON ({error}); remove it, and the next resume writes it anew"
        ) from None
    if not isinstance(meta, dict):
        raise ConfigError(f"{where}: expected an object, got {type(meta).__name__}")
    named = meta.get("runId", run_id)
    if named == run_id:
        return meta
    if isinstance(named, str) and named.lower() == run_id.lower():
        raise ConfigError(
            f"{where}: is of run {named!r}, and this file system does not tell it from {run_id!r}; "
            "choose another run id",
            data={"file": where, "field": "runId"},
        )
    return {**meta, "runId": run_id}
