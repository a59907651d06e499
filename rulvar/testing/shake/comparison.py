"""Compares the calls of a replay with the recorded ones: what moved first.

Calls are matched as the journal matches them, by scope and key. Where all calls of a scope come from
one line of execution, their order has to be the recorded one as well; where several tasks make them,
it may differ from run to run and nothing is wrong with that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.ports.observer import CallSite, ClaimRecord
from rulvar.contracts.redaction import default_redact
from rulvar.kernel.scope import workflow_scope
from rulvar.testing.excerpt import excerpt
from rulvar.testing.request_difference import compare_requests
from rulvar.testing.shake.report import MoveKind
from rulvar.testing.shake.trace import Trace

__all__ = ["Move", "describe_call", "first_move"]

_WHOLE = ("ok", "error", "suspended")
"""Ends that a replay reaches again."""

_LONGEST_ERROR = 160

_TRANSITION = "transition:"
"""How the key of a machine's commit begins, with which its body is served as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The first difference between a recorded trace and another one."""

    kind: MoveKind
    position: int
    call: str
    site: CallSite | None
    field: str | None = None
    recorded: str | None = None
    now: str | None = None


def first_move(recorded: Trace, replayed: Trace, *, ordered: bool = True) -> Move | None:
    """Return what moved first, or None.

    Args:
        ordered: whether the order of calls within one line of execution has to be the recorded one.
    """
    left = _Left(recorded)
    one_task = _scopes_of_one_task(recorded) & _scopes_of_one_task(replayed) if ordered else frozenset()
    for claim in replayed.claims:
        if claim.action == "replay":
            left.cover(claim)
        due = left.first(claim.scope)
        position = left.take(claim)
        if position is None:
            if claim.action == "live":
                goes_on = due is None and (recorded.stopped or recorded.status not in _WHOLE)
                return None if goes_on else _moved(left, claim)
        elif claim.scope in one_task and due is not None and due != position:
            return _reordered(recorded.claims[due], claim, due)
    if replayed.stopped:
        return None  # at a call that no replay serves: the recorded run came as far as here
    return _end(recorded, replayed, left)


class _Left:
    """The recorded calls that were not made yet."""

    def __init__(self, recorded: Trace) -> None:
        self.claims = recorded.claims
        self._by_key: dict[tuple[str, str], deque[int]] = {}
        self._by_scope: dict[str, deque[int]] = {}
        self._made: set[int] = set()
        self._covered: set[str] = set()
        self._fired: set[tuple[str, str]] = set()
        for position, claim in enumerate(recorded.claims):
            self._by_key.setdefault((claim.scope, claim.key), deque()).append(position)
            self._by_scope.setdefault(claim.scope, deque()).append(position)

    def take(self, claim: ClaimRecord) -> int | None:
        """Take the recorded call that a call is; None when there is none."""
        queue = self._by_key.get((claim.scope, claim.key))
        if not queue:
            return None
        position = queue.popleft()
        self._made.add(position)
        return position

    def first(self, scope: str) -> int | None:
        """Return the position of the first call left of a scope."""
        queue = self._by_scope.get(scope)
        while queue and queue[0] in self._made:
            queue.popleft()
        return queue[0] if queue else None

    def nearest(self, claim: ClaimRecord) -> int | None:
        """Return the position of the call left that a call most likely was."""
        left = [n for n, item in enumerate(self.claims) if n not in self._made]
        for fits in (_same_place, _same_kind, _same_site):
            for position in left:
                if fits(self.claims[position], claim):
                    return position
        return None

    def cover(self, claim: ClaimRecord) -> None:
        """Leave out the calls of what is served as a whole: a child, a transition of a machine."""
        key = str(claim.identity.get("key"))
        if claim.identity["kind"] == "child":
            name = str(claim.identity["workflow"])
            self._covered.add(workflow_scope(claim.scope, name, 0).removesuffix("0"))
        elif claim.identity["kind"] == "step" and key.startswith(_TRANSITION):
            self._fired.add((claim.scope, key.removeprefix(_TRANSITION)))

    def rest(self) -> int | None:
        """Return the position of the first call left of all."""
        covered = tuple(self._covered)
        return next(
            (
                position
                for position, claim in enumerate(self.claims)
                if position not in self._made
                and not (covered and claim.scope.startswith(covered))
                and not (self._fired and self._is_in_a_transition(claim.scope))
            ),
            None,
        )

    def _is_in_a_transition(self, scope: str) -> bool:
        """Whether a scope, or one around it, is that of a transition that was served."""
        while scope:
            scope, _, segment = scope.rpartition("/")
            transition = segment.rpartition(":")[0].rpartition(".")[2]
            if segment.startswith("wf:") and (scope, transition) in self._fired:
                return True
        return False


