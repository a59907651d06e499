"""``ctx.workflow``: a child workflow, admitted by a journaled decision and replayed as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.jsonable import fragment, journal_value, refused_at
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.schema import canonical_schema
from rulvar.contracts.stream import WireError
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.calls import Call, Claim
from rulvar.engine.control import unwrapped
from rulvar.engine.failure import returned_form
from rulvar.engine.primitives.admission import admit_child
from rulvar.engine.primitives.step import wire_error
from rulvar.engine.run import Run
from rulvar.engine.workflow import RunsAs, Workflow, takes_args
from rulvar.errors import (
    ChildWorkflowError,
    ConfigError,
    NonSerializableValueError,
    RulvarError,
)
from rulvar.kernel.keys import content_key
from rulvar.kernel.scope import workflow_scope
from rulvar.tools.grants import narrow_grants

__all__ = ["check_args", "revived_args", "run_child"]


async def run_child(
    run: Run,
    child: Workflow[Any] | RunsAs[Any] | type | str,
    args: Any,
    key: str | None,
    site: CallSite | None,
    *,
    scope: str | None = None,
    counts_depth: bool = True,
) -> Any:
    """Run a child workflow; see ``Ctx.workflow``.

    Args:
        scope: where the child stands, when its caller has chosen that before. A child that a transition
            has started fails for good: its failure is kept, and a resume does not run it again.
        counts_depth: whether it is one level deeper; the children of machines and tools are bounded by the
            spawn cap alone.
    """
    place = run.place()
    workflow = run.engine.workflow_of(child)
    if key is not None and not isinstance(key, str):
        raise ConfigError(
            f"ctx.workflow({workflow.name!r}) key: expected a string, got {type(key).__name__}",
            data={"field": "key"},
        )
    what = f"ctx.workflow({workflow.name!r}) args"
    plain = journal_value(args, what)
    identity: dict[str, Any] = {"kind": "child", "workflow": workflow.name}
    if key is None:
        identity["args"] = plain
    else:
        identity["args"] = key  # an explicit key stands where the args stand
    try:
        hashed = content_key(identity)
    except NonSerializableValueError as error:  # a number that no double holds
        raise refused_at(error, f"ctx.workflow({workflow.name!r})") from None
    assert hashed is not None
    keeps_failure = scope is not None or place.attempt is not None
    if scope is None:
        scope = workflow_scope(place.scope, workflow.name, run.next_site(place.scope, f"wf:{workflow.name}"))
    call = Call(identity, hashed, workflow.name, site)
    claim = run.claim(place, call)
    if claim.action == "skip":
        return None
    if claim.action == "replay":
        assert claim.operation is not None and claim.operation.terminal is not None
        scope = _child_scope(claim.operation.first) or scope
        run.accounting.served_children.append(scope)
        span = run.next_span()
        _announce_child(run, place, workflow, span, scope)
        _announce_child(run, place, workflow, span, scope, claim.operation.terminal.status)
        run.observe.call("child", place.scope, hashed, Served(how="journal"), site, label=workflow.name)
        return _recorded_end(claim.operation.terminal)
    if claim.action == "wait":
        claim = Claim("rerun", claim.operation)  # to where it waits
    if claim.operation is not None:  # it goes on where it stood
        scope = _child_scope(claim.operation.first) or scope
    span = run.next_span()
    depth = place.depth + 1 if counts_depth else place.depth
    reservation = await admit_child(run, place, workflow, scope, span, depth)
    if reservation is not None:
        # the child's own calls are promised on the same accounts: its own promise has done its work
        run.budget.ledger.release(reservation)
    extra: dict[str, Any] = {"value": {"workflow": workflow.name, "childScope": scope}}
    if keeps_failure:
        extra["memoizeOutcome"] = True
    if run.tracing and plain is not None:
        extra["value"]["args"] = plain
    opened = await run.begin(place, "child", hashed, span, claim, workflow.name, extra)
    here = place.at(
        scope=scope,
        span=opened.span,
        workflow=workflow,
        account=scope,
        depth=depth,
        attempt=None,
        grants=narrow_grants(place.grants, workflow.grants),
    )
    run.models.bring(workflow.adapters)
    _announce_child(run, place, workflow, opened.span, scope, replayed=False)
    status, fields, failure, result = await _body(run, here, workflow, plain)
    if run.strict:  # it did not come to a wait: that it has ended cannot be journaled
        run.not_served("rerun", claim.operation, place, call)
    if keeps_failure and isinstance(failure, Exception):
        failure = _kept(failure)
        fields = {"error": failure.to_wire()}
    await asyncio.shield(run.finish(opened, status, fields))
    _announce_child(run, place, workflow, opened.span, scope, status, replayed=False)
    run.observe.call("child", place.scope, hashed, Served(how="live"), site, label=workflow.name)
    if failure is not None:
        raise failure
    return result


def _announce_child(
    run: Run,
    place: Place,
    workflow: Workflow[Any],
    span: str,
    scope: str,
    status: str | None = None,
    *,
    replayed: bool = True,
) -> None:
    """Tell that a child begins, or how it ended."""
    facts: dict[str, Any] = {"workflow": workflow.name, "scope": scope}
    if status is None:
        run.bus.emit("child:start", span, place.span, facts, replayed)
    else:
        run.bus.emit("child:end", span, place.span, {**facts, "status": status}, replayed)


def _recorded_end(terminal: JournalEntry) -> Any:
    if terminal.status != "error":
        return terminal.value
    wire = terminal.to_wire().get("error") or {}
    raise ChildWorkflowError(str(wire.get("message", "")), data=wire.get("data"))


def _kept(failure: Exception) -> ChildWorkflowError:
    """Return a failure in the form in which the journal keeps it."""
    data = {"kind": "terminal", "error": wire_error(failure)}
    kept = ChildWorkflowError(str(failure), data=data)
    kept.run_status = getattr(failure, "run_status", "error")
    kept.__cause__ = failure
    return kept


async def _body(
    run: Run, here: Place, workflow: Workflow[Any], args: Any
) -> tuple[str, Mapping[str, Any], BaseException | None, Any]:
    """Run a child's body; return its status, its terminal fields, its failure and its value."""
    token = CURRENT_PLACE.set(here)
    try:
        if workflow.args is not None:
            _check_args(workflow, args)
            args = revived_args(workflow, args)
        body = workflow.body
        if not workflow.is_driver:
            run.engine.guard.watch(run, body)
        ctx = run.engine.ctx_of(run)
        coroutine = body(ctx, args) if takes_args(body) else body(ctx)
        value = await (coroutine if workflow.is_driver else run.inside(coroutine))
        data = returned_form(workflow, value)
        return "ok", {"value": fragment(data)}, None, decode_json(data)
    except BaseException as raised:
        error = unwrapped(raised)
        if isinstance(error, asyncio.CancelledError):
            stopped = WireError(
                code="error", message=run.cancel_reason or "the branch was cancelled", retryable=False
            )
            return "cancelled", {"error": stopped.to_wire()}, error, None
        if isinstance(error, Exception):
            return "error", {"error": wire_error(error)}, error, None
        raise error from None  # the child stays dangling: it goes on when the run does
    finally:
        CURRENT_PLACE.reset(token)


