"""A failure that is about the user's code shows the user's line and the message, and no line of rulvar's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_project import Project

SUITE = """
import pytest
from rulvar import Ctx, tool, workflow
from rulvar.testing import (
    assert_called_agent, contract_fake, create_test_engine, replay, replay_run, run_workflow, tool_mock
)

@workflow
async def review(ctx: Ctx, args):
    return await ctx.agent("look", agent_type="reviewer")

@tool
def search(q: str) -> str:
    return q

async def test_option():
    create_test_engine(agents={}, permissions={"den": []})  # HERE

async def test_keyword():
    create_test_engine(agentz={})  # HERE

async def test_answer():
    await run_workflow(review, models=[], answers=["no mapping"])  # HERE

async def test_matcher():
    engine = create_test_engine(agents={"reviewer": "ok"})
    await assert_called_agent(engine.run(review), "judge")  # HERE

async def test_mock():
    tool_mock(search).assert_awaited_once_with({"q": "x"})  # HERE

async def test_unwrap():
    (await create_test_engine(agents={"x": "ok"}).run(review).result()).unwrap()  # HERE

def test_cassette():
    replay(cassette="nosuch.jsonl")  # HERE

@pytest.fixture
def broken():
    return contract_fake(search).returns({"data": 7, "odd": 1})  # HERE

def test_fixture(broken):
    pass
"""
INTERNAL = """
from rulvar.testing import replay, replayer

def test_internal(monkeypatch):
    monkeypatch.setattr(replayer, "read_cassette", None)
    replay(cassette="nosuch.jsonl")
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_no_frame_of_rulvar_is_shown_when_it_says_what_is_wrong(project: Project) -> None:
    project.write("test_suite.py", SUITE)
    shown = project.pytest().stdout
    sections = [part for part in shown.split("\n____")[1:] if "# HERE" in part]
    assert len(sections) == SUITE.count("# HERE")
    for section in sections:
        assert "rulvar/" not in section.split("short test summary")[0], section
        code = [line for line in section.splitlines() if line.startswith((">", "E  "))]
        assert code[0].startswith(">")
        assert code[0].endswith("# HERE")
        assert code[1].startswith("E  ")


def test_every_frame_is_shown_when_it_is_asked_for(project: Project) -> None:
    project.write("test_suite.py", SUITE)
    assert "rulvar/testing/engine.py" in project.pytest("--full-trace", "-k", "option").stdout


def test_a_fault_of_rulvar_itself_is_shown_whole(project: Project) -> None:
    project.write("test_internal.py", INTERNAL)
    shown = project.pytest().stdout
    assert "TypeError: 'NoneType' object is not callable" in shown
    assert "rulvar/testing/replayer.py" in shown


def test_a_cause_is_shortened_too(project: Project) -> None:
    project.write(
        "test_cause.py",
        """
        from rulvar.testing import replay

        def test_cause():
            try:
                replay(cassette="nosuch.jsonl")
            except Exception as error:
                raise RuntimeError("no tape") from error
        """,
    )
    shown = project.pytest().stdout
    assert "nosuch.jsonl: cannot read the cassette" in shown
    assert "no tape" in shown
    assert "rulvar/testing/" not in shown


def test_members_of_a_group_and_tests_of_unittest_are_shortened_too(project: Project) -> None:
    project.write(
        "test_group.py",
        """
        import asyncio
        import unittest
        from rulvar.testing import replay

        async def one():
            replay(cassette="nosuch.jsonl")

        async def test_group():
            async with asyncio.TaskGroup() as group:
                group.create_task(one())

        class TestOld(unittest.TestCase):
            def test_old(self):
                replay(cassette="nosuch.jsonl")
        """,
    )
    shown = project.pytest().stdout
    assert shown.count("nosuch.jsonl: cannot read the cassette") >= 2
    assert "2 failed" in shown
    assert "rulvar/testing/" not in shown


def test_exceptions_of_every_make_are_shown(project: Project) -> None:
    project.write(
        "test_odd.py",
        """
        from dataclasses import dataclass
        from rulvar.testing import replay

        @dataclass(frozen=True)
        class Frozen(Exception):
            why: str

        class Nowhere(Exception):
            __module__ = None

        class Empty(Exception):
            def __len__(self):
                return 0

        class Mute(TypeError):
            def __str__(self):
                raise ValueError

        def chained(outer, inner):
            try:
                try:
                    replay(cassette="nosuch.jsonl")
                except Exception as error:
                    raise inner from error
            except Exception as error:
                raise outer from error

        def test_frozen():
            chained(RuntimeError("outer"), Frozen("f"))

        def test_nowhere():
            chained(RuntimeError("outer"), Nowhere("n"))

        def test_empty():
            chained(RuntimeError("outer"), Empty())

        def test_mute():
            chained(RuntimeError("outer"), Mute())

        async def test_raised_by_a_listener(monkeypatch):
            import pytest
            from rulvar.testing import create_test_engine
            for error in (Nowhere(), Mute()):
                async def body(ctx, args, error=error): raise error
                engine = create_test_engine()
                (await engine.run(body).result()).unwrap()
        """,
    )
    shown = project.pytest().stdout
    assert "INTERNALERROR" not in shown
    assert "5 failed" in shown
    assert shown.count("nosuch.jsonl: cannot read the cassette") >= 4
    assert "rulvar/testing/replay" not in shown
