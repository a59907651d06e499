"""Agents as values: what an agent is made of, checked when it is defined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from rulvar.agents.execution import agent_workflow
from rulvar.agents.guards import AgentGuards
from rulvar.agents.hooks import Hook, Hooks
from rulvar.agents.limits import Limits
from rulvar.agents.stream import StreamPolicy
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ToolContract
from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.contracts.strictness import closed_schema
from rulvar.contracts.type_variables import Value
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError
from rulvar.tools.tool import Tool
from rulvar.tools.toolset import Toolset

__all__ = ["Agent", "check_agent"]

_ID = re.compile(r"[a-zA-Z0-9_.:/-]{1,128}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Agent(Generic[Value]):
    """A model loop as a value: it runs like a workflow, ``engine.run(agent, input)``.

    What it may use is granted to the engine: ``model:<adapter id>``, and for each tool what
    ``tool_grants`` says. The first tool that fails ends it; its answer must fit ``output``.

    Args:
        id: names it in events, grants and journals.
        version: change it when the agent's meaning changes.
        instructions: the system message.
        model: an adapter, an adapter's ``model("name")``, or a reference ``"adapter:model"`` of the engine.
        tools: what it may call.
        input: shape of its input: JSON Schema or type. None takes any JSON value.
        output: shape of its answer: JSON Schema or type. None takes text.
        guards: of input and answer.
        hooks: functions at named points.
        stream: what of the answer is told while it is being written.
        limits: bounds of one run; those that a run is given hold beside them, and instead of them when the agent
            itself is given none.
        media: media types that its input may carry; see ``AgentInput``.
        effort: low, medium, high, xhigh or max.
        description: what a model reads of it when it is a tool.

    Raises:
        ConfigError: a part is wrong, or refused by the model's provider; the message begins with the id.
    """

    id: str
    version: str = "1"
    instructions: str = ""
    model: Any = None
    tools: Sequence[Tool] = ()
    input: Any = None
    output: Any = None
    guards: AgentGuards = field(default_factory=AgentGuards)
    hooks: Sequence[Hook] = ()
    stream: StreamPolicy | None = None
    limits: Limits = None  # type: ignore[assignment]
    media: Sequence[str] = ()
    effort: str | None = None
    description: str = ""
    toolset: Toolset = field(init=False, repr=False)
    input_contract: SchemaContract | None = field(init=False, repr=False)
    output_contract: SchemaContract | None = field(init=False, repr=False)
    hook_table: Hooks = field(init=False, repr=False)
    adapter: Any = field(init=False, repr=False)
    is_bounded: bool = field(init=False, repr=False)
    reference: str = field(init=False, repr=False)
    __workflow__: Workflow[Value] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ConfigError(
                f"agent id {self.id!r}: use 1 to 128 characters of a-z A-Z 0-9 _ . : / -",
                data={"field": "id", "code": "invalid_config"},
            )
        try:
            self._resolve()
            check_agent(self, None if self.adapter is None else self.model)
            self._set("__workflow__", agent_workflow(self))
        except ConfigError as error:
            raise invalid_config(self.id, error) from None

    def _resolve(self) -> None:
        for name in ("tools", "hooks"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise ConfigError(
                    f"{name}: expected a list, got {type(given).__name__}", data={"field": name}
                )
            self._set(name, tuple(given))
        self._set("media", (self.media,) if isinstance(self.media, str) else tuple(self.media))
        self._set("is_bounded", self.limits is not None)
        self._set("limits", Limits.of(self.limits))
        if not self.guards:
            self._set("guards", AgentGuards())
        if not isinstance(self.guards, AgentGuards):
            raise ConfigError(
                "guards: expected AgentGuards(input=[...], output=[...])", data={"field": "guards"}
            )
        if self.stream is not None and not isinstance(self.stream, StreamPolicy):
            raise ConfigError("stream: expected a StreamPolicy", data={"field": "stream"})
        self._set("toolset", Toolset(_with_unique_names(self.tools)))
        self._set("input_contract", None if self.input is None else schema_contract(self.input, "input"))
        self._set("output_contract", None if self.output is None else _output_contract(self.output))
        self._set("hook_table", Hooks(self.hooks, self.id))
        adapter, reference = _model(self.model)
        self._set("adapter", adapter)
        self._set("reference", reference)
        learn = getattr(adapter, "learn_tools", None)
        if learn is not None:  # a scripted model, whose script names tools by id
            learn({item.id: item.name for item in self.toolset})

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def model_name(self) -> str:
        """The part of the model's reference after the adapter's id."""
        return self.reference.partition(":")[2]


def check_agent(agent: Agent[Any], model: Any) -> None:
    """Check that a model takes an agent: its tools, its answer, its media. Nothing is sent.

    Args:
        model: an adapter, or an adapter's ``model("name")``.

    Raises:
        ConfigError: it does not; the message begins with the agent's id and names the field.
    """
    if model is None:
        return
    try:
        adapter, chosen = _adapter(model)
        name, check = chosen or agent.model_name, getattr(adapter, "check_agent", None)
        _check_caps(agent, adapter.caps(name))
        if check is not None:
            output = None if agent.output_contract is None else agent.output_contract.json
            contracts: tuple[ToolContract, ...] = agent.toolset.contracts
            check(contracts, output, model=name, media=agent.media)
    except ConfigError as error:
        raise invalid_config(agent.id, error) from None


def _check_caps(agent: Agent[Any], caps: ModelCaps) -> None:
    if agent.stream is not None and agent.output_contract is None:
        raise ConfigError(
            "stream: a field is streamed out of a structured answer; give output=", data={"field": "stream"}
        )
    if agent.limits.max_output_tokens < (caps.min_output_tokens_per_turn or 1):
        raise ConfigError(
            f"limits.max_output_tokens: the model takes {caps.min_output_tokens_per_turn} at least",
            data={"field": "limits.max_output_tokens"},
        )


def invalid_config(agent_id: str, error: ConfigError) -> ConfigError:
    """Return a definition's error with the agent's id in front."""
    prefix = f"agent {agent_id!r}: "
    if error.message.startswith(prefix):
        return error
    return ConfigError(
        prefix + error.message, data={"code": "invalid_config", "agent": agent_id, **error.data}
    )


def _output_contract(output: Any) -> SchemaContract:
    """Return the contract of an answer; objects that say nothing of other members are closed."""
    contract = schema_contract(output, "output")
    return SchemaContract(closed_schema(contract.json), contract.revive)


def _with_unique_names(tools: Iterable[Any]) -> list[Tool]:
    """Return tools under names that a model can tell apart: ids that look alike get a number."""
    from dataclasses import replace

    named: dict[str, Tool] = {}
    for item in tools:
        if not isinstance(item, Tool):
            raise ConfigError(f"tools: expected a tool, got {type(item).__name__}", data={"field": "tools"})
        if any(known.id == item.id for known in named.values()):
            raise ConfigError(f"tools: two tools have the id {item.id!r}", data={"field": "tools"})
        name, number = item.name, 2
        while name in named:
            tail = f"_{number}"
            name, number = item.name[: 64 - len(tail)] + tail, number + 1
        named[name] = item if name == item.name else replace(item, name=name)
    return list(named.values())


def _model(model: Any) -> tuple[Any, str]:
    """Return an agent's adapter (None for one of the engine's) and its model reference."""
    if model is None:
        raise ConfigError("model: give an adapter, or a reference 'adapter:model'", data={"field": "model"})
    if isinstance(model, str):
        if not all(model.partition(":")):
            raise ConfigError(f"model {model!r}: expected 'adapter:model'", data={"field": "model"})
        return None, model
    adapter, name = _adapter(model)
    if name is None:
        raise ConfigError(
            f"model: adapter {adapter.id!r} serves many models; make it with model='name', or pass "
            "adapter.model('name')",
            data={"field": "model"},
        )
    return adapter, f"{adapter.id}:{name}"


def _adapter(model: Any) -> tuple[Any, str | None]:
    """Return the adapter behind a model, and which of its models is meant; None when nothing says so."""
    bound = getattr(model, "adapter", None)
    adapter = model if bound is None else bound
    name = getattr(model, "default_model" if bound is None else "name", None)
    if not callable(getattr(adapter, "stream", None)) or not isinstance(getattr(adapter, "id", None), str):
        raise ConfigError(
            f"model: {type(model).__name__} is no adapter; it needs id, caps() and stream()",
            data={"field": "model"},
        )
    return adapter, name if isinstance(name, str) and name else None