def _same_place(recorded: ClaimRecord, claim: ClaimRecord) -> bool:
    return recorded.scope == claim.scope and recorded.site == claim.site and _same_kind(recorded, claim)


def _same_kind(recorded: ClaimRecord, claim: ClaimRecord) -> bool:
    return recorded.scope == claim.scope and recorded.identity["kind"] == claim.identity["kind"]


def _same_site(recorded: ClaimRecord, claim: ClaimRecord) -> bool:
    return claim.site is not None and recorded.site == claim.site


def _moved(left: _Left, claim: ClaimRecord) -> Move:
    position = left.nearest(claim)
    if position is None:
        described = describe_call(claim)
        return Move(
            kind="identity", position=len(left.claims), call=described, site=claim.site, now=described
        )
    recorded = left.claims[position]
    difference = compare_requests(recorded.identity, claim.identity)
    field, before, now = "scope", recorded.scope, claim.scope
    if difference.differences:
        first = difference.differences[0]
        field = first.path
        before, now = excerpt(first.recorded, first.actual)  # type: ignore[assignment]
    return Move(
        kind="identity",
        position=position,
        call=describe_call(recorded),
        site=claim.site or recorded.site,
        field=field,
        recorded=_shown(before),
        now=_shown(now),
    )


def _reordered(recorded: ClaimRecord, claim: ClaimRecord, position: int) -> Move:
    difference = compare_requests(recorded.identity, claim.identity)
    first = difference.differences[0]
    before, now = excerpt(first.recorded, first.actual)
    return Move(
        kind="order",
        position=position,
        call=describe_call(recorded),
        site=claim.site or recorded.site,
        field=first.path,
        recorded=_shown(before),
        now=_shown(now),
    )


def _end(recorded: Trace, replayed: Trace, left: _Left) -> Move | None:
    """Return how the end differs, where the calls do not."""
    if recorded.status not in _WHOLE or recorded.stopped:
        return None
    last = replayed.claims[-1] if replayed.claims else None
    end = len(recorded.claims)
    failed = replayed.status == "error" and recorded.status != "error"
    rest = left.rest()
    if rest is not None and not failed:
        claim = left.claims[rest]
        return Move(kind="missing", position=rest, call=describe_call(claim), site=claim.site)
    site = None if last is None else last.site
    if failed:
        after = "its first call" if last is None else f"after {describe_call(last)}"
        return Move(
            kind="failure",
            position=end if rest is None else rest,
            call=after,
            site=site,
            recorded=recorded.status,
            now=_shown(_one_line(replayed.error)),
        )
    if replayed.status != recorded.status or replayed.output_hash != recorded.output_hash:
        return Move(
            kind="outcome",
            position=end,
            call="the end",
            site=site,
            recorded=f"{recorded.status} {_short(recorded.output_hash)}".strip(),
            now=f"{replayed.status} {_short(replayed.output_hash)}".strip(),
        )
    return None


def describe_call(claim: ClaimRecord) -> str:
    """Return what a call is, in a few words."""
    identity = claim.identity
    return _DESCRIBED.get(str(identity["kind"]), _plain)(identity, claim.label)


def _agent(identity: Mapping[str, Any], label: str | None) -> str:
    name = label or identity.get("agentType")
    return f"agent call {name!r}" if name else "agent call"


def _plain(identity: Mapping[str, Any], label: str | None) -> str:
    name = label or identity.get("key") or identity.get("workflow") or identity.get("subtype")
    return f"{_NOUNS.get(str(identity['kind']), str(identity['kind']))} {name!r}"


_DESCRIBED = {"agent": _agent}
_NOUNS = {"external": "wait for", "child": "child workflow", "rand": "ctx value"}


def _scopes_of_one_task(trace: Trace) -> frozenset[str]:
    tasks: dict[str, set[int]] = {}
    for claim in trace.claims:
        tasks.setdefault(claim.scope, set()).add(claim.task)
    return frozenset(scope for scope, makers in tasks.items() if len(makers) == 1)


def _shown(text: str | None) -> str | None:
    return None if text is None else default_redact(text).encode("utf-8", "backslashreplace").decode()


def _one_line(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 1]}…"


def _short(digest: str | None) -> str:
    return "" if digest is None else digest[:12]
