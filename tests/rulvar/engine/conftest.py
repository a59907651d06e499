"""Runs a body as a workflow over the fake tier."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rulvar import Outcome, define_workflow
from rulvar.testing import TestEngine, create_test_engine

Body = Callable[..., Awaitable[Any]]


class Bench:
    """One engine, and runs of bodies on it."""

    def __init__(self, **options: Any) -> None:
        self.engine: TestEngine = create_test_engine(**{"agents": {"*": "x"}, **options})

    async def run(self, body: Body, args: Any = None, run_id: str = "r1", **options: Any) -> Outcome:
        self.workflow = define_workflow("w", body)
        self.handle = self.engine.run(self.workflow, args, run_id=run_id, **options)
        return await self.handle.result()

    async def resume(self, body: Body | None = None, args: Any = None, **options: Any) -> Outcome:
        workflow = self.workflow if body is None else define_workflow("w", body)
        self.handle = self.engine.resume("r1", workflow, args=args, **options)
        return await self.handle.result()

    async def entries(self, run_id: str = "r1") -> list[dict[str, Any]]:
        return [entry.to_wire() for entry in await self.engine.store.load(run_id)]

    async def shape(self) -> list[str]:
        return [f"{e['kind']} {e['status']} {e['scope']}".strip() for e in await self.entries()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    return Bench
