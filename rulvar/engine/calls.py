"""What passes between a run and its primitives: requests, calls, claims, operations under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rulvar.contracts.ports.observer import CallSite
from rulvar.kernel.keys import CURRENT_HASH_VERSION
from rulvar.kernel.matching import Operation
from rulvar.runtime.limits import UsageLimits

if TYPE_CHECKING:
    from rulvar.engine.workflow import Workflow

__all__ = ["Accounting", "Call", "Claim", "Opened", "RunRequest"]

Action = Literal["replay", "rerun", "live", "skip", "wait"]
"""``wait`` is only said to a strict replay: the call had not ended, and stands at open waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What one execution segment is asked to do."""

    run_id: str
    workflow: Workflow[Any]
    args: Any
    args_json: bytes | None
    resumed: bool = False
    strict: bool = False
    invalidate: tuple[int, ...] = ()
    name: str | None = None
    budget_usd: float | None = None
    deadline_ms: int | None = None
    limits: UsageLimits | None = None
    own_limits: Any = None
    """Of the agent that the run is of; see ``Workflow.read_limits``."""
    given_limits: Any = None
    """What the caller gave, now or before; the engine's own limits are not given."""
    tags: tuple[str, ...] = ()
    scope: Any = None
    config_fingerprint: str | None = None
    trace: bool = False
    kept: Mapping[str, bytes] = field(default_factory=dict)
    """Blobs that are stored beside a run before it starts, by name."""


class Call(msgspec.Struct, frozen=True, eq=False):
    """One call as the journal sees it.

    Attributes:
        identity: what its key is made of; older keys are made only when the journal needs them.
        key: the identity's current key.
        mode: ``auto`` matches in scope, ``cache`` also anywhere in the run, ``never`` is always live.
    """

    identity: Mapping[str, Any]
    key: str
    label: str | None = None
    site: CallSite | None = None
    mode: str = "auto"


class Claim(msgspec.Struct, frozen=True, eq=False):
    """What the journal says to one call."""

    action: Action
    operation: Operation | None = None


class Opened(msgspec.Struct, eq=False):
    """An operation that is under way: what its terminal entry must repeat.

    Attributes:
        hash_version: of its first entry, and so of the one that ends it.
        origin: where an agent call that goes on had begun; what its tools do stands below that, however often
            it is taken up again. None is here.
        is_invalidated: whether what the journal tells of it must not be kept.
        name: what its author called it, for people who watch the run.
        began_ms: when this segment began with it.
        task: what makes the call.
    """

    seq: int
    scope: str
    key: str
    ordinal: int
    kind: str
    span: str
    started_at: str
    hash_version: int | float = CURRENT_HASH_VERSION
    origin: int | None = None
    is_invalidated: bool = False
    name: str = ""
    began_ms: int = 0
    task: asyncio.Task[Any] | None = None

    @property
    def root(self) -> int:
        """The seq below which the call's tools stand."""
        return self.seq if self.origin is None else self.origin


@dataclass(slots=True)
class Accounting:
    """Counts of a segment's preview.

    Attributes:
        served_scopes: where nothing is orphaned: what lies below is looked after by a call that did not go through it.
        served_children: scopes of the children that were served whole.
    """

    hits: int = 0
    misses: int = 0
    reruns: int = 0
    skipped: int = 0
    served_scopes: list[str] = field(default_factory=list)
    served_children: list[str] = field(default_factory=list)
    invalid_resolutions: list[int] = field(default_factory=list)
