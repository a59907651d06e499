"""The meta row of a run: what a store lists without reading journals."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.jsonable import refused_at
from rulvar.contracts.ports.clock import iso_ms
from rulvar.contracts.ports.store import RunMeta
from rulvar.engine.bounds import limits_wire
from rulvar.engine.calls import RunRequest
from rulvar.errors import NonSerializableValueError
from rulvar.kernel.keys import hash_args

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rulvar.engine.engine import Engine
    from rulvar.engine.interruptions import Interruptions

__all__ = ["run_meta", "segments_of"]


def segments_of(meta: Mapping[str, Any]) -> int:
    """Return how many segments a run has had; a row that does not say counts as one."""
    count = meta.get("segments")
    if not isinstance(count, (int, float)) or isinstance(count, bool) or not 0 < count < 1 << 31:
        return 1
    return int(count) or 1


def run_meta(
    engine: Engine,
    request: RunRequest,
    meta: Mapping[str, Any],
    status: str,
    segments: int,
    interrupted: Interruptions | None = None,
) -> RunMeta:
    """Return the row of a run in a status; what the row at hand says of the run's start stands.

    Where it says nothing of that, a later segment does not make it up: its own arguments may be others.
    """
    fresh: RunMeta = {"runId": request.run_id, "status": status, "segments": segments}
    if interrupted is not None:
        fresh["interrupted"] = interrupted.to_wire()
    fresh["updatedAt"] = iso_ms(engine.clock.now_ms())
    if (limits := limits_wire(request)) is not None:
        fresh["limits"] = limits
    if not meta and not request.resumed:
        if request.name is not None:
            fresh["name"] = request.name
        if request.tags:
            fresh["tags"] = list(request.tags)
        if request.config_fingerprint is not None:
            fresh["configFingerprint"] = request.config_fingerprint
        if request.scope is not None:
            fresh["scope"] = request.scope
        if request.budget_usd is not None:
            fresh["budgetUsd"] = request.budget_usd
        fresh["argsProvided"] = request.args_json is not None
        if request.args_json is not None:
            plain = decode_json(request.args_json)
            if engine.salt_args:
                fresh["argsSalt"] = secrets.token_hex(16)
            try:
                fresh["argsHash"] = hash_args(plain, fresh.get("argsSalt"))
            except NonSerializableValueError as error:  # a number that no double holds
                raise refused_at(error, f"run of {request.workflow.name!r}: args") from None
        fresh["genesis"] = engine.mint_id()
        fresh["execKeyDerivation"] = 2
        fresh["workflowName"] = request.workflow.name
        fresh["workflowHash"] = request.workflow.source_hash
        if request.trace:
            fresh["trace"] = True
        return fresh
    if request.resumed and request.budget_usd is not None:
        fresh["budgetUsd"] = request.budget_usd
    kept = {name: value for name, value in meta.items() if name != "interrupted"}
    kept.setdefault("workflowName", request.workflow.name)
    kept.setdefault("workflowHash", request.workflow.source_hash)
    return {**kept, **fresh}
