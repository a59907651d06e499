"""Agent profiles: what a kind of agent is made of; and what one call of it came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal

from rulvar.contracts.stream import WireError
from rulvar.contracts.type_variables import Value
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import ConfigError
from rulvar.kernel.admission import check_usd
from rulvar.runtime.history import Compaction
from rulvar.runtime.limits import UsageLimits
from rulvar.runtime.retry import RetryPolicy
from rulvar.runtime.router import check_layer
from rulvar.tools.tool import Tool

__all__ = ["AgentProfile", "AgentResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """Defaults of every call with one ``agent_type``; a call's own options win.

    Attributes:
        model: a model reference ``adapter:model``, or ``{"model", "effort", "provider_options"}``.
        effort: low, medium, high, xhigh or max.
        system: text of the system message.
        tools: what the agent may call.
        schema: shape of its answer.
        limits, retry, fallback, est_cost, isolation: see ``ctx.agent``.
        routing: role to model reference.
        compaction: when a long conversation is shortened; ``Compaction`` or ``{at, keep_turns}``. None is
            never.
    """

    model: Any = None
    effort: str | None = None
    system: str | None = None
    tools: tuple[Tool, ...] = ()
    schema: Any = None
    limits: Any = None
    retry: Any = None
    fallback: Any = None
    est_cost: float | None = None
    routing: Mapping[str, Any] | None = None
    description: str | None = None
    compaction: Any = None
    isolation: Any = None

    @classmethod
    def of(cls, name: str, profile: AgentProfile | Mapping[str, Any]) -> AgentProfile:
        """Return a profile from a mapping of the attribute names.

        Raises:
            ConfigError: an unknown field, or a bound out of range; names the field.
        """
        where = f"profiles[{name!r}]"
        if isinstance(profile, AgentProfile):
            profile = {item.name: getattr(profile, item.name) for item in fields(cls)}
        if not isinstance(profile, Mapping):
            raise ConfigError(f"{where}: expected AgentProfile or a mapping", data={"field": where})
        known = {item.name for item in fields(cls)}
        for field in profile:
            if field not in known:
                raise ConfigError(
                    f"{where}.{field}: unknown field; use {', '.join(sorted(known))}",
                    data={"field": f"{where}.{field}"},
                )
        values = dict(profile)
        values["tools"] = _tools(values.get("tools"), where)
        values["est_cost"] = check_usd(values.get("est_cost"), f"{where}.est_cost")
        check_layer(where, values.get("model"), values.get("effort"), values.get("routing"))
        if values.get("limits") is not None:
            UsageLimits.of(
                values["limits"], f"{where}.limits"
            )  # kept as written: what it says stands over a run's
        if values.get("retry") is not None:
            values["retry"] = RetryPolicy.of(values["retry"], f"{where}.retry")
        values["compaction"] = Compaction.of(values.get("compaction"), f"{where}.compaction")
        return cls(**values)


def _tools(tools: Any, where: str) -> tuple[Tool, ...]:
    if tools is None:
        return ()
    if isinstance(tools, (str, Mapping, Tool)) or not isinstance(tools, Iterable):
        raise ConfigError(
            f"{where}.tools: expected a list of tools, got {type(tools).__name__}",
            data={"field": f"{where}.tools"},
        )
    return tuple(tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult(Generic[Value]):
    """What one agent call came to, for ``result="full"``.

    Attributes:
        status: ok, error, limit or cancelled; skipped where the journal says that the call was abandoned.
        output: the answer; None unless status is ok.
        error: the failure, with its kind in ``error.data["kind"]``; None for a call that ended at a limit
            or was cancelled, where nothing failed.
        failure: what the same call raises when it asks for the value: the error, or why there is no value.
        usage: tokens of all turns.
        served_by: the model that answered last.
        cost_usd: cost of all turns; None when the model has no price.
        entry_ref: seq of the journal entry that holds it.
        call_ref: seq of the entry that began the call.
    """

    status: Literal["ok", "error", "limit", "cancelled", "skipped"]
    output: Value | None = None
    error: WireError | None = None
    failure: WireError | None = None
    usage: Usage = ZERO_USAGE
    served_by: str | None = None
    cost_usd: float | None = None
    entry_ref: int | None = None
    call_ref: int | None = None
