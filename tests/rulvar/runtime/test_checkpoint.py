"""A checkpoint is a byte and JSON; a turn that is under way stands in it apart, and goes on where it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rulvar import Ctx, define_workflow, tool
from rulvar.contracts.messages import ImagePart, Msg, TextPart
from rulvar.runtime.checkpoint import LoopState, decode_checkpoint, encode_checkpoint
from rulvar.testing import create_test_engine, fake_tool_calls


class Desk:
    """An agent that asks for three tool calls at once, the second of which a human must allow."""

    def __init__(self) -> None:
        self.ran: list[int] = []

        @tool
        def note(n: int) -> dict[str, int]:
            """Note."""
            self.ran.append(n)
            return {"noted": n}

        @tool(needs_approval=True)
        def pay(n: int) -> str:
            """Pay."""
            self.ran.append(n)
            return "paid"

        async def body(ctx: Ctx, args: Any) -> Any:
            return await ctx.agent("go", tools=[note, pay])

        def model(call: Any) -> Any:
            if call.req.messages[-1].role == "tool":
                return "end"
            named = [("note", 1), ("pay", 2), ("note", 3)]
            return fake_tool_calls(*({"name": name, "args": {"n": n}} for name, n in named))

        self.flow = define_workflow("w", body)
        self.engine = create_test_engine(agents={"*": model})

    async def suspend(self) -> Any:
        handle = self.engine.run(self.flow, run_id="r")
        outcome = await handle.result()
        assert outcome.status == "suspended"
        return handle, outcome

    @property
    def blobs(self) -> Any:
        return self.engine.store.transcripts

    async def allow(self, suspended: Any) -> Any:
        handle, outcome = suspended
        await handle.resolve_external(outcome.pending[0].key, {"decision": "allow"})
        return await self.engine.resume("r", self.flow).result()


async def test_a_turn_under_way_stands_apart_with_what_was_answered_and_what_was_not() -> None:
    desk = Desk()
    async with desk.engine:
        await desk.suspend()
        blob = bytes(await desk.blobs.get("r/ckpt/0"))
    assert blob[:1] == b"\x01"
    kept = json.loads(blob[1:])
    assert [message["role"] for message in kept["messages"]] == ["user", "assistant"]
    pending = kept["pending"]
    assert [(done["name"], done["result"]) for done in pending["executed"]] == [("note", {"noted": 1})]
    assert (pending["awaiting"]["name"], pending["awaiting"]["args"]) == ("pay", {"n": 2})
    assert [call["args"] for call in pending["remaining"]] == [{"n": 3}]
    assert kept["toolCallsUsed"] == 1
    assert kept["compaction"] == []


async def test_a_resumed_turn_runs_only_the_tools_that_have_not_answered() -> None:
    desk = Desk()
    async with desk.engine:
        suspended = await desk.suspend()
        outcome = await desk.allow(suspended)
        kept = json.loads(bytes(await desk.blobs.get("r/ckpt/0"))[1:])
    assert outcome.value == "end"
    assert desk.ran == [1, 2, 3]
    assert len(desk.engine.fake.calls) == 2
    assert "pending" not in kept
    assert [message["role"] for message in kept["messages"]] == ["user", "assistant", "tool"]


async def test_a_checkpoint_of_another_engine_is_taken_up_and_so_is_plain_json() -> None:
    for prefix in (b"\x01", b""):
        desk = Desk()
        async with desk.engine:
            suspended = await desk.suspend()
            kept = json.loads(bytes(await desk.blobs.get("r/ckpt/0"))[1:])
            kept["pending"]["executed"][0]["result"] = "from elsewhere"
            kept["compaction"] = [1]
            del kept["providerCalls"]
            await desk.blobs.put("r/ckpt/0", prefix + json.dumps(kept).encode())
            outcome = await desk.allow(suspended)
        assert outcome.value == "end"
        [answers] = [message for message in desk.engine.fake.calls[-1].req.messages if message.role == "tool"]
        assert [part.result for part in answers.parts] == ["from elsewhere", "paid", {"noted": 3}]


async def test_a_checkpoint_that_cannot_be_read_is_named_and_nothing_is_called() -> None:
    for damaged in (
        b"\x02{}",
        b"\x01[]",
        b"\x01{",
        b"",
        b'\x01{"v": 1, "messages": [], "turns": 0, "usage": {}}',
    ):
        desk = Desk()
        async with desk.engine:
            suspended = await desk.suspend()
            await desk.blobs.put("r/ckpt/0", damaged)
            outcome = await desk.allow(suspended)
        assert outcome.status == "error"
        assert outcome.error is not None
        assert "r/ckpt/0" in outcome.error.message
        assert desk.ran == [1]


@pytest.mark.parametrize("data", [b"\x00\xff\x7f", "AP9/"])
def test_images_come_back_as_they_were(data: Any) -> None:
    image = ImagePart(media_type="image/png", data=data)
    state = LoopState(messages=[Msg(role="user", parts=(TextPart(text="see"), image))])
    again = decode_checkpoint(encode_checkpoint(state, "p:m", "loop"))
    assert again.messages == state.messages


def test_turns_after_which_a_conversation_was_shortened_are_numbers() -> None:
    state = LoopState(messages=[Msg.text("user", "go")], compactions=[2, 5])
    blob = encode_checkpoint(state, "p:m", "loop")
    assert json.loads(blob[1:])["compaction"] == [2, 5]
    assert decode_checkpoint(blob).compactions == [2, 5]
    older = json.loads(blob[1:]) | {"compaction": [{"turn": 2, "messages": 4}]}
    assert decode_checkpoint(json.dumps(older).encode()).compactions == [2]
