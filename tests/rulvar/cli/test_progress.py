"""Progress names what is under way, for how long and for how much, and says nothing twice."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar.cli.progress import Progress
from rulvar.cli.terminal import Terminal
from rulvar.contracts.events import Event

Rulvar = Callable[..., Any]
CONFIG = """
    import asyncio
    from rulvar import Engine
    from rulvar.testing import FAKE_MODEL_REF, FakeAdapter, fake_wire_error

    async def slow(call):
        await asyncio.sleep(1.5)
        return "done"

    refused = fake_wire_error(code="config", message="no such model", retryable=False, data={"kind": "config"})

    def engine():
        return Engine(
            adapters=[FakeAdapter(agents={"reviewer": slow, "broken": refused, "*": "text"})],
            routing={"loop": FAKE_MODEL_REF},
            profiles={"reviewer": {}, "broken": {}},
        )
"""
ASKS = """
    import asyncio
    from rulvar import workflow

    @workflow(name="asks")
    async def asks(ctx, args):
        return await ctx.agent("look", agent_type=args["who"], label=args.get("label"))

    @workflow(name="loads")
    async def loads(ctx, args):
        await ctx.parallel([lambda n=n: ctx.step(f"load part {n}", lambda: asyncio.sleep(1.2)) for n in range(args["parts"])])
"""


@pytest.fixture
def asks(project: Path) -> Path:
    (project / "rulvar_config.py").write_text(textwrap.dedent(CONFIG))
    (project / "asks.py").write_text(textwrap.dedent(ASKS))
    return project


def test_the_live_line_names_the_call_under_way_and_how_long_it_takes(asks: Path, person: Any) -> None:
    at = person("run", "asks.py:asks", "--arg", "who=reviewer")
    at.expect("0 calls  reviewer 0.")
    at.expect("reviewer 1.")
    assert at.wait() == 0
    assert re.search(r"^ +1\.\ds  agent reviewer  ok", at.plain.replace("\r", "\n"), re.MULTILINE)


def test_the_live_line_names_a_call_as_its_author_did(asks: Path, person: Any) -> None:
    at = person("run", "asks.py:asks", "--arg", "who=reviewer", "--arg", "label=first look")
    at.expect("0 calls  first look 0.")
    assert at.wait() == 0


def test_the_live_line_names_steps_and_counts_those_that_are_too_many(asks: Path, person: Any) -> None:
    at = person("run", "asks.py:loads", "--arg", "parts=10", COLUMNS="300")
    at.expect("load part 0 0.")
    at.expect("load part 7 0.")
    at.expect(", 2 more")
    assert at.wait() == 0


def test_the_live_line_fits_a_narrow_terminal(asks: Path, person: Any) -> None:
    at = person("run", "asks.py:asks", "--arg", "who=reviewer", COLUMNS="20")
    assert at.wait() == 0
    frames = [part for part in at.seen.split("\r\x1b[2K") if "calls" in part]
    assert frames
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", frame).split("\r")[0]) < 20 for frame in frames[:-1])


def test_an_error_is_told_once_and_no_word_is_doubled(asks: Path, rulvar: Rulvar) -> None:
    done = rulvar("run", "asks.py:asks", "--arg", "who=broken")
    assert done.code == 1
    assert [line for line in done.err.splitlines() if "agent broken" in line] == [
        next(line for line in done.err.splitlines() if "agent broken  error  no such model" in line)
    ]
    boom = rulvar("run", "flows.py:boom").out
    assert "  error    it broke" in boom.splitlines()
    assert not re.search(r"\b(\w+)\s+\1\b", boom)


class Handle:
    """A run whose events a test tells."""

    def under_way(self) -> tuple[Any, ...]:
        return ()

    def on(self, kind: str, see: Callable[[Event], None]) -> Callable[[], None]:
        self.see = see
        return lambda: None


def test_a_call_keeps_the_name_that_it_began_with(capsys: pytest.CaptureFixture[str]) -> None:
    handle = Handle()
    progress = Progress(Terminal())
    progress.follow(handle)  # type: ignore[arg-type]
    common = {"runId": "r", "seq": 1, "ts": "2026-01-01T00:00:00.000Z", "spanId": "s1", "agentType": ""}
    handle.see(Event({**common, "type": "agent:start", "model": "m:large", "label": "the title"}))
    usage = {"inputTokens": 2, "outputTokens": 1}
    handle.see(Event({**common, "type": "agent:end", "status": "ok", "usage": usage, "costUsd": 0.25}))
    told = capsys.readouterr().err
    assert "agent the title  ok  2 in / 1 out  $0.25" in told
