"""Which model serves a call: the call's own choice, then its profile's, the workflow's, the engine's.

Each of the four may say a part of it: a model, an effort, options for providers. Model and effort are
taken from the nearest place that says them, options from all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rulvar.contracts.capabilities import ModelCaps
from rulvar.errors import ConfigError

__all__ = ["ROLES", "ModelChoice", "choose_model", "scrubbed", "sent_options"]

ROLES = ("orchestrate", "plan", "loop", "finalize", "extract", "summarize", "synthesize")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
ROLE_EFFORTS: Mapping[str, str] = {
    "orchestrate": "high",
    "plan": "high",
    "summarize": "low",
    "extract": "low",
}
"""Effort of a role when nothing else sets one; it is part of the call's identity."""
_SAMPLING = ("temperature", "top_p", "top_k")


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """A model, and how to ask it.

    Attributes:
        reference: ``adapter:model``.
        effort: part of the call's identity; None when nothing set it.
        adapter_id: the part of the reference before the first colon.
        model: the part after it.
    """

    reference: str
    effort: str | None = None
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    adapter_id: str = field(init=False)
    model: str = field(init=False)

    def __post_init__(self) -> None:
        adapter_id, _, model = self.reference.partition(":")
        self.__dict__.update(adapter_id=adapter_id, model=model)


class RoutingLayer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One place that may choose a model: a call, a profile, a workflow or the engine."""

    where: str
    model: Any = None
    effort: str | None = None
    routing: Mapping[str, Any] | None = None


def choose_model(role: str, layers: Iterable[RoutingLayer]) -> ModelChoice:
    """Return the model, the effort and the provider options that hold for a role.

    Args:
        layers: from the nearest to the farthest; each of model and effort comes from the first that has
            it. Provider options are merged by namespace, and the nearest layer's win.

    Within a layer ``routing[role]`` wins over ``model``, and its own ``effort`` over that of a choice.

    Raises:
        ConfigError: no layer names a model, or one names it wrongly.
    """
    if role not in ROLES:
        raise ConfigError(f"role {role!r}: use one of {', '.join(ROLES)}", data={"field": "role"})
    reference: str | None = None
    effort: str | None = None
    options: dict[str, Any] = {}
    for layer in layers:
        effort = effort or layer.effort
        if layer.model is None and layer.routing is None:
            continue
        own: Mapping[str, Any] | None = None
        for named in ((layer.routing or {}).get(role), layer.model):
            if named is not None:
                choice = _model_choice(named, layer.where)
                reference = reference or choice.reference
                effort = effort or choice.effort
                if own is None and type(named) is not str and isinstance(named, Mapping):
                    own = named.get("provider_options")
        if own:
            options = _merged(own, options)
    if reference is None:
        raise ConfigError(
            f"no model for role {role!r}: give the call, the profile or the workflow a model, or the engine "
            f'routing={{"{role}": "adapter:model"}}',
            data={"field": "routing", "role": role},
        )
    effort = effort or ROLE_EFFORTS.get(role)
    if effort is not None and effort not in EFFORTS:
        raise ConfigError(f"effort {effort!r}: use one of {', '.join(EFFORTS)}", data={"field": "effort"})
    return ModelChoice(reference=reference, effort=effort, provider_options=options)


def sent_options(choice: ModelChoice, caps: ModelCaps) -> dict[str, Any]:
    """Return the provider options as they are sent: without sampling for a model that takes none."""
    own = choice.provider_options.get(choice.adapter_id)
    if caps.supports_temperature or not isinstance(own, Mapping):
        return dict(choice.provider_options)
    kept = {name: value for name, value in own.items() if name not in _SAMPLING}
    return {**choice.provider_options, choice.adapter_id: kept}


def scrubbed(choice: ModelChoice, caps: ModelCaps) -> list[str]:
    """Return what is asked for and not sent, since the model does not take it; each a sentence for people."""
    notes = []
    if choice.effort is not None and choice.effort not in caps.reasoning_efforts:
        notes.append(f"{choice.reference} takes no effort {choice.effort!r}: it is asked without one")
    own = choice.provider_options.get(choice.adapter_id)
    if caps.supports_temperature or not isinstance(own, Mapping):
        return notes
    names = [name for name in _SAMPLING if name in own]
    if names:
        notes.append(f"{choice.reference} takes no {', '.join(names)}: it is asked without")
    return notes


def _merged(lower: Mapping[str, Any], higher: Mapping[str, Any]) -> dict[str, Any]:
    """Return provider options with those of a nearer layer over them, namespace by namespace."""
    merged = dict(lower)
    for namespace, options in higher.items():
        below = merged.get(namespace)
        if isinstance(below, Mapping) and isinstance(options, Mapping):
            options = {**below, **options}
        merged[namespace] = options
    return merged


def check_layer(where: str, model: Any, effort: Any, routing: Any) -> None:
    """Check what one layer says about models before any call asks for one.

    Raises:
        ConfigError: names the field, and what is allowed.
    """
    if model is not None:
        _model_choice(model, where)
    if effort is not None and effort not in EFFORTS:
        raise ConfigError(
            f"{where}.effort={effort!r}: use one of {', '.join(EFFORTS)}", data={"field": f"{where}.effort"}
        )
    if routing is None:
        return
    if not isinstance(routing, Mapping):
        raise ConfigError(
            f"{where}.routing: expected a mapping of roles to models, got {type(routing).__name__}",
            data={"field": f"{where}.routing"},
        )
    for role, named in routing.items():
        if role not in ROLES:
            raise ConfigError(
                f"{where}.routing: no role {role!r}; the roles are {', '.join(ROLES)}",
                data={"field": f"{where}.routing.{role}"},
            )
        if named is not None:
            _model_choice(named, f"{where}.routing[{role!r}]")


def _model_choice(named: Any, where: str) -> ModelChoice:
    if isinstance(named, str):
        named = {"model": named}
    if not isinstance(named, Mapping) or set(named) - {"model", "effort", "provider_options"}:
        raise ConfigError(
            f"{where} model {named!r}: expected 'adapter:model' or {{model, effort, provider_options}}",
            data={"field": "model"},
        )
    reference = named.get("model")
    if not isinstance(reference, str) or not all(reference.partition(":")):
        raise ConfigError(f"{where} model {reference!r}: expected 'adapter:model'", data={"field": "model"})
    options = named.get("provider_options")
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(
            f"{where} model: provider_options: expected a mapping of namespaces to options, got "
            f"{type(options).__name__}",
            data={"field": "model.provider_options"},
        )
    return ModelChoice(reference=reference, effort=named.get("effort"), provider_options=options or {})
