"""The options of an agent call, and the plan they make: model, tools, schema, identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from rulvar.contracts.jsonable import journal_value
from rulvar.contracts.messages import ImagePart
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.schema import SchemaContract
from rulvar.engine.branch import Place
from rulvar.engine.run import Run
from rulvar.errors import ConfigError
from rulvar.kernel.admission import check_usd
from rulvar.kernel.keys import EMPTY_SCHEMA_HASH, content_key
from rulvar.runtime.agent import AgentProfile, AgentResult
from rulvar.runtime.history import Compaction
from rulvar.runtime.limits import UsageLimits, merged_limits
from rulvar.runtime.loop import MAX_SCHEMA_ATTEMPTS, AgentTask
from rulvar.runtime.retry import RetryPolicy
from rulvar.runtime.router import ModelChoice, RoutingLayer, choose_model
from rulvar.tools.tool import Tool
from rulvar.tools.toolset import Toolset

__all__ = [
    "AgentOptions",
    "AgentPlan",
    "agent_task",
    "brief_prompt",
    "fallback_trigger",
    "plan_agent",
    "plan_fallback",
]


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The keyword arguments of ``ctx.agent``, as they were given."""

    agent_type: str | None = None
    schema: Any = None
    label: str | None = None
    key: str | None = None
    model: Any = None
    effort: str | None = None
    routing: Mapping[str, Any] | None = None
    role: str = "loop"
    tools: Iterable[Tool | str] | None = None
    result: str = "value"
    on_error: str = "raise"
    retry: Any = None
    fallback: Any = None
    limits: Any = None
    est_cost: float | None = None
    memoize_outcome: bool = False
    replay: str = "auto"
    isolation: Any = None
    stream: bool = False
    conduct: Any = None
    """How an agent value conducts the call; see ``engine.primitives.conduct``. None lets the model work freely."""
    system: str | None = None
    media: tuple[ImagePart, ...] = ()

    @classmethod
    def of(cls, call: str, options: Mapping[str, Any]) -> AgentOptions:
        """Return the options of a call.

        Raises:
            ConfigError: an option that there is not; names it, and the one that was probably meant.
        """
        try:
            return cls(**options)
        except TypeError:
            known = cls.__struct_fields__
            wrong = next(name for name in options if name not in known)
            near = get_close_matches(wrong, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
            raise ConfigError(f"{call}: no option {wrong!r}; {hint}", data={"field": wrong}) from None


class AgentPlan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An agent call with every option resolved."""

    prompt: str
    options: AgentOptions
    agent_type: str
    choice: ModelChoice
    toolset: Toolset
    schema: SchemaContract | None
    profile: AgentProfile
    identity: Mapping[str, Any]
    key: str
    site: CallSite | None


def plan_agent(
    run: Run, place: Place, prompt: str, options: AgentOptions, site: CallSite | None
) -> AgentPlan:
    """Resolve every option of a call, and its identity.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    _check_options(prompt, options)
    agent_type = options.agent_type or ""
    profile = run.engine.profile(agent_type) if options.conduct is None else AgentProfile()
    choice = choose_model(
        options.role,
        (
            RoutingLayer(
                where="ctx.agent", model=options.model, effort=options.effort, routing=options.routing
            ),
            RoutingLayer(
                where="profile", model=profile.model, effort=profile.effort, routing=profile.routing
            ),
            RoutingLayer(
                where="workflow",
                model=place.workflow.model,
                effort=place.workflow.effort,
                routing=place.workflow.routing,
            ),
            RoutingLayer(where="engine", routing=run.engine.routing),
        ),
    )
    toolset, tools_hash = run.engine.identities.toolset(_tools(options, profile))
    raw = options.schema if options.schema is not None else profile.schema
    schema, shape_hash = None, EMPTY_SCHEMA_HASH
    if raw is not None:
        schema, shape_hash = run.engine.identities.schema(raw, "ctx.agent schema")
    spec: dict[str, Any] = {"kind": "model", "model": choice.reference}
    if choice.effort is not None:
        spec["effort"] = choice.effort
    identity = {
        "kind": "agent",
        "agentType": agent_type,
        "modelSpec": spec,
        "prompt": prompt if options.key is None else options.key,
        "schemaHash": shape_hash,
        "toolsetHash": tools_hash,
        "isolation": _isolation(options, profile),
    }
    key = content_key(identity)
    assert key is not None
    return AgentPlan(
        prompt=prompt,
        options=options,
        agent_type=agent_type,
        choice=choice,
        toolset=toolset,
        schema=schema,
        profile=profile,
        identity=identity,
        key=key,
        site=site,
    )


def _tools(options: AgentOptions, profile: AgentProfile) -> Sequence[Tool]:
    if options.tools is None:
        return profile.tools
    own = {tool.name: tool for tool in profile.tools}
    chosen: list[Tool] = []
    for item in options.tools:
        if isinstance(item, str):
            if item not in own:
                raise ConfigError(
                    f"ctx.agent tools: the profile has no tool named {item!r}", data={"field": "tools"}
                )
            chosen.append(own[item])
        else:
            chosen.append(item)
    return chosen


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "result": ("value", "full"),
    "on_error": ("raise", "null"),
    "replay": ("auto", "cache", "never"),
}


