"""A test engine: the real engine over a scripted model and an in-memory store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from rulvar.engine.engine import Engine
from rulvar.engine.options import list_of, mapping_of
from rulvar.runtime.agent import AgentProfile
from rulvar.runtime.clock import SystemClock
from rulvar.runtime.router import ROLES
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.fake import FAKE_MODEL_REF, FakeAdapter

__all__ = ["TestEngine", "create_test_engine", "fake_routing"]


class TestEngine(Engine):
    """An engine whose models are scripted.

    Attributes:
        fake: the scripted adapter; ``fake.calls`` lists every request that it served, in order.
        store: the in-memory store; ``await store.load(run_id)`` captures a journal.
    """

    __test__ = False
    fake: FakeAdapter
    store: InMemoryStore


class ImpatientClock(SystemClock):
    """Wall time, but nobody waits: retries in tests are immediate."""

    __slots__ = ()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def create_test_engine(
    *,
    agents: Mapping[str, Any] | None = None,
    profiles: Mapping[str, AgentProfile | Mapping[str, Any]] | None = None,
    routing: Mapping[str, Any] | None = None,
    adapters: Iterable[Any] = (),
    caps_overrides: Any = None,
    **options: Any,
) -> TestEngine:
    """Build a real engine over a fake model and an in-memory store.

    Args:
        agents: pattern to responder: a string (text), another JSON value (structured answer), a
            function of the call, ``fake_tool_calls(...)``, ``fake_wire_error(...)``, or a list of
            these used in order. A pattern matches the agent type, the label, or, as a regular
            expression, the prompt; the first match counts and ``"*"`` is the fallback.
        profiles: agent type to profile; every key of ``agents`` gets an empty one.
        routing: over the default, which routes every role to the fake model.
        adapters: further adapters beside the fake one.
        caps_overrides: changes to what the fake model declares to be able to; see FakeAdapter.
        options: the other options of :class:`~rulvar.Engine`.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    answers = mapping_of(agents, "agents", '{"*": "an answer"}')
    fake = FakeAdapter(
        agents=answers,
        caps_overrides=mapping_of(caps_overrides, "caps_overrides", '{"context_window": 1000}'),
    )
    known: dict[str, Any] = {name: {} for name in answers if name != "*"}
    known.update(mapping_of(profiles, "profiles", '{"reviewer": {"effort": "high"}}'))
    options.setdefault("clock", ImpatientClock())
    engine = TestEngine(
        adapters=[fake, *list_of(adapters, "adapters", "adapters")],
        profiles=known,
        routing={**fake_routing(), **mapping_of(routing, "routing", '{"loop": "fake:fake-model"}')},
        **options,
    )
    engine.fake = fake
    return engine


def fake_routing() -> dict[str, str]:
    """Return the routing of test engines: every role to the fake model."""
    return dict.fromkeys(ROLES, FAKE_MODEL_REF)
