"""How tests of agents run one, and what they look at afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Engine, InMemoryStore
from rulvar.agents import Agent


class Told:
    """A run, and everything that it told."""

    def __init__(self, engine: Engine, handle: Any, outcome: Any, entries: list[Any], store: Any) -> None:
        self.engine, self.handle, self.outcome = engine, handle, outcome
        self.entries, self.store = entries, store
        self.view = engine.inspect(handle)
        self.budget = self.view.budget

    @property
    def status(self) -> str:
        return str(self.outcome.status)

    @property
    def code(self) -> str | None:
        return None if self.outcome.error is None else self.outcome.error.code

    @property
    def text(self) -> str:
        return "" if self.outcome.error is None else self.outcome.error.message

    async def events(self, type_: str) -> list[Any]:
        return [event async for event in self.handle.observe() if event.type == type_]

    async def types(self) -> list[str]:
        return [event.type async for event in self.handle.observe()]

    @property
    def everything(self) -> str:
        events = [event.to_wire() for event in self.handle.events_seen()]
        return repr((self.outcome, self.entries, events))


async def run_agent(agent: Agent[Any], value: Any = "hi", *, run: Any = None, **options: Any) -> Told:
    store = options.pop("journal", None) or InMemoryStore()
    async with Engine(journal=store, **options) as engine:
        handle = engine.run(agent, value, **{"run_id": "r", **(run or {})})
        outcome = await handle.outcome
        entries = [entry.to_wire() for entry in await store.load("r")]
        return Told(engine, handle, outcome, entries, store)


@pytest.fixture
def run() -> Any:
    return run_agent