def _isolation(options: AgentOptions, profile: AgentProfile) -> Any:
    value = options.isolation if options.isolation is not None else profile.isolation
    return "none" if value is None or value == "none" else journal_value(value, "ctx.agent isolation")


def _check_options(prompt: object, options: AgentOptions) -> None:
    if not isinstance(prompt, str):
        raise ConfigError(
            f"ctx.agent prompt: expected a string, got {type(prompt).__name__}", data={"field": "prompt"}
        )
    for name, allowed in _CHOICES.items():
        value = getattr(options, name)
        if value not in allowed:
            raise ConfigError(
                f"ctx.agent {name}={value!r}: use {' or '.join(map(repr, allowed))}", data={"field": name}
            )
    tools = options.tools
    if tools is not None and (isinstance(tools, (str, Tool)) or not isinstance(tools, Iterable)):
        raise ConfigError(
            f"ctx.agent tools: expected a list of tools, got one {type(tools).__name__}; write tools=[...]",
            data={"field": "tools"},
        )
    for name in ("agent_type", "label", "key"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(
                f"ctx.agent {name}: expected a string, got {type(value).__name__}", data={"field": name}
            )

    for name in ("memoize_outcome", "stream"):
        value = getattr(options, name)
        if not isinstance(value, bool):
            raise ConfigError(
                f"ctx.agent {name}: expected True or False, got {value!r}", data={"field": name}
            )
    check_usd(options.est_cost, "ctx.agent est_cost")


_TRIGGERS = ("error", "limit", "schema-exhausted")


def plan_fallback(options: AgentOptions, profile: AgentProfile) -> Mapping[str, Any] | None:
    """Return ``{"model", "on"}`` of a call that may fall back to another model.

    Raises:
        ConfigError: a fallback without a model, or one on what there is not; names the field.
    """
    fallback = options.fallback if options.fallback is not None else profile.fallback
    if fallback is None:
        return None
    if isinstance(fallback, str):
        fallback = {"model": fallback}
    if not isinstance(fallback, Mapping) or not isinstance(fallback.get("model"), str):
        raise ConfigError(
            "ctx.agent fallback: expected {'model': 'adapter:model', 'on': ['error', 'limit', 'schema-exhausted']}",
            data={"field": "fallback"},
        )
    triggers = fallback.get("on", ("error",))
    if isinstance(triggers, str) or not all(trigger in _TRIGGERS for trigger in triggers):
        raise ConfigError(
            f"ctx.agent fallback.on: expected a list of {', '.join(map(repr, _TRIGGERS))}",
            data={"field": "fallback.on"},
        )
    return {"model": fallback["model"], "on": tuple(triggers)}


def fallback_trigger(result: AgentResult) -> str | None:
    """Return which trigger of a fallback an ended call is; None for one that no fallback is for."""
    if result.status != "error":
        return "limit" if result.status == "limit" else None
    kind = None if result.error is None else (result.error.data or {}).get("kind")
    return "schema-exhausted" if kind == "schema-mismatch" else "error"


def agent_task(run: Run, plan: AgentPlan) -> AgentTask:
    options, profile = plan.options, plan.profile
    for given, where in ((options.limits, "ctx.agent limits"), (profile.limits, "profile limits")):
        UsageLimits.of(given, where)
    retry = options.retry if options.retry is not None else profile.retry
    return AgentTask(
        prompt=plan.prompt,
        agent_type=plan.agent_type,
        label=options.label,
        role=options.role,
        choice=plan.choice,
        adapter=run.models.adapter(plan.choice.adapter_id),
        tools=plan.toolset.contracts,
        schema=plan.schema,
        system=profile.system if options.system is None else options.system,
        limits=merged_limits(options.limits, profile.limits, run.request.limits),
        compaction=Compaction.of(profile.compaction, f"profiles[{plan.agent_type!r}].compaction"),
        retry=RetryPolicy.of(retry, "ctx.agent retry") if retry is not None else run.engine.retry,
        media=options.media,
        is_conducted=options.conduct is not None,
        schema_attempts=MAX_SCHEMA_ATTEMPTS if options.conduct is None else options.conduct.schema_attempts,
    )


def brief_prompt(content: str, instruction: str | None = None) -> str:
    """Return the prompt of ``ctx.brief``."""
    if instruction is None:
        instruction = "Give a short, faithful account of the following for a reader who has not seen it."
    return f"{instruction}\n\n{content}"
