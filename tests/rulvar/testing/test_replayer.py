"""Replay serves every recorded row once, and explains the call that none serves."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.ports.provider import served_by
from rulvar.contracts.request_hash import request_hash
from rulvar.errors import ConfigError, VcrMissError
from rulvar.testing.recorder import record
from rulvar.testing.replayer import replay


@pytest.fixture
async def tape(kit: Any, tmp_path: Path) -> Path:
    """A cassette of two answers to one request and one to another."""
    path = tmp_path / "tape.jsonl"
    streams = [kit.answer("one"), kit.answer("two"), kit.answer("other")]
    with record(adapters=[kit.Adapter(streams, provider="p")], cassette=path) as adapters:
        for text in ("same", "same", "else"):
            await kit.drain(adapters[0].stream(kit.ask(text)))
    return path


async def test_a_hit_tells_its_row_and_its_place(kit: Any, tape: Path) -> None:
    adapters = replay(cassette=tape)
    second = [adapters[0].stream(kit.ask("same")) for _ in range(2)][1]
    assert await kit.drain(second) == kit.answer("two")
    served = served_by(second)
    assert (served.how, served.cassette, served.row) == ("hit", str(tape), 3)
    assert (served.occurrence, served.occurrences) == (1, 2)
    assert served.request_hash == request_hash(kit.ask("same"))
    assert adapters.served_lines == (2, 3)
    assert adapters.unused_lines == (4,)


async def test_occurrences_are_claimed_in_the_call_itself(kit: Any, tape: Path) -> None:
    [adapter] = replay(cassette=tape)
    first, second = adapter.stream(kit.ask("same")), adapter.stream(kit.ask("same"))
    assert await kit.drain(second) == kit.answer("two")
    assert await kit.drain(first) == kit.answer("one")


async def test_a_fresh_set_starts_over(kit: Any, tape: Path) -> None:
    for _ in range(2):
        [adapter] = replay(cassette=tape)
        assert await kit.drain(adapter.stream(kit.ask("same"))) == kit.answer("one")


async def test_a_miss_surfaces_at_the_first_pull_and_names_the_nearest_row(kit: Any, tape: Path) -> None:
    [adapter] = replay(cassette=tape)
    stream = adapter.stream(kit.ask("elsewhere"))
    with pytest.raises(VcrMissError) as miss:
        await anext(stream)
    error = miss.value
    assert (error.adapter_id, error.recorded_occurrences) == ("tiny", 0)
    assert error.request_hash == request_hash(kit.ask("elsewhere"))
    assert len(str(error).splitlines()) == 3
    assert "messages[0].parts[0].text" in str(error)
    assert "line 4" in str(error)
    served = served_by(stream)
    assert served.how == "miss"
    assert served.nearest is not None
    assert served.nearest.row == 4
    assert served.message is not None
    assert "\n" not in served.message
    assert error.data["nearest"]["row"] == 4
    assert await kit.drain(stream) == []


async def test_a_used_up_request_says_how_often_it_was_recorded(kit: Any, tape: Path) -> None:
    [adapter] = replay(cassette=tape)
    streams = [adapter.stream(kit.ask("same")) for _ in range(3)]
    with pytest.raises(VcrMissError, match="exhausted") as miss:
        await anext(streams[2])
    assert miss.value.recorded_occurrences == 2
    served = served_by(streams[2])
    assert (served.how, served.occurrences, served.nearest) == ("exhausted", 2, None)
    assert "recorded 2 times" in (served.message or "")


async def test_an_abort_ends_a_replayed_stream_without_a_terminal(kit: Any, tape: Path) -> None:
    [adapter] = replay(cassette=tape)
    abort = asyncio.Event()
    stream = adapter.stream(kit.ask("same"), abort)
    assert await anext(stream) == kit.answer("one")[0]
    abort.set()
    assert await kit.drain(stream) == []
    assert await kit.drain(adapter.stream(kit.ask("never recorded"), abort)) == []
    assert await kit.drain(adapter.stream(kit.ask("same"))) == kit.answer("two")


async def test_passthrough_goes_live_only_for_what_is_not_recorded(kit: Any, tape: Path) -> None:
    live = kit.Adapter(reply=lambda request: kit.answer("live"), provider="p")
    [adapter] = replay(cassette=tape, on_miss="passthrough", adapters=[live])
    assert await kit.drain(adapter.stream(kit.ask("else"))) == kit.answer("other")
    assert live.calls == []
    stream = adapter.stream(kit.ask("new"))
    assert await kit.drain(stream) == kit.answer("live")
    assert served_by(stream).how == "passthrough"
    assert live.calls == [kit.ask("new")]


def test_a_live_adapter_that_declares_otherwise_is_refused(kit: Any, tape: Path) -> None:
    with pytest.raises(ConfigError, match="provider"):
        replay(cassette=tape, on_miss="passthrough", adapters=[kit.Adapter(provider="q")])


def test_an_unknown_mode_is_refused(tape: Path) -> None:
    with pytest.raises(ConfigError, match="on_miss"):
        replay(cassette=tape, on_miss="ignore")  # type: ignore[arg-type]


def test_a_missing_cassette_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.jsonl.*record"):
        replay(cassette=tmp_path / "nothing.jsonl")


async def test_telemetry_and_cache_hints_do_not_matter(kit: Any, tape: Path) -> None:
    [adapter] = replay(cassette=tape)
    request = kit.ask("else", cache_hint={"breakpoints": []}, provider_options={"rulvar": {"label": "x"}})
    assert await kit.drain(adapter.stream(request)) == kit.answer("other")
