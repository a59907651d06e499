"""Every damaged cassette is refused at the stage, and with the place, that the original names."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from scenario_language import check_words

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.stream import ChatEvent
from rulvar.errors import ConfigError
from rulvar.testing.cassette import read_cassette
from rulvar.testing.recorder import record
from rulvar.testing.replayer import replay

OUT_OF_SCOPE = {"recordedAt-dates"}
"""Texts that one JavaScript engine's date parser happens to take."""


CASE_FIELDS = {"group", "name", "cassette", "read", "replay", "record_append", "refused_first_at"}
CASE_FIELDS |= {"file_changed_by_record"}
THROWN = {"ConfigError", "TypeError"}
"""What the original throws; here a cassette is refused with one class, ``ConfigError``."""


def cases(load_vectors: Any) -> Iterator[dict[str, Any]]:
    for case in load_vectors("cassette_refusals.json")["cases"]:
        check_words("a damaged cassette", case, CASE_FIELDS)
        if case["group"] not in OUT_OF_SCOPE:
            yield case


def write(case: dict[str, Any], folder: Path) -> Path:
    path = folder / "tape.jsonl"
    path.write_bytes(case["cassette"].encode("utf-8", "surrogatepass"))
    return path


def faults(error: ConfigError, expected: dict[str, Any], path: Path) -> list[str]:
    """What the message of a refusal fails to name."""
    text = str(error)
    check_words("a refusal", expected, {"class", "code", "names", "line", "row", "adapter", "path"})
    missing = [] if str(path) in text else ["the path"]
    if expected["class"] not in THROWN:
        missing.append(f"class {expected['class']}")
    if error.code != expected.get("code", error.code):
        missing.append(f"code {expected['code']}")
    missing += [name for name in expected.get("names", []) if name not in text]
    if "line" in expected and f"line {expected['line']}" not in text:
        missing.append(f"line {expected['line']}")
    if "row" in expected and f"row {expected['row']}" not in text:
        missing.append(f"row {expected['row']}")
    if "adapter" in expected and f'"{expected["adapter"]}"' not in text:
        missing.append(f"adapter {expected['adapter']}")
    return missing


def outcome(attempt: Any, expected: Any, path: Path) -> str | None:
    """Run one stage; return what is wrong with its result, or None."""
    try:
        attempt()
    except ConfigError as error:
        if expected == "ok":
            return f"refused: {error}"
        missing = faults(error, expected, path)
        return f"does not name {missing}: {error}" if missing else None
    return None if expected == "ok" else "accepted"


def test_reading_refuses_what_the_original_refuses(load_vectors: Any, tmp_path: Path) -> None:
    wrong = {}
    for case in cases(load_vectors):
        path = write(case, tmp_path)
        fault = outcome(lambda path=path: read_cassette(path), case["read"], path)
        if fault:
            wrong[case["name"]] = fault
    assert wrong == {}


class Tiny:
    """The live adapter of the vectors; it is never called."""

    id = "tiny"

    def caps(self, model: str) -> ModelCaps:
        raise AssertionError

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        raise AssertionError


def test_replaying_refuses_what_the_original_refuses(load_vectors: Any, tmp_path: Path) -> None:
    wrong = {}
    for case in cases(load_vectors):
        path = write(case, tmp_path)
        fault = outcome(lambda path=path: replay(cassette=path, on_miss="throw"), case["replay"], path)
        if fault:
            wrong[case["name"]] = fault
    assert wrong == {}


def test_appending_refuses_what_the_original_refuses(load_vectors: Any, tmp_path: Path) -> None:
    wrong = {}
    for case in cases(load_vectors):
        path = write(case, tmp_path)
        before = path.read_bytes()

        def attempt(path: Path = path) -> None:
            record(adapters=[Tiny()], cassette=path).close()

        fault = outcome(attempt, case["record_append"], path)
        if fault:
            wrong[case["name"]] = fault
        assert (path.read_bytes() != before) is case["file_changed_by_record"], case["name"]
    assert wrong == {}


def test_the_stage_that_refuses_first_is_the_recorded_one(load_vectors: Any, tmp_path: Path) -> None:
    for case in cases(load_vectors):
        path = write(case, tmp_path)
        stages = {
            "read": lambda path=path: read_cassette(path),
            "replay": lambda path=path: replay(cassette=path),
            "record_append": lambda path=path: record(adapters=[Tiny()], cassette=path).close(),
        }
        first = None
        for stage, attempt in stages.items():
            try:
                attempt()
            except ConfigError as error:
                assert error.code == "config"
                first = stage
                break
        assert first == case["refused_first_at"], case["name"]
