"""A cassette is read strictly, lazily, and exactly."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.request_hash import former_request_hash, request_hash
from rulvar.errors import ConfigError
from rulvar.testing.cassette import parse_cassette, read_cassette
from rulvar.testing.cassette_lines import LineReader
from rulvar.testing.cassette_shape import WrongField, check_row
from rulvar.testing.replayer import replay

BESIDE = [folder / "shared" / "real" / "anthropic.jsonl" for folder in Path(__file__).parents[4:6]]
REAL = next((path for path in BESIDE if path.exists()), None)
HEADER = '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-01-02T03:04:05.678Z"}'
ROW: dict[str, Any] = {
    "adapterId": "tiny",
    "occurrence": 0,
    "requestHash": "ab",
    "request": {"model": "m", "messages": []},
    "events": [
        {"type": "text-delta", "text": "x"},
        {"type": "tool-call-start", "id": "1", "name": "t"},
        {"type": "tool-call-delta", "id": "1", "argsTextDelta": "{}"},
        {"type": "tool-call-end", "id": "1", "args": {"a": [1, 2.5, None]}},
        {"type": "usage", "usage": {"inputTokens": 3}},
        {
            "type": "finish",
            "finish": {"reason": "stop"},
            "usage": {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 1, "cacheWriteTokens": 2,
                      "cacheWrite5mTokens": 2},
            "providerMetadata": {"p": {"id": "r"}},
        },
    ],
    "caps": {
        "structuredOutput": "native", "supportsTemperature": True, "supportsParallelTools": True,
        "reasoningEfforts": ["low"], "contextWindow": 1000, "maxOutputTokens": 100,
        "pricing": {"inputUsdPerMTok": 3, "outputUsdPerMTok": 15.5},
    },
    "model": "m",
}  # fmt: skip


def tape(*rows: Any, header: str = HEADER) -> bytes:
    lines = [header, *(row if isinstance(row, str) else json.dumps(row) for row in rows)]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def test_rows_are_a_sequence_in_file_order() -> None:
    cassette = parse_cassette("t.jsonl", tape(ROW, {**ROW, "occurrence": 1, "extra": [1]}))
    assert len(cassette.rows) == 2
    assert [row.occurrence for row in cassette.rows] == [0, 1]
    assert cassette.rows[-1].wire["extra"] == [1]
    assert [row.line for row in cassette.rows[:1]] == [2]
    with pytest.raises(IndexError):
        cassette.rows[2]
    row = cassette.rows[0]
    assert (row.adapter_id, row.model, row.request_hash, row.provider) == ("tiny", "m", "ab", None)
    assert row.caps.context_window == 1000
    assert [event.to_wire() for event in row.events] == ROW["events"]
    assert row.to_wire() == ROW
    assert (cassette.header.hash_version, cassette.header.recorded_at[:4]) == (2, "2026")


def test_a_lone_surrogate_and_a_big_number_survive() -> None:
    text = json.dumps(ROW).replace('"text": "x"', '"text": "\\ud800!"').replace("2.5", "1e400")
    cassette = parse_cassette("t.jsonl", tape(text))
    events = cassette.events(0)
    assert events[0].to_wire()["text"] == "\ud800!"
    assert events[3].to_wire()["args"]["a"][1] == float("inf")


def test_integers_may_be_written_as_doubles() -> None:
    text = json.dumps(ROW).replace('"inputTokens": 10', '"inputTokens": 10.0').replace("1000", "1e3")
    cassette = parse_cassette("t.jsonl", tape(text))
    assert cassette.events(0)[-1].to_wire()["usage"]["inputTokens"] == 10
    assert cassette.rows[0].caps.context_window == 1000


def test_a_torn_last_line_is_named() -> None:
    data = tape(ROW, ROW)[:-20]
    with pytest.raises(ConfigError, match=r"^t\.jsonl: line 3: .*torn") as refusal:
        parse_cassette("t.jsonl", data)
    assert refusal.value.data == {"cassette": "t.jsonl", "line": 3, "field": None}


def test_text_that_is_not_utf8_is_named() -> None:
    data = tape(ROW).replace(b'"x"', b'"\xff"')
    with pytest.raises(ConfigError, match=r"line 2: not UTF-8 at byte \d+"):
        parse_cassette("t.jsonl", data)


FOREIGN = [
    (b"\xef\xbb\xbf" + tape(ROW), 1, "save the file as UTF-8 without one"),
    (tape(ROW).decode().encode("utf-16"), 1, "save the file as UTF-8"),
    (b"\x1f\x8b\x08\x00", 1, "unpack the file"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", 1, "git lfs pull"),
    (tape(ROW) + b"<<<<<<< HEAD\n" + tape(ROW), 3, "rulvar cassette merge"),
    (tape(ROW) + tape(ROW), 3, "rulvar cassette merge"),
    (tape(ROW)[:40], 1, "its header was cut off: record to a new file"),
    (tape({**ROW, "model": 5}), 2, "correct it, or record the cassette again"),
    (tape(ROW) + b"{]\n", 3, "delete the line, or record the cassette again"),
    (b"", None, "delete it and record again"),
]


@pytest.mark.parametrize(("data", "line", "remedy"), FOREIGN)
def test_whatever_is_wrong_with_a_file_the_message_says_what_to_do(
    data: bytes, line: int | None, remedy: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(remedy)) as refusal:
        parse_cassette("t.jsonl", data)
    assert refusal.value.data["line"] == line


def test_a_wrong_field_is_named_with_its_path() -> None:
    row = json.loads(json.dumps(ROW))
    row["events"][3].pop("args")
    with pytest.raises(ConfigError, match=r"t\.jsonl: line 2: events\[3\]\.args: ") as refusal:
        parse_cassette("t.jsonl", tape(row))
    assert refusal.value.data["field"] == "events[3].args"


def test_a_value_in_a_message_is_redacted() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_cassette("t.jsonl", tape({**ROW, "occurrence": "sk-FAKEFAKEFAKE"}))
    assert "FAKE" not in str(refusal.value)


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_cassette(tmp_path / name)


def test_an_empty_row_group_is_empty() -> None:
    cassette = parse_cassette("t.jsonl", tape(ROW))
    assert list(cassette.group("tiny", "ab")) == [0]
    assert list(cassette.group("tiny", "cd")) == []
    assert list(cassette.group("other", "ab")) == []


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "stop", "refusal", "native", "text-delta", "finish", 2**53, -1, 1.5, 3.0])
)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["type", "a"]), SCALARS)


@st.composite
def damaged_rows(draw: st.DrawFn) -> str:
    """A row in which some fields were replaced, removed or added."""
    row = json.loads(json.dumps(ROW))
    for _ in range(draw(st.integers(0, 3))):
        node: Any = row
        while isinstance(node, (dict, list)) and node:
            key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else list(range(len(node)))))
            if draw(st.booleans()) or not isinstance(node[key], (dict, list)):
                if isinstance(node, dict) and draw(st.booleans()):
                    del node[key]
                else:
                    node[key] = draw(VALUES)
                break
            node = node[key]
    return json.dumps(row)


@given(damaged_rows())
def test_the_fast_reader_takes_no_line_that_the_exact_check_refuses(line: str) -> None:
    def verdict(check: Any) -> str | None:
        try:
            check()
        except WrongField as wrong:
            return wrong.field
        return None

    data = memoryview(line.encode("utf-8"))
    exact = verdict(lambda: check_row(decode_json(bytes(data))))
    assert verdict(lambda: LineReader().read(data)) == exact
    if exact is None:
        fast, slow = LineReader().read(data), LineReader()._read_exactly(data)
        assert fast[1:] == slow[1:]


@pytest.mark.skipif(REAL is None, reason="../shared/real is not beside this checkout")
async def test_a_recording_of_a_real_provider_reads_replays_and_hashes_to_itself(kit: Any) -> None:
    assert REAL is not None
    cassette = read_cassette(REAL)
    [adapter] = replay(cassette=REAL)
    assert len(cassette.rows) == 6
    for row in cassette.rows:
        # its last row was recorded when the hash still covered cacheHint
        assert row.request_hash in (request_hash(row.request), former_request_hash(row.request))
        assert row.caps.context_window == 400_000
        request = ChatRequest.from_wire(row.request)
        assert request.to_wire() == row.request
        assert await kit.drain(adapter.stream(request)) == list(row.events)


def test_a_last_line_that_ends_within_a_character_is_torn() -> None:
    torn = tape(ROW) + json.dumps({**ROW, "model": "ü"}, ensure_ascii=False).encode()
    cut = torn[: torn.index("ü".encode(), len(tape(ROW))) + 1]
    with pytest.raises(ConfigError, match=r"line 3: the last line is torn .* delete the line"):
        parse_cassette("t.jsonl", cut)
    inside = cut + b"x\n" + json.dumps(ROW).encode()
    with pytest.raises(ConfigError, match=r"line 3: not UTF-8 at byte \d+"):
        parse_cassette("t.jsonl", inside)


@pytest.mark.parametrize("field", ["v", "kind", "hashVersion", "recordedAt"])
def test_a_wrong_header_says_what_to_do(field: str) -> None:
    header = json.dumps({**json.loads(HEADER), field: None})
    with pytest.raises(ConfigError, match=rf"t.jsonl: line 1: {field}: .*; .*record"):
        parse_cassette("t.jsonl", tape(ROW, header=header))


@pytest.mark.parametrize("path", ["", None, 5])
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    for call in (read_cassette, lambda given: replay(cassette=given)):
        with pytest.raises(ConfigError, match=r"cassette=.*: expected the path of a file"):
            call(path)


@pytest.mark.parametrize("kind", ["text-delta", "tool-call-start", "tool-call-end", "error", "usage"])
def test_an_unknown_field_of_an_event_may_have_the_name_of_another_events_field(kind: str) -> None:
    known: dict[str, Any] = {
        "text-delta": {"text": "x"},
        "tool-call-start": {"id": "1", "name": "t"},
        "tool-call-end": {"id": "1", "args": None},
        "error": {"error": {"code": "c", "message": "", "retryable": False}},
        "usage": {"usage": {"inputTokens": 1}},
    }
    event = {"type": kind, **known[kind]}
    strange = {"usage": 5, "finish": [1], "error": "no", "text": 7, "args": 1, "refusal": 2, **event}
    lone = {"type": "reasoning-delta", "text": "\ud800"}  # the exact way is taken for its sake
    for events in ([strange], [strange, lone]):
        cassette = parse_cassette("t.jsonl", tape({**ROW, "events": events}))
        assert cassette.rows[0].events[0].to_wire() == cassette.events(0)[0].to_wire()
        assert cassette.events(0)[0].to_wire() == event


@pytest.mark.parametrize("refusal", [{"provider": "p"}, "odd"])
def test_a_refusal_beside_another_reason_is_served_when_it_is_one(refusal: Any) -> None:
    finish = {**ROW["events"][-1], "finish": {"reason": "stop", "refusal": refusal}}
    cassette = parse_cassette("t.jsonl", tape({**ROW, "events": [finish]}))
    for event in (cassette.rows[0].events[0], cassette.events(0)[0]):
        assert event.to_wire()["finish"].get("refusal") == (refusal if isinstance(refusal, dict) else None)


@pytest.mark.parametrize(
    ("recorded", "reads"),
    [
        ("2026-05-06T24:00:00Z", True),
        ("2026-05-06T24:00", True),
        ("2026-05-06T24:00:01Z", False),
        ("2026-05-06T24:30:00Z", False),
        ("Wed, 06 May 2026 07:08:09 +0000 (UTC)", True),
        ("6 May 2026 07:08 +0200", True),
        ("06 May 2026 07:08:09 +0000 (UTC", False),
    ],
)
def test_the_day_of_a_recording_is_a_date_that_exists(recorded: str, reads: bool) -> None:
    header = json.dumps({**json.loads(HEADER), "recordedAt": recorded})
    if reads:
        assert parse_cassette("t.jsonl", tape(header=header)).header.recorded_at == recorded
        return
    with pytest.raises(ConfigError, match="recordedAt"):
        parse_cassette("t.jsonl", tape(header=header))
