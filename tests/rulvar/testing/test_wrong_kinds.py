"""A public helper that is handed the wrong kind of thing names it, before anything is run or written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.errors import ConfigError
from rulvar.testing import (
    FakeAdapter,
    assert_called_agent,
    cassette_stats,
    default_redact,
    diagnose_miss,
    evaluate,
    list_cassettes,
    merge_cassettes,
    minimize_run,
    prune_cassette,
    read_cassette,
    read_report,
    record,
    replay,
    replay_run,
    request_hash,
)

HEADER = '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-01-02T03:04:05.678Z"}\n'


@workflow(name="idle")
async def idle(ctx: Ctx, args: Any) -> Any:
    return args


CALLS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "record adapters": (lambda tape: record(adapters=[5], cassette=tape), "adapters"),  # type: ignore[list-item]
    "record cassette": (lambda tape: record(adapters=[FakeAdapter()], cassette=5), "cassette"),  # type: ignore[arg-type]
    "replay cassette": (lambda tape: replay(cassette=5), "cassette"),  # type: ignore[arg-type]
    "replay adapters": (lambda tape: replay(cassette=tape, adapters=5), "adapters"),  # type: ignore[arg-type]
    "read": (lambda tape: read_cassette(5), "cassette"),  # type: ignore[arg-type]
    "stats": (lambda tape: cassette_stats(5), "cassette"),  # type: ignore[arg-type]
    "diagnose": (lambda tape: diagnose_miss(tape, 5, "m"), "request"),  # type: ignore[arg-type]
    "list": (lambda tape: list_cassettes(5), "paths"),  # type: ignore[arg-type]
    "prune one line": (lambda tape: prune_cassette(tape, 2), "lines"),  # type: ignore[arg-type]
    "prune a text": (lambda tape: prune_cassette(tape, "2"), "lines"),  # type: ignore[arg-type]
    "merge output": (lambda tape: merge_cassettes([tape, tape], 5), "output"),  # type: ignore[arg-type]
    "report": (lambda tape: read_report(5), "path"),  # type: ignore[arg-type]
    "redact": (lambda tape: default_redact(5), "default_redact"),  # type: ignore[arg-type]
    "hash": (lambda tape: request_hash(5), "request"),  # type: ignore[arg-type]
    "called": (lambda tape: assert_called_agent(5, "x"), "engine.run"),  # type: ignore[arg-type]
    "evaluate": (lambda tape: evaluate(idle, 5, engine=None), "EvalCase"),  # type: ignore[arg-type]
    "replay_run workflow": (lambda tape: replay_run(5, journal=[]), "workflow"),  # type: ignore[arg-type]
    "replay_run adapters": (lambda tape: replay_run(idle, journal=[], adapters=5), "adapters"),  # type: ignore[arg-type]
    "replay_run routing": (lambda tape: replay_run(idle, journal=[], routing="fake:m"), "routing"),  # type: ignore[arg-type]
    "replay_run profiles": (lambda tape: replay_run(idle, journal=[], profiles=[5]), "profiles"),  # type: ignore[arg-type]
    "minimize_run workflow": (lambda tape: minimize_run(5, journal=[]), "workflow"),  # type: ignore[arg-type]
    "minimize_run redact": (lambda tape: minimize_run(idle, journal=[], redact=5), "redact"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CALLS)
async def test_the_wrong_kind_of_thing_is_named(name: str, tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    tape.write_text(HEADER)
    call, named = CALLS[name]
    with pytest.raises(ConfigError, match=named):
        result = call(tape)
        if inspect.isawaitable(result):
            await result
    assert [item.name for item in tmp_path.iterdir()] == ["t.jsonl"]
    assert tape.read_text() == HEADER


def test_what_a_cassette_adds_up_to_is_told_of_its_path_too(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    tape.write_text(HEADER)
    assert cassette_stats(tape) == cassette_stats(read_cassette(tape))
