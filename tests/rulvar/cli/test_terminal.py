"""At a terminal: colours, a live line, and a person who is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]


def test_a_person_is_asked_and_the_run_goes_on(person: Start) -> None:
    one = person("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    one.expect("? gate")
    one.expect("Ship it?")
    one.type('{"approved": "maybe"}\n')
    one.expect("refused")
    one.expect("> ")
    one.type('{"approved": true}\n')
    one.expect("ok  release  r1")
    assert one.wait() == 0


def test_the_end_of_input_leaves_the_run_waiting(person: Start) -> None:
    one = person("run", "flows.py:release", "--arg", "version=1")
    one.expect("> ")
    one.type("\x04")
    assert one.wait() == 3


def test_an_empty_line_leaves_one_wait_open_and_asks_the_next(person: Start, project: Path) -> None:
    (project / "two.py").write_text(
        "from rulvar import workflow\n@workflow\nasync def two(ctx):\n"
        "    return await ctx.parallel([\n"
        "        lambda: ctx.await_external('a', schema={'type': 'string'}),\n"
        "        lambda: ctx.await_external('b', schema={'enum': ['x', 'y']}),\n"
        "        lambda: ctx.await_external('c', schema={'type': 'boolean'}),\n"
        "    ])\n"
    )
    one = person("run", "two.py:two")
    one.expect("? a")
    one.expect("a text")
    one.type("\n")
    one.expect("left open")
    one.expect("? b")
    one.expect('one of "x", "y"')
    one.type("z\n")
    one.expect("refused")
    one.type("y\n")
    one.expect("? c")
    one.expect("yes or no")
    one.type("yes\n")
    one.expect("? a")  # resumed: it still waits for the first
    one.type("hello\n")
    one.expect('["hello", "y", true]')
    assert one.wait() == 0


def test_ctrl_c_at_a_question_ends_the_command_and_leaves_the_run_waiting(person: Start, rulvar: Any) -> None:
    one = person("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    one.expect("> ")
    time.sleep(0.5)  # readline misses a signal between its prompt and its first look; no person is that fast
    one.type("\x03")
    assert one.wait() == 130
    assert rulvar("answer", "r1").code == 3


@pytest.mark.parametrize("words", [["--no-input"], ["--json"]])
def test_nobody_is_asked_who_does_not_want_to_be(person: Start, words: list[str]) -> None:
    one = person("run", "flows.py:release", "--arg", "version=1", *words)
    assert one.wait() == 3
    assert "? gate" not in one.plain


def test_colours_are_for_terminals_and_no_color_is_respected(person: Start) -> None:
    coloured = person("run", "flows.py:hello")
    coloured.wait()
    assert "\x1b[32mok\x1b[0m" in coloured.seen
    plain = person("run", "flows.py:hello", NO_COLOR="1")
    plain.wait()
    assert "\x1b[3" not in plain.seen
    dumb = person("run", "flows.py:hello", TERM="dumb")
    dumb.wait()
    assert "\x1b" not in dumb.seen


def test_a_live_line_shows_what_is_under_way_and_is_gone_at_the_end(person: Start, project: Path) -> None:
    (project / "rulvar_config.py").write_text(
        "import asyncio\nfrom rulvar import Engine\nfrom rulvar.testing import FakeAdapter, FAKE_MODEL_REF\n"
        "async def answer(call):\n    await asyncio.sleep(0.5)\n    return 'x'\n"
        "def engine():\n    return Engine(adapters=[FakeAdapter(agents={'*': answer})], routing={'loop': FAKE_MODEL_REF})\n"
    )
    (project / "asks.py").write_text(
        "from rulvar import workflow\n@workflow\nasync def asks(ctx):\n    return await ctx.agent('hi', label='greeter')\n"
    )
    one = person("run", "asks.py:asks")
    one.expect("0 calls")
    assert one.wait() == 0
    assert "agent " in one.plain
    last = one.seen.rsplit("\r\x1b[2K", 1)[1]
    assert "calls" not in last


def test_ctrl_c_cancels_the_run_which_settles(person: Start, rulvar: Any) -> None:
    one = person("run", "flows.py:slow", "--run-id", "r1")
    one.expect("r1")
    one.expect("calls")
    one.type("\x03")
    one.expect("cancelling")
    assert one.wait() == 130
    assert "Traceback" not in one.plain
    [run] = rulvar("runs", "ls", "--json").json["runs"]
    assert run["status"] == "cancelled"
