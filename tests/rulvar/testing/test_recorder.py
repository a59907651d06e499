"""Recording appends one whole row per completed exchange, and nothing else."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.messages import ImagePart, Msg
from rulvar.contracts.ports.provider import served_by
from rulvar.contracts.redaction import MASK
from rulvar.contracts.request_hash import request_hash
from rulvar.contracts.stream import Finish, TextDelta, ToolCallEnd, ToolCallStart
from rulvar.contracts.usage import Usage
from rulvar.errors import ConfigError, VcrMissError
from rulvar.testing.cassette import read_cassette
from rulvar.testing.cassette_rules import LAST_OCCURRENCE
from rulvar.testing.recorder import record
from rulvar.testing.replayer import replay


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "fixtures" / "tape.jsonl"


def occurrences(tape: Path) -> list[int | None]:
    return [row.occurrence for row in read_cassette(tape).rows]


async def test_what_is_recorded_is_what_is_replayed(kit: Any, tape: Path) -> None:
    events = [
        ToolCallStart(id="a", name="search"),
        ToolCallEnd(id="a", args={"q": [1, None, "ü\ud800"]}),
        *kit.answer("the answer"),
    ]
    with record(
        adapters=[kit.Adapter([events], provider="p", usage_semantics="s")], cassette=tape
    ) as adapters:
        assert (adapters[0].id, adapters[0].provider) == ("tiny", "p")
        assert await kit.drain(adapters[0].stream(kit.ask())) == events
    [replayed] = replay(cassette=tape)
    assert (replayed.id, replayed.provider, replayed.usage_semantics) == ("tiny", "p", "s")
    assert replayed.caps("tiny-1") == kit.Adapter().caps("tiny-1")
    assert await kit.drain(replayed.stream(kit.ask())) == events


async def test_a_row_has_the_fields_of_the_format_in_their_order(kit: Any, tape: Path) -> None:
    adapters = record(adapters=[kit.Adapter([kit.answer()])], cassette=tape)
    await kit.drain(adapters[0].stream(kit.ask()))
    header, row = [json.loads(line) for line in tape.read_text("utf-8").splitlines()]
    assert header["v"] == 1
    assert header["kind"] == "rulvar-vcr"
    assert header["hashVersion"] == 2
    assert list(row) == ["adapterId", "occurrence", "requestHash", "request", "events", "caps", "model"]
    assert row["requestHash"] == request_hash(kit.ask())


async def test_secrets_never_reach_the_file_and_the_hash_is_of_the_raw_request(kit: Any, tape: Path) -> None:
    asked = kit.ask("use sk-FAKEFAKEFAKE for acme", provider_options={"tiny": {"api_key": "plain"}})
    answered = [TextDelta(text="key sk-FA"), TextDelta(text="KEFAKEFAKE of acme"), kit.finish()]
    adapters = record(
        adapters=[kit.Adapter([answered])], cassette=tape, redact=lambda text: text.replace("acme", "<name>")
    )
    await kit.drain(adapters[0].stream(asked))
    text = tape.read_text("utf-8")
    for secret in ("FAKEFAKE", "plain", "acme"):
        assert secret not in text
    [row] = read_cassette(tape).rows
    assert row.request_hash == request_hash(asked)
    assert row.request["messages"][0]["parts"][0]["text"] == f"use {MASK} for <name>"
    [masked] = adapters.masked
    assert masked.line == row.line
    assert {place.rule for place in masked.places} == {"custom", "provider-key", "api-key-value"}


async def test_a_broken_hook_is_loud_and_leaves_no_row(kit: Any, tape: Path) -> None:
    def fail(text: str) -> str:
        raise RuntimeError("no")

    adapters = record(adapters=[kit.Adapter([kit.answer()])], cassette=tape, redact=fail)
    with pytest.raises(ConfigError, match="redact"):
        await kit.drain(adapters[0].stream(kit.ask()))
    assert len(read_cassette(tape).rows) == 0


async def test_identical_requests_are_numbered_in_the_order_of_the_calls(kit: Any, tape: Path) -> None:
    streams = [kit.answer(str(number)) for number in range(3)]
    adapter = record(adapters=[kit.Adapter(streams)], cassette=tape)[0]
    first, second, third = (adapter.stream(kit.ask()) for _ in range(3))
    for stream in (third, first, second):
        await kit.drain(stream)
    assert occurrences(tape) == [2, 0, 1]


async def test_broken_streams_append_nothing_and_leave_a_gap(kit: Any, tape: Path) -> None:
    streams = [
        [TextDelta(text="cut")],
        [TextDelta(text="x"), RuntimeError("wire")],
        [*kit.answer(), TextDelta(text="late")],
        [*kit.answer(), kit.finish()],
        [*kit.answer(), RuntimeError("late")],
        kit.failure(),
        kit.answer(),
    ]
    adapters = record(adapters=[kit.Adapter(streams)], cassette=tape)
    for _ in streams:
        with contextlib.suppress(RuntimeError):
            await kit.drain(adapters[0].stream(kit.ask()))
    assert occurrences(tape) == [5, 6]
    assert [left.occurrence for left in adapters.left_out] == [0, 1, 2, 3, 4]
    replay(cassette=tape)


async def test_an_aborted_call_appends_nothing(kit: Any, tape: Path) -> None:
    abort = asyncio.Event()
    adapter = record(adapters=[kit.Adapter([kit.answer(), kit.answer()])], cassette=tape)[0]
    stream = adapter.stream(kit.ask(), abort)
    assert await anext(stream) == TextDelta(text="hello")
    abort.set()
    assert await kit.drain(stream) == []
    await kit.drain(adapter.stream(kit.ask()))
    assert occurrences(tape) == [1]


async def test_the_row_stands_when_the_consumer_stops_at_the_terminal(kit: Any, tape: Path) -> None:
    adapter = record(adapters=[kit.Adapter([[*kit.answer(), TextDelta(text="late")]])], cassette=tape)[0]
    stream = adapter.stream(kit.ask())
    async for event in stream:
        if isinstance(event, Finish):
            break
    [row] = read_cassette(tape).rows
    assert [event.to_wire()["type"] for event in row.events] == ["text-delta", "finish"]
    served = served_by(stream)
    assert (served.how, served.cassette, served.row) == ("live", str(tape), 2)


async def test_a_row_taken_back_leaves_the_rows_after_it(kit: Any, tape: Path) -> None:
    adapter = record(
        adapters=[kit.Adapter([[*kit.answer("a"), TextDelta(text="late")], kit.answer("b")])], cassette=tape
    )[0]
    violating = adapter.stream(kit.ask())
    await anext(violating)
    await anext(violating)
    await kit.drain(adapter.stream(kit.ask()))
    assert occurrences(tape) == [0, 1]
    await anext(violating)
    assert occurrences(tape) == [1]
    [row] = read_cassette(tape).rows
    assert row.events == tuple(kit.answer("b"))


async def test_a_usage_that_breaks_the_rules_leaves_no_row(kit: Any, tape: Path) -> None:
    broken = Usage(input_tokens=1, output_tokens=1, cache_read_tokens=5, cache_write_tokens=0)
    adapters = record(adapters=[kit.Adapter([[kit.finish(broken)], kit.answer()])], cassette=tape)
    assert len(await kit.drain(adapters[0].stream(kit.ask()))) == 1
    await kit.drain(adapters[0].stream(kit.ask()))
    assert occurrences(tape) == [1]
    assert "events[0].usage" in adapters.left_out[0].reason


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (ToolCallEnd(id="1", args={"a": float("nan")}), "events[0].args.a is nan"),
        (ToolCallEnd(id="1", args={"a": object()}), "events[0]: ToolCallEnd has no JSON form"),
        ("no event", "events[0]: str has no JSON form"),
    ],
)
async def test_what_has_no_json_form_leaves_no_row_and_reaches_the_caller(
    kit: Any, tape: Path, event: Any, reason: str
) -> None:
    adapters = record(adapters=[kit.Adapter([[event, *kit.answer()], kit.answer()])], cassette=tape)
    assert await kit.drain(adapters[0].stream(kit.ask())) == [event, *kit.answer()]
    await kit.drain(adapters[0].stream(kit.ask()))
    assert occurrences(tape) == [1]
    [left] = adapters.left_out
    assert (left.occurrence, left.reason[: len(reason)]) == (0, reason)


async def test_an_appending_session_continues_the_numbering(kit: Any, tape: Path) -> None:
    async def session(count: int) -> None:
        adapter = record(adapters=[kit.Adapter([kit.answer()] * count)], cassette=tape)[0]
        for _ in range(count):
            await kit.drain(adapter.stream(kit.ask()))

    await session(2)
    before = tape.read_bytes()
    await session(1)
    assert tape.read_bytes().startswith(before)
    assert occurrences(tape) == [0, 1, 2]


async def test_a_second_recorder_is_refused_while_the_first_lives(kit: Any, tape: Path) -> None:
    first = record(adapters=[kit.Adapter([kit.answer()])], cassette=tape)
    with pytest.raises(ConfigError, match=r"another recorder.*tape|tape.*another recorder"):
        record(adapters=[kit.Adapter()], cassette=tape)
    await kit.drain(first[0].stream(kit.ask()))
    assert occurrences(tape) == [0]
    first.close()
    record(adapters=[kit.Adapter()], cassette=tape).close()


def test_dropping_the_adapters_gives_the_lock_up(kit: Any, tape: Path) -> None:
    adapters: Any = record(adapters=[kit.Adapter()], cassette=tape)
    adapters = [adapters]
    adapters.append(adapters)  # as an engine and its tasks hold each other
    del adapters
    record(adapters=[kit.Adapter()], cassette=tape).close()


async def test_a_closed_session_records_no_more(kit: Any, tape: Path) -> None:
    adapters = record(adapters=[kit.Adapter([kit.answer()])], cassette=tape)
    adapters.close()
    with pytest.raises(ConfigError, match="closed"):
        adapters[0].stream(kit.ask())


def numbered(tape: Path, occurrence: int, digest: str) -> None:
    tape.parent.mkdir(parents=True, exist_ok=True)
    row = {
        "adapterId": "tiny", "occurrence": occurrence, "requestHash": digest,
        "request": {"model": "tiny-1", "messages": []},
        "events": [{"type": "error", "error": {"code": "agent", "message": "x", "retryable": False}}],
        "caps": {"structuredOutput": "native", "supportsTemperature": True, "supportsParallelTools": True,
                 "reasoningEfforts": [], "contextWindow": 10, "maxOutputTokens": 10},
        "model": "tiny-1",
    }  # fmt: skip
    header = {"v": 1, "kind": "rulvar-vcr", "hashVersion": 2, "recordedAt": "2026-01-02T03:04:05.678Z"}
    tape.write_text("".join(json.dumps(line) + "\n" for line in (header, row)), "utf-8")


async def test_no_number_past_the_ceiling_is_claimed(kit: Any, tape: Path) -> None:
    numbered(tape, LAST_OCCURRENCE - 1, request_hash(kit.ask()))
    live = kit.Adapter([kit.answer()])
    adapter = record(adapters=[live], cassette=tape)[0]
    await kit.drain(adapter.stream(kit.ask()))
    before = tape.read_bytes()
    with pytest.raises(ConfigError, match="occurrence"):
        adapter.stream(kit.ask())
    assert len(live.calls) == 1
    assert tape.read_bytes() == before
    adapter.close()
    with pytest.raises(ConfigError, match="occurrence"):
        record(adapters=[live], cassette=tape)


async def test_a_torn_tail_is_cut_off_before_the_next_row(kit: Any, tape: Path) -> None:
    adapter = record(adapters=[kit.Adapter([kit.answer(), kit.answer()])], cassette=tape)[0]
    await kit.drain(adapter.stream(kit.ask()))
    await kit.drain(adapter.stream(kit.ask()))
    adapter.close()
    whole = tape.read_bytes()
    tape.write_bytes(whole[:-30])
    with pytest.raises(ConfigError, match=r"line 3.*torn"):
        read_cassette(tape)
    adapter = record(adapters=[kit.Adapter([kit.answer("again")])], cassette=tape)[0]
    assert tape.read_bytes() == whole[:-30]
    await kit.drain(adapter.stream(kit.ask()))
    assert occurrences(tape) == [0, 1]


@pytest.mark.parametrize("change", ["removed", "replaced", "cut", "added to"])
async def test_a_file_that_changes_under_its_recorder_is_refused_before_a_row_is_lost(
    kit: Any, tape: Path, change: str
) -> None:
    adapter = record(adapters=[kit.Adapter([kit.answer(), kit.answer()])], cassette=tape)[0]
    await kit.drain(adapter.stream(kit.ask()))
    content = tape.read_bytes()
    if change in ("removed", "replaced"):
        tape.unlink()
    if change != "removed":
        tape.write_bytes({"replaced": content, "cut": content[:-9], "added to": content + b"\n"}[change])
    left = tape.read_bytes() if tape.exists() else None
    with pytest.raises(ConfigError, match="while it was being recorded; record it again"):
        await kit.drain(adapter.stream(kit.ask()))
    assert (tape.read_bytes() if tape.exists() else None) == left


async def test_the_working_directory_may_change_while_recording(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = [*kit.answer("b"), kit.finish()]
    adapter = record(adapters=[kit.Adapter([kit.answer("a"), stream, kit.answer("c")])], cassette="t.jsonl")[
        0
    ]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    await kit.drain(adapter.stream(kit.ask()))
    second, third = adapter.stream(kit.ask()), adapter.stream(kit.ask())
    while getattr(await anext(second), "type", None) != "finish":
        pass
    await kit.drain(third)
    await kit.drain(second)  # it goes on after its terminal: its row is taken back
    assert occurrences(tmp_path / "t.jsonl") == [0, 2]


async def test_a_missing_newline_is_put_before_the_next_row(kit: Any, tape: Path) -> None:
    adapter = record(adapters=[kit.Adapter([kit.answer()])], cassette=tape)[0]
    await kit.drain(adapter.stream(kit.ask()))
    adapter.close()
    tape.write_bytes(tape.read_bytes().rstrip(b"\n"))
    adapter = record(adapters=[kit.Adapter([kit.answer()])], cassette=tape)[0]
    stream = adapter.stream(kit.ask())
    await kit.drain(stream)
    assert served_by(stream).row == 3
    assert occurrences(tape) == [0, 1]


async def test_image_bytes_are_recorded_by_index(kit: Any, tape: Path) -> None:
    image = Msg(role="user", parts=(ImagePart(media_type="image/png", data=b"\x89PNG"),))
    request = kit.ask().__class__(model="tiny-1", messages=(image,))
    adapter = record(adapters=[kit.Adapter([kit.answer()])], cassette=tape)[0]
    await kit.drain(adapter.stream(request))
    [row] = read_cassette(tape).rows
    assert row.request["messages"][0]["parts"][0]["data"] == {"0": 137, "1": 80, "2": 78, "3": 71}
    assert request_hash(row.request) == row.request_hash
    [replayed] = replay(cassette=tape)
    assert await kit.drain(replayed.stream(request)) == kit.answer()


async def test_a_thousand_identical_concurrent_calls_replay_to_their_callers(kit: Any, tape: Path) -> None:
    count = 1000
    order = random.Random(7).sample(range(count), count)
    turns = [asyncio.Event() for _ in range(count)]

    class Slow(kit.Adapter):  # type: ignore[misc, name-defined]
        async def _play(self, events: Any, signal: Any) -> Any:
            number = int(events[0].text)
            await turns[number].wait()
            for event in events:
                yield event
            following = order.index(number) + 1
            if following < count:
                turns[order[following]].set()

    adapter = record(adapters=[Slow([kit.answer(str(i)) for i in range(count)])], cassette=tape)[0]
    turns[order[0]].set()
    await asyncio.gather(*(kit.drain(adapter.stream(kit.ask())) for _ in range(count)))
    assert occurrences(tape) == order
    [replayed] = replay(cassette=tape)
    answers = await asyncio.gather(*(kit.drain(replayed.stream(kit.ask())) for _ in range(count)))
    assert [events[0].text for events in answers] == [str(i) for i in range(count)]
    with pytest.raises(VcrMissError):
        await kit.drain(replayed.stream(kit.ask()))


def test_adapters_that_are_none_are_refused(tape: Path) -> None:
    with pytest.raises(ConfigError, match=r"adapters\[0\]"):
        record(adapters=[object()], cassette=tape)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="empty"):
        record(adapters=[], cassette=tape)
    assert not tape.exists()


async def test_a_stream_that_is_a_coroutine_is_refused(kit: Any, tape: Path) -> None:
    class Waiting(kit.Adapter):  # type: ignore[misc, name-defined]
        async def stream(self, request: Any, signal: Any = None) -> Any:
            return None

    adapter = record(adapters=[Waiting()], cassette=tape)[0]
    with pytest.raises(ConfigError, match="async iterator"):
        adapter.stream(kit.ask())


def test_a_folder_is_no_cassette(kit: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot"):
        record(adapters=[kit.Adapter()], cassette=tmp_path)


RECORDING = textwrap.dedent(
    """
    import asyncio, sys
    from rulvar.contracts.capabilities import ModelCaps
    from rulvar.contracts.messages import ChatRequest, Msg
    from rulvar.contracts.stream import Finish, FinishInfo, TextDelta
    from rulvar.contracts.usage import Usage
    from rulvar.testing.recorder import record

    class Chatty:
        id = "chatty"
        def caps(self, model):
            return ModelCaps(structured_output="native", supports_temperature=True, supports_parallel_tools=True,
                             reasoning_efforts=(), context_window=10, max_output_tokens=10)
        async def stream(self, request, signal=None):
            yield TextDelta(text="word " * 4000)
            usage = Usage(input_tokens=1, output_tokens=1, cache_read_tokens=0, cache_write_tokens=0)
            yield Finish(finish=FinishInfo(reason="stop"), usage=usage)

    async def main():
        adapter = record(adapters=[Chatty()], cassette=sys.argv[1])[0]
        print("recording", flush=True)
        while True:
            async for _ in adapter.stream(ChatRequest(model="m", messages=(Msg.text("user", "go"),))):
                pass

    asyncio.run(main())
    """
)


def start_recording(tape: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDING, str(tape)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "recording\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


KILLED_AGAIN_AND_AGAIN = textwrap.dedent(
    """
    import asyncio, os, random, signal, sys, time
    from rulvar.contracts.messages import ChatRequest, Msg
    from rulvar.contracts.stream import TextDelta
    from rulvar.testing.cassette import read_cassette
    from rulvar.testing.fake import FakeAdapter
    from rulvar.testing.recorder import record
    from rulvar.testing.replayer import replay

    REQUEST = ChatRequest(model="m", messages=(Msg.text("user", "go " * 200),))

    async def forever(path, chance):
        with record(adapters=[FakeAdapter({"*": lambda call: "answer " * chance.randrange(2000)})], cassette=path) as tape:
            while True:
                await asyncio.gather(*(drain(tape[0].stream(REQUEST)) for _ in range(3)))

    async def drain(stream):
        return [event async for event in stream]

    def check(path):
        # the session that a user would begin next: what is torn is cut off when it writes
        with record(adapters=[FakeAdapter({"*": "after the kill"})], cassette=path) as tape:
            asyncio.run(drain(tape[0].stream(REQUEST)))
        cassette = read_cassette(path)
        numbers = [row.occurrence for row in cassette.rows]
        assert sorted(numbers) == list(range(len(numbers))), numbers
        assert all(row.request == REQUEST.to_wire() and row.events[-1].type == "finish" for row in cassette.rows)
        [served] = replay(cassette=path)
        for _ in numbers:
            assert asyncio.run(drain(served.stream(REQUEST)))[-1].type == "finish"
        return len(numbers)

    folder, kills = sys.argv[1], int(sys.argv[2])
    chance, rows = random.Random(11), 0
    for number in range(kills):
        path = f"{folder}/{number // 10}.jsonl"
        child = os.fork()
        if child == 0:
            asyncio.run(forever(path, random.Random(number)))
        time.sleep(chance.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        count = check(path)
        rows += count if number % 10 == 9 or number == kills - 1 else 0
    print(rows)
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_recording_that_is_killed_leaves_whole_rows_and_can_be_continued(tmp_path: Path) -> None:
    kills = int(os.environ.get("RULVAR_KILLS", "60"))  # RULVAR_KILLS=200 pytest ...: the long run
    command = [sys.executable, "-c", KILLED_AGAIN_AND_AGAIN, str(tmp_path), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > kills


async def test_a_last_line_that_is_cut_anywhere_is_never_served(kit: Any, tape: Path) -> None:
    with record(
        adapters=[kit.Adapter([kit.answer("one"), kit.answer("two \u00e9\U0001f600")])], cassette=tape
    ) as live:
        for _ in range(2):
            await kit.drain(live[0].stream(kit.ask()))
    whole = tape.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start + 1, len(whole) - 1):
        tape.write_bytes(whole[:cut])
        with pytest.raises(ConfigError, match="line 3"):
            read_cassette(tape)
        if cut % 50 == 0 or cut > len(whole) - 5:
            with record(adapters=[kit.Adapter([kit.answer("again")])], cassette=tape) as live:
                await kit.drain(live[0].stream(kit.ask()))
            assert occurrences(tape) == [0, 1]
    tape.write_bytes(whole[:-1])  # only the line feed is missing: the row is whole
    assert occurrences(tape) == [0, 1]


async def test_a_fresh_recording_throws_nothing_away_that_is_under_way(kit: Any, tape: Path) -> None:
    with record(adapters=[kit.Adapter([kit.answer("one")])], cassette=tape) as first:
        await kit.drain(first[0].stream(kit.ask()))
        with pytest.raises(ConfigError, match="another recorder"):
            record(adapters=[kit.Adapter()], cassette=tape, fresh=True)
        assert len(read_cassette(tape).rows) == 1
    tape.write_bytes(b"{torn")
    with record(adapters=[kit.Adapter([kit.answer("two")])], cassette=tape, fresh=True) as second:
        await kit.drain(second[0].stream(kit.ask()))
    [row] = read_cassette(tape).rows
    assert (row.occurrence, row.events[0].text) == (0, "two")


@pytest.mark.parametrize("value", [2**53 + 1, -(2**60) - 1, 0.1, -0.0, 1e22, 5e-324, {"a": [2**53 + 1, 1.0]}])
async def test_a_number_is_replayed_as_the_adapter_said_it(kit: Any, tape: Path, value: Any) -> None:
    events = [ToolCallStart(id="1", name="t"), ToolCallEnd(id="1", args=value), kit.finish()]
    with record(adapters=[kit.Adapter([events])], cassette=tape) as live:
        await kit.drain(live[0].stream(kit.ask()))
    [replayed] = replay(cassette=tape)
    args = (await kit.drain(replayed.stream(kit.ask())))[1].args
    assert (args, repr(args)) == (value, repr(value))


@pytest.mark.skipif(sys.platform == "win32", reason="needs advisory locks")
def test_a_recorder_of_another_process_holds_the_lock_until_it_dies(kit: Any, tape: Path) -> None:
    process = start_recording(tape)
    try:
        with pytest.raises(ConfigError, match="another recorder"):
            record(adapters=[kit.Adapter()], cassette=tape)
    finally:
        kill(process)
    record(adapters=[kit.Adapter()], cassette=tape).close()


@pytest.mark.parametrize("cassette", ["", None, 5])
def test_a_cassette_that_is_no_path_is_refused(kit: Any, cassette: Any) -> None:
    with pytest.raises(ConfigError, match=r"cassette=.*: expected the path of a file"):
        record(adapters=[kit.Adapter()], cassette=cassette)


def test_one_adapter_is_given_in_a_list_too(kit: Any, tape: Path) -> None:
    with pytest.raises(ConfigError, match="adapters: expected a list of adapters, got TinyAdapter"):
        record(adapters=kit.Adapter(), cassette=tape)
    assert not tape.exists()
