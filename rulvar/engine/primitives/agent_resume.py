"""How an agent call that was made before is taken up: its state, and what it has used below its entry."""

from __future__ import annotations

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.usage import ZERO_USAGE
from rulvar.engine.calls import Claim, Opened
from rulvar.engine.run import Run
from rulvar.errors import ConfigError, OutcomeUnknownError
from rulvar.kernel.scope import agent_scope
from rulvar.runtime.checkpoint import LoopState, decode_checkpoint

__all__ = ["load_checkpoint", "take_up"]


async def load_checkpoint(run: Run, claim: Claim) -> LoopState | None:
    """Return the state at which a call stopped, or None to start at its first turn.

    A dangling call goes on with its accounts. One that had ended without being at fault, because the
    money ran out, the line was down, it was cancelled or one of its writes may have happened, goes on
    at the same turn with accounts of its own: what it paid before is on the entry that ended it.
    """
    operation = claim.operation
    if claim.action != "rerun" or operation is None:
        return None
    ended = operation.terminal
    if ended is not None and not _may_go_on(ended):
        return None
    ref = f"{run.run_id}/ckpt/{operation.first.seq}"
    data = await run.transcript_store.get(ref)
    if data is None:
        return None
    try:
        state = decode_checkpoint(data)
    except ConfigError as error:
        raise ConfigError(
            f"{ref}: {error}; restore it from a copy, or remove it to make the call from its first turn",
            data={"ref": ref},
        ) from None
    if ended is not None:
        state.usage, state.usage_approx, state.provider_calls = ZERO_USAGE, False, []
    return state


def take_up(run: Run, opened: Opened, claim: Claim, state: LoopState | None) -> None:
    """Go on below the entry at which a call began, past what its ended tool calls have used there.

    A later call that looks like one of them, a second question to the same human or child, is another call.
    """
    operation = claim.operation
    if operation is None:
        return
    begun = operation.first.seq if state is None or state.origin is None else state.origin
    ends = () if operation.terminal is None else (operation.terminal.seq,)
    # told by the seq of the call as it began, of its last attempt, or of its end
    opened.is_invalidated = not {begun, operation.first.seq, *ends}.isdisjoint(run.request.invalidate)
    if state is None:
        return
    if begun != opened.seq:
        opened.origin = state.origin = begun
    scope = agent_scope(opened.scope, begun)
    seen: set[str] = set()
    for used in run.index.in_scope(scope) if state.settled_seq else ():
        if used.first.seq >= state.settled_seq:
            break
        used.consumed = True
        value = used.first.value
        child = value.get("childScope") if used.first.kind == "child" and isinstance(value, dict) else None
        if child is not None and child not in seen:
            seen.add(child)
            run.accounting.served_scopes.append(child)
            run.next_site(scope, f"wf:{value['workflow']}")


def _may_go_on(ended: JournalEntry) -> bool:
    if ended.status == "cancelled":
        return True
    error = ended.to_wire().get("error")
    if not isinstance(error, dict):
        return False
    data = error.get("data")
    kind = data.get("kind") if isinstance(data, dict) else None
    return error.get("code") == OutcomeUnknownError.code or kind in ("budget", "transport", "rate-limit")
