"""A strict replay that would have gone live: the error, and the facts that reports show."""

from __future__ import annotations

from typing import Any

from rulvar.engine.calls import Call
from rulvar.errors import JournalMissError
from rulvar.kernel.matching import JournalIndex, Operation
from rulvar.kernel.mismatch import explain_miss

__all__ = ["would_go_live"]


def would_go_live(
    index: JournalIndex, scope: str, call: Call, action: str, operation: Operation | None
) -> tuple[JournalMissError, dict[str, Any]]:
    """Return the error of a call that the journal does not serve, and what it says as plain facts.

    Args:
        action: ``live`` when the journal holds no such call, ``rerun`` when what it holds is not kept.
        operation: what the call matched, if anything.
    """
    divergence = explain_miss(
        index,
        scope=scope,
        identity=call.identity,
        key=call.key,
        label=call.label,
        taken=operation,
        always_asks=call.mode == "never",
    )
    site = call.site
    facts = {"scope": scope, "kind": call.identity["kind"], "miss": action, **divergence.to_wire()}
    data = dict(facts)
    if site is not None:
        data["site"] = {"file": site.file, "line": site.line, "function": site.function}
    where = f" at {site.file}:{site.line}" if site is not None else ""
    return JournalMissError(f"strict replay would go live{where}: {divergence.message}", data=data), facts
