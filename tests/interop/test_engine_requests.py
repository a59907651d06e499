"""Our agent loop sends the requests that upstream's loop sends: its recordings serve ours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scenario_language import agent_options, check_words, profiles_of

from rulvar import Ctx, Engine, Tool, define_workflow, tool
from rulvar.testing import replay


def scripted_tool(facts: Mapping[str, Any]) -> Tool:
    def run(**args: Any) -> Any:
        # the result is JSON in which an argument's bare name stands for its value
        text = re.sub(r"(?<=: )([a-z]\w*)(?=[,}])", lambda name: json.dumps(args[name[1]]), facts["result"])
        return json.loads(text)

    return tool(run, name=facts["name"], description=facts["description"], parameters=facts["parameters"])


async def run_session(tape: Path, session: Mapping[str, Any]) -> Any:
    async def body(ctx: Ctx, args: Any) -> Any:
        answers = []
        for call in session["calls"]:
            check_words("a call of a session", call, {"call", "prompt", "opts"})
            assert call["call"] == "agent", f"unknown call {call['call']!r} of a session"
            opts = dict(call.get("opts", {}))
            tools = {facts["name"]: scripted_tool(facts) for facts in opts.get("tools", ())}
            if tools:
                opts["tools"] = list(tools)
            answers.append(await ctx.agent(call["prompt"], **agent_options(opts, tools)))
        return answers if len(answers) > 1 else answers[0]

    engine = Engine(
        adapters=replay(cassette=tape, on_miss="throw"),
        routing={"loop": "fake:fake-model"},
        profiles=profiles_of(session["profiles"], {}),
    )
    async with engine:
        return await engine.run(define_workflow("w", body)).result()


async def test_every_recorded_engine_session_serves_the_same_calls_of_ours(
    vectors: Path, load_vectors: Any
) -> None:
    cassettes = load_vectors("cassettes/expect.json")["cassettes"]
    sessions = [case for case in cassettes if case.get("engine")]
    if not sessions:
        pytest.skip("no session of an engine is in this set of vectors")
    wrong = {}
    for case in sessions:
        check_words("a recorded session", case["engine"], {"outcome", "profiles", "calls"})
        outcome = await run_session(vectors / "cassettes" / case["file"], case["engine"])
        expected = case["engine"]["outcome"]
        check_words("the outcome of a session", expected, {"status", "value", "usage", "error"})
        found = {"status": outcome.status, "value": outcome.value, "usage": outcome.usage.to_wire()}
        found = {name: found[name] for name in found if name in expected}
        if "error" in expected:
            told = {} if outcome.error is None else outcome.error.to_wire()
            found["error"] = {name: told.get(name) for name in expected["error"]}
        if found != expected:
            wrong[case["file"]] = (found, expected, outcome.error)
    assert not wrong
