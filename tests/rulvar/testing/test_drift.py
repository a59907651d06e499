"""Where a replayed script and the calls of a run part, the message says what, where and in which file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulvar import MachineCtx, StateMachine, tool, transition
from rulvar.errors import ConfigError, ReplayLeftoverError
from rulvar.testing import load_fixture, run_workflow

LONG = "x" * 700


@tool
def send(text: str, to: list[str]) -> int:
    """Send a text."""
    return len(to)


class Sender(StateMachine):
    @transition
    async def go(self, ctx: MachineCtx) -> None:
        args = {"text": f"{LONG} new {LONG}", "to": ["a", "b"]}
        ctx.result["sent"] = await ctx.call_tool(send, args)


def entry(**fields: Any) -> dict[str, Any]:
    return {"tool": "send", "envelope": {"data": 1}, **fields}


def script(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"version": 3, "recordings": list(entries)}


def written(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps(script(*entries)))
    return path


async def drift(replay: Any) -> str:
    run = await run_workflow(Sender, replay=replay)
    assert run.outcome.error is not None
    assert run.outcome.error.code == "replay_drift"
    return run.outcome.error.message


async def test_long_values_are_shown_where_they_part() -> None:
    text = await drift(script(entry(args={"text": f"{LONG} old {LONG}", "to": ["a", "b"]})))
    assert "args.text: recorded …" in text
    assert " old " in text
    assert " new " in text
    assert len(text) < 500


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"text": f"{LONG} new {LONG}", "to": ["a", "c"]}, "args.to[1]: recorded c, got b"),
        ({"text": f"{LONG} new {LONG}", "to": ["a"]}, "args.to[1]: recorded nothing, got b"),
        ({"text": f"{LONG} new {LONG}"}, 'args.to: recorded nothing, got ["a","b"]'),
        ({"text": f"{LONG} new {LONG}", "to": ["a", "b"], "cc": 1}, "args.cc: recorded 1, got nothing"),
    ],
)
async def test_the_path_of_the_first_difference_is_named(args: dict[str, Any], told: str) -> None:
    assert told in await drift(script(entry(args=args)))


async def test_every_deviation_names_the_file_and_says_what_to_do(tmp_path: Path) -> None:
    other_tool = entry() | {"tool": "fetch"}
    for wrong in (other_tool, entry(transition="begin"), entry(args={})):
        path = written(tmp_path / "script.json", wrong)
        text = await drift(path)
        assert f"{path}: response #1" in text
        assert "re-record" in text
    text = await drift(written(tmp_path / "empty.json"))
    assert f"{tmp_path / 'empty.json'}: the script is exhausted: call 1" in text
    assert "re-record" in text
    path = written(tmp_path / "long.json", entry(), entry())
    with pytest.raises(ReplayLeftoverError) as caught:
        await run_workflow(Sender, replay=path)
    assert str(path) in str(caught.value)
    assert "left 1 recorded response over" in str(caught.value)


def test_a_fixture_that_is_no_json_says_why_and_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "script.json", entry())
    good = json.dumps(script(entry()), indent=2)
    cases = {
        "a byte order mark: save the file as UTF-8 without one": b"\xef\xbb\xbf" + good.encode(),
        "UTF-16: save the file as UTF-8": good.encode("utf-16"),
        "line 3: not JSON but a merge conflict: keep one of its sides": (
            b'{"version": 3,\n"recordings": [\n<<<<<<< HEAD\n],\n=======\n]\n>>>>>>> side\n}'
        ),
        "git lfs pull": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    }
    for told, data in cases.items():
        path.write_bytes(data)
        with pytest.raises(ConfigError) as caught:
            load_fixture(path)
        assert str(path) in str(caught.value)
        assert told in str(caught.value)
    path.write_bytes(good.replace("\n", "\r\n").encode())
    assert len(load_fixture(path)) == 1
