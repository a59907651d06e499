"""Who is called back by a run: what goes wrong there is told, and never reaches the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rulvar import Ctx, define_workflow
from rulvar.errors import ConfigError
from rulvar.testing import create_test_engine


async def test_a_listener_that_fails_is_told_to_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("a", lambda: 1)

    run = create_test_engine(agents={}).run(define_workflow("w", body), run_id="r")
    run.on("*", lambda event: event["nothing"])
    assert (await run.result()).status == "ok"
    [record] = caplog.records
    assert record.name == "rulvar" and "run r " in record.getMessage()
    assert record.exc_info is not None and record.exc_info[0] is KeyError


@pytest.mark.parametrize("callback", [asyncio.sleep, None, "print"])
async def test_a_listener_that_cannot_be_called_plainly_is_refused(callback: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return None

    run = create_test_engine(agents={}).run(define_workflow("w", body))
    with pytest.raises(ConfigError, match=r"a listener to 'run:end'.*run\.events"):
        run.on("run:end", callback)
    assert (await run.result()).status == "ok"


async def test_a_watcher_that_fails_is_told_to_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return 1

    engine = create_test_engine(agents={})
    engine.watch(lambda handle: handle.nothing)
    for _ in range(2):
        assert (await engine.run(define_workflow("w", body)).result()).status == "ok"
    [record] = caplog.records
    assert record.name == "rulvar" and "watcher" in record.getMessage()
