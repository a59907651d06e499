"""``ctx.await_external``: wait for an answer from outside, across crashes and restarts."""

from __future__ import annotations

from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.schema import SchemaContract, names_formats, schema_contract
from rulvar.engine.branch import Place
from rulvar.engine.calls import Call
from rulvar.engine.run import Run
from rulvar.engine.waits import SAID_FORMATS, Admit, resolved_value
from rulvar.errors import ConfigError
from rulvar.kernel.keys import content_key
from rulvar.kernel.matching import Operation

__all__ = ["suspend_entry", "wait_external", "wait_open"]


async def wait_external(run: Run, key: str, schema: Any, prompt: str | None, site: CallSite | None) -> Any:
    """Wait for an external answer; see ``Ctx.await_external``."""
    place = run.place()
    if not isinstance(key, str) or not key:
        raise ConfigError("ctx.await_external key: expected a non-empty string", data={"field": "key"})
    if prompt is not None and not isinstance(prompt, str):
        raise ConfigError(
            f"ctx.await_external({key!r}) prompt: expected a string, got {type(prompt).__name__}",
            data={"field": "prompt"},
        )
    contract = None if schema is None else schema_contract(schema, f"ctx.await_external({key!r}) schema")
    if run.next_site(
        place.scope, f"await:{key}"
    ):  # whoever answers has nothing but the key to tell them apart
        where = f"scope {place.scope!r}" if place.scope else "the workflow body"
        raise ConfigError(
            f"ctx.await_external({key!r}): {where} has waited for this key before; give each wait a key of its own",
            data={"field": "key"},
        )
    identity = {"kind": "external", "key": key}
    hashed = content_key(identity)
    assert hashed is not None
    claim = run.claim(place, Call(identity, hashed, key, site))
    if claim.action == "skip":
        return None
    operation = claim.operation
    run.observe.call(
        "external", place.scope, hashed, Served(how="journal" if operation else "live"), site, label=key
    )
    if operation is not None and operation.resolution is not None:
        return _accept(run, key, operation, contract)
    is_new = operation is None
    if operation is None:
        operation = Operation(await _journal_wait(run, place, key, hashed, contract, prompt))
        run.waits.tell(operation.first.seq, key, prompt)
    value = await wait_open(run, place, operation, is_told=is_new)
    return value if contract is None else contract.revive(value)


async def wait_open(
    run: Run, place: Place, operation: Operation, admit: Admit | None = None, *, is_told: bool = False
) -> Any:
    """Wait on an open operation until it is resolved; the run may suspend meanwhile."""
    first = operation.first
    wait = run.waits.open(first, admit, is_told=is_told)
    place.branch.waiting(1)
    try:
        return await wait.future
    finally:
        place.branch.waiting(-1)
        if not run.suspended:
            run.waits.close(first.seq)


async def _journal_wait(
    run: Run, place: Place, key: str, hashed: str, contract: SchemaContract | None, prompt: str | None
) -> Any:
    value: dict[str, Any] = {"key": key}
    if prompt is not None:
        value["prompt"] = prompt
    if contract is not None:
        value["schema"] = contract.canonical
        if not contract.asserts_formats and names_formats(contract.canonical):
            value["formats"] = SAID_FORMATS
    return await suspend_entry(run, place, "external", place.scope, hashed, value)


async def suspend_entry(
    run: Run, place: Place, kind: str, scope: str, key: str, value: dict[str, Any]
) -> Any:
    """Journal that something waits, and return the entry."""
    wire = {
        "scope": scope,
        "key": key,
        "ordinal": run.index.next_ordinal(scope, key),
        "kind": kind,
        "status": "suspended",
        "spanId": run.next_span(),
        "startedAt": run.now_iso(),
        "value": value,
    }
    seq = await run.journal.append(wire)
    return JournalEntry.from_wire({"hashVersion": 2, "seq": seq, **wire})


def _accept(run: Run, key: str, operation: Operation, contract: SchemaContract | None) -> Any:
    value = resolved_value(operation)
    if contract is None:
        return value
    issues = contract.issues(value)
    if not issues:
        return contract.revive(value)
    assert operation.resolution is not None
    run.accounting.invalid_resolutions.append(operation.resolution.seq)
    try:
        return contract.revive(value)
    except Exception:
        raise ConfigError(
            f"ctx.await_external({key!r}): the recorded answer (entry {operation.resolution.seq}) does not fit the "
            f"schema: {issues[0].message}",
            data={"field": "schema", "issues": [issue.to_wire() for issue in issues]},
        ) from None
