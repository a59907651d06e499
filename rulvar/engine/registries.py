"""What an engine knows by name: adapters, profiles, prices, workflows, schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.ports.provider import Adapter
from rulvar.engine.options import adapters_by_id, mapping_of, price_table
from rulvar.engine.workflow import RunsAs, Workflow
from rulvar.errors import ConfigError
from rulvar.runtime.agent import AgentProfile

__all__ = ["Registries"]


class Registries:
    """The names of one engine; nothing is registered for the whole process.

    Raises:
        ConfigError: an entry is wrong; names it.
    """

    def __init__(
        self,
        adapters: Iterable[Adapter],
        profiles: Mapping[str, AgentProfile | Mapping[str, Any]] | None,
        pricing: Mapping[str, ModelPricing | Mapping[str, Any]] | None,
        workflows: Iterable[Workflow[Any] | type],
    ) -> None:
        self._adapters = adapters_by_id(adapters)
        self._profiles = {
            name: AgentProfile.of(name, item)
            for name, item in mapping_of(profiles, "profiles", '{"writer": {}}').items()
        }
        self._pricing = {
            reference: price_table(reference, item)
            for reference, item in mapping_of(pricing, "pricing", '{"anthropic:MODEL": {...}}').items()
        }
        self._workflows: dict[str, Workflow[Any]] = {}
        for item in workflows:
            known = self.workflow_of(item)
            if self._workflows.setdefault(known.name, known) is not known:
                raise ConfigError(
                    f"workflows: two of them are named {known.name!r}; give one another name, by which its runs "
                    "are found again",
                    data={"field": "workflows"},
                )

    def wrap_adapter(self, adapter: Adapter) -> Adapter:
        """Return what stands for an adapter that a workflow brings."""
        return adapter

    def workflow_of(self, wf: Workflow[Any] | RunsAs[Any] | type | str) -> Workflow[Any]:
        """Return a workflow, looking a name up; a state machine is compiled to one.

        Raises:
            ConfigError: no workflow of that name, or something that is none.
        """
        if isinstance(wf, Workflow):
            return wf
        compiled = getattr(wf, "__workflow__", None)
        if isinstance(compiled, Workflow):
            return compiled
        if isinstance(wf, str):
            if wf in self._workflows:
                return self._workflows[wf]
            known = ", ".join(map(repr, sorted(self._workflows))) or "none"
            raise ConfigError(
                f"no workflow named {wf!r}; the engine knows: {known}", data={"field": "workflow"}
            )
        raise ConfigError(
            f"expected a workflow made by @workflow or a StateMachine class, got {_told(wf)}; decorate the "
            "function, use define_workflow(name, fn), or derive a machine that is not abstract",
            data={"field": "workflow"},
        )

    def adapter_ids(self) -> set[str]:
        """Return the ids of the engine's adapters, and of those that its workflows bring."""
        brought = (adapter.id for workflow in self._workflows.values() for adapter in workflow.adapters)
        return {*self._adapters, *brought}

    def adapter(self, adapter_id: str) -> Adapter:
        """Return an adapter by id.

        Raises:
            ConfigError: no adapter has that id.
        """
        adapter = self._adapters.get(adapter_id)
        if adapter is None:
            known = ", ".join(map(repr, sorted(self._adapters))) or "none"
            raise ConfigError(
                f"no adapter {adapter_id!r}; the engine has: {known}", data={"field": "adapters"}
            )
        return adapter

    def profile(self, agent_type: str) -> AgentProfile:
        """Return the profile of an agent type; ``""`` is the plain one.

        Raises:
            ConfigError: no profile of that name.
        """
        if not agent_type:
            return _NO_PROFILE
        profile = self._profiles.get(agent_type)
        if profile is None:
            known = ", ".join(map(repr, sorted(self._profiles))) or "none"
            raise ConfigError(
                f"no profile for agent_type {agent_type!r}; the engine has: {known}; give it one: "
                f"Engine(profiles={{{agent_type!r}: {{}}}})",
                data={"field": "agent_type"},
            )
        return profile

    def price_of(self, reference: str) -> ModelPricing | None:
        """Return the price of a model reference, or None when nothing knows one."""
        if reference in self._pricing:
            return self._pricing[reference]
        adapter_id, _, model = reference.partition(":")
        adapter = self._adapters.get(adapter_id)
        if adapter is None:
            return None
        try:
            return adapter.caps(model).pricing
        except ConfigError:
            return None


_NO_PROFILE = AgentProfile()


def _told(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
