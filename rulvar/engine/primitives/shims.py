"""``ctx.now``, ``ctx.time``, ``ctx.random``, ``ctx.uuid``: the clock and chance, journaled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from rulvar.contracts.ports.observer import CallSite
from rulvar.engine.calls import Call
from rulvar.engine.run import Run
from rulvar.errors import ConfigError
from rulvar.kernel.keys import content_key

__all__ = ["read_now", "read_random", "read_time", "read_uuid"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS: dict[str, Any] = {"now": (int, float), "random": (int, float), "uuid": str}


def read_now(run: Run, site: CallSite | None) -> datetime:
    """Return the journaled time as an aware UTC datetime with milliseconds."""
    return _EPOCH + timedelta(milliseconds=_journaled(run, "now", None, run.clock.now_ms, site))


def read_time(run: Run, site: CallSite | None) -> float:
    """Return the journaled time as seconds since the epoch."""
    milliseconds: int = _journaled(run, "now", None, run.clock.now_ms, site)
    return milliseconds / 1000


def read_random(run: Run, key: str | None, site: CallSite | None) -> float:
    """Return a journaled float in [0, 1)."""
    if key is not None and not isinstance(key, str):
        raise ConfigError(
            f"ctx.random key: expected a string, got {type(key).__name__}", data={"field": "key"}
        )
    value: float = _journaled(run, "random", key, run.engine.entropy.random, site)
    return value


def read_uuid(run: Run, site: CallSite | None) -> str:
    """Return a journaled random UUID as text."""
    value: str = _journaled(run, "uuid", None, run.engine.entropy.uuid4, site)
    return value


def _journaled(
    run: Run, subtype: str, key: str | None, draw: Callable[[], Any], site: CallSite | None
) -> Any:
    place = run.place()
    identity, hashed = _identity(subtype, key)
    claim = run.claim(place, Call(identity, hashed, key, site))
    if claim.action == "replay":
        assert claim.operation is not None
        recorded = claim.operation.first.value
        value = recorded.get("value") if isinstance(recorded, dict) else None
        if not isinstance(value, _KINDS[subtype]):
            seq = claim.operation.first.seq
            raise ConfigError(
                f"run {run.run_id!r}, entry {seq}: holds no {subtype} value; restore the run from a copy",
                data={"seq": seq},
            )
        return value
    value = draw()
    wire = {"subtype": subtype, "value": value}
    if key is not None:
        wire["key"] = key
    run.journal.append_soon(run.single("rand", place, hashed, wire))
    return value


@lru_cache(maxsize=256)
def _identity(subtype: str, key: str | None) -> tuple[dict[str, Any], str]:
    identity: dict[str, Any] = {"kind": "rand", "subtype": subtype}
    if key is not None:
        identity["key"] = key
    hashed = content_key(identity)
    assert hashed is not None
    return identity, hashed