def _child_scope(first: JournalEntry) -> str | None:
    value = first.value
    return value.get("childScope") if isinstance(value, dict) else None


def revived_args(workflow: Workflow[Any], args: Any) -> Any:
    """Return arguments as a workflow sees them: an instance of their type, defaults applied."""
    return args if workflow.args is None else workflow.args.revive(_filled(workflow, args))


def _filled(workflow: Workflow[Any], args: Any) -> Any:
    """Return no arguments as none of the fields, where there are fields: each may have a default."""
    if args is not None or workflow.args is None:
        return args
    schema = canonical_schema(workflow.args.json)
    is_object = isinstance(schema, Mapping) and schema.get("type") == "object"
    return {} if is_object else None


def _check_args(workflow: Workflow[Any], args: Any) -> None:
    assert workflow.args is not None
    issues = workflow.args.issues(_filled(workflow, args))
    if issues:
        path = "".join(f"[{part!r}]" for part in issues[0].path)
        none = "" if args is not None else "; no arguments were given: pass args"
        raise ConfigError(
            f"workflow {workflow.name!r} args{path}: {issues[0].message}{none}",
            data={"field": f"args{path}", "issues": [issue.to_wire() for issue in issues]},
        )


def check_args(workflow: Workflow[Any], args: Any) -> RulvarError | None:
    """Return what is wrong with a workflow's arguments, or None."""
    if workflow.args is None:
        return None
    try:
        _check_args(workflow, args)
    except RulvarError as error:
        return error
    return None
