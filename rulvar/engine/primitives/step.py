"""``ctx.step``: an effect that runs once and is served from the journal ever after."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any

import orjson

from rulvar.contracts.canonical import canonical_json, decode_json
from rulvar.contracts.exception_text import exception_text
from rulvar.contracts.jsonable import JSON_TYPES, fragment, journal_form, refused_at
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.stream import WireError
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.engine.calls import Call
from rulvar.engine.run import Run
from rulvar.errors import ConfigError, ControlFlow, NonSerializableValueError, RulvarError

__all__ = ["run_step"]

_FLAT = frozenset({str, int, bool, type(None)})


async def run_step(
    run: Run,
    label: str,
    function: Callable[[], Any],
    deps: Sequence[Any],
    key: str | None,
    returns: Any,
    site: CallSite | None,
) -> Any:
    """Run a function once; see ``Ctx.step``."""
    place = run.place()
    _check(label, function, key)
    identity = {"kind": "step", "key": label if key is None else key, "deps": _listed(label, deps)}
    content_key = _step_key(identity)
    claim = run.claim(place, Call(identity, content_key, label, site))
    if claim.action == "skip":
        return None
    if claim.action == "replay":
        assert claim.operation is not None and claim.operation.terminal is not None
        if run.observe:
            run.observe.call("step", place.scope, content_key, Served(how="journal"), site, label=label)
        return _revive(run, claim.operation.terminal.value, returns, label)
    opened = await run.begin(place, "step", content_key, run.next_span(), claim, label)
    place.branch.busy(1)
    token = CURRENT_PLACE.set(place.in_step(label))
    try:
        value = function()
        if type(value) not in JSON_TYPES and inspect.isawaitable(value):
            value = await value
        data = journal_form(value, f"ctx.step({label!r})")
    except (asyncio.CancelledError, ControlFlow):
        await asyncio.shield(run.finish(opened, "cancelled", {}))
        raise
    except Exception as error:
        await run.finish(opened, "error", {"error": wire_error(error)})
        if run.observe:
            run.observe.call("step", place.scope, content_key, Served(how="live"), site, label=label)
        raise
    finally:
        CURRENT_PLACE.reset(token)
        place.branch.busy(-1)
    await run.finish(opened, "ok", {"value": fragment(data)})
    if run.observe:
        run.observe.call("step", place.scope, content_key, Served(how="live"), site, label=label)
    return _revive(run, decode_json(data), returns, label)


def wire_error(error: BaseException) -> dict[str, Any]:
    """Return the JSON form of an exception that user code raised."""
    if isinstance(error, RulvarError):
        return error.to_wire()
    return WireError(code="error", message=exception_text(error), retryable=False).to_wire()


def _step_key(identity: dict[str, Any]) -> str:
    key, deps = identity["key"], identity["deps"]
    try:
        return sha256(
            b'{"deps":' + _canonical_list(deps) + b',"key":' + orjson.dumps(key) + b',"kind":"step"}'
        ).hexdigest()
    except (TypeError, NonSerializableValueError):
        pass  # half a surrogate pair, an integer that JSON numbers cannot hold exactly, or no JSON at all
    try:
        return sha256(canonical_json(identity)).hexdigest()
    except NonSerializableValueError as error:
        raise refused_at(error, f"ctx.step({key!r})") from None


def _canonical_list(deps: list[Any]) -> bytes:
    for item in deps:
        if type(item) not in _FLAT:
            return canonical_json(deps)
    # the commonest identities: what orjson writes of them is canonical as it is
    return orjson.dumps(deps, option=orjson.OPT_STRICT_INTEGER)


def _listed(label: str, deps: Any) -> list[Any]:
    if type(deps) is list or type(deps) is tuple:
        return list(deps)
    if isinstance(deps, (str, bytes, Mapping, Set)) or not isinstance(deps, Iterable):
        raise ConfigError(
            f"ctx.step({label!r}) deps: expected a list of what the step depends on, got one "
            f"{type(deps).__name__}; write deps=[...]",
            data={"field": "deps"},
        )
    return list(deps)


def _check(label: object, function: object, key: object) -> None:
    if key is not None and not isinstance(key, str):
        raise ConfigError(
            f"ctx.step({label!r}) key: expected a string, got {type(key).__name__}", data={"field": "key"}
        )
    if not isinstance(label, str):
        raise ConfigError(
            f"ctx.step label: expected a string, got {type(label).__name__}", data={"field": "label"}
        )
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()
        raise ConfigError(
            f"ctx.step({label!r}): pass the function, not its result: ctx.step({label!r}, lambda: ...)",
            data={"field": "fn"},
        )


def _revive(run: Run, value: Any, returns: Any, label: str) -> Any:
    if returns is None:
        return value
    contract, _ = run.engine.identities.schema(returns, f"ctx.step({label!r}) returns")
    issues = contract.issues(value)
    if issues:
        raise ConfigError(
            f"ctx.step({label!r}) returned a value that is no {getattr(returns, '__name__', returns)!s}: "
            f"{issues[0].message}",
            data={"field": "returns", "issues": [issue.to_wire() for issue in issues]},
        )
    return contract.revive(value)
