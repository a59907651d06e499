"""A stored journal that no run can go on from is refused by name, before anything is paid again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.errors import JournalCompatibilityError, JournalOrderViolation
from rulvar.stores import JsonlFileStore
from rulvar.testing import create_test_engine


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    return [await ctx.agent("one"), await ctx.step("two", lambda: 2)]


async def resumed(tmp_path: Path, change: Any) -> tuple[Any, int, bytes]:
    """Change the journal of a run as a file, resume it, and return its outcome, its live calls and its bytes."""
    recording = create_test_engine(agents={"*": "x"})
    async with recording:
        await recording.run(flow, run_id="r").result()
    entries = [entry.to_wire() for entry in await recording.store.load("r")]
    change(entries)
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    meta = await recording.store.load_meta("r")
    (tmp_path / "r.meta.json").write_text(json.dumps(meta), "utf-8")
    before = path.read_bytes()
    engine = create_test_engine(agents={"*": "x"}, journal=JsonlFileStore(tmp_path))
    async with engine:
        try:
            return await engine.resume("r", flow).result(), len(engine.fake.calls), before
        except Exception as error:
            assert path.read_bytes() == before
            return error, len(engine.fake.calls), before


def without(*fields: str, at: int) -> Any:
    def change(entries: list[dict[str, Any]]) -> None:
        for field in fields:
            del entries[at][field]

    return change


def with_field(field: str, value: Any, at: int) -> Any:
    def change(entries: list[dict[str, Any]]) -> None:
        entries[at][field] = value

    return change


@pytest.mark.parametrize(
    ("change", "place", "field"),
    [
        (without("kind", "hashVersion", at=0), 1, "kind"),
        (without("kind", at=2), 3, "kind"),
        (with_field("kind", 5, at=0), 1, "kind"),
        (lambda entries: entries.insert(2, 5), 3, "kind"),
        (lambda entries: entries.insert(1, [1]), 2, "kind"),
        (without("seq", at=1), 2, "seq"),
        (with_field("seq", "2", at=2), 3, "seq"),
        (without("key", at=0), 1, "key"),
        (without("status", at=3), 4, "status"),
        (without("ref", at=2), 3, "ref"),
        (with_field("ref", "0", at=2), 3, "ref"),
        (with_field("ref", 5, at=2), 3, "ref"),
        (with_field("ref", 2, at=2), 3, "ref"),
    ],
)
async def test_an_entry_that_lacks_what_makes_it_one_is_named(
    tmp_path: Path, change: Any, place: int, field: str
) -> None:
    error, calls, _ = await resumed(tmp_path, change)
    assert isinstance(error, JournalCompatibilityError)
    assert f"run 'r': entry {place} of the journal" in str(error)
    assert f": {field} is " in str(error)
    assert (error.data["subCode"], error.data["field"]) == ("MALFORMED_ENTRY", field)
    assert calls == 0


@pytest.mark.parametrize(
    "change", [with_field("seq", 0, at=1), lambda entries: entries.insert(0, entries.pop(1))]
)
async def test_entries_out_of_order_are_refused(tmp_path: Path, change: Any) -> None:
    error, calls, _ = await resumed(tmp_path, change)
    assert isinstance(error, JournalOrderViolation)
    assert "run 'r': entry 2 of the journal has seq 0" in str(error)
    assert calls == 0


@pytest.mark.parametrize(
    "change",
    [
        with_field("kind", "future.kind", at=1),
        with_field("zzz", {"k": [1]}, at=0),
        without("spanId", at=0),
        without("startedAt", at=0),
        without("hashVersion", at=1),
        lambda entries: entries.pop(1),
    ],
)
async def test_what_is_only_unknown_or_not_needed_passes(tmp_path: Path, change: Any) -> None:
    outcome, calls, _ = await resumed(tmp_path, change)
    assert (outcome.status, outcome.value, calls) == ("ok", ["x", 2], 0)


@pytest.mark.parametrize(("version", "code"), [(1.5, "HASH_VERSION_TOO_OLD"), (2.5, "HASH_VERSION_TOO_NEW")])
async def test_a_version_between_two_is_none_of_them(tmp_path: Path, version: float, code: str) -> None:
    error, calls, _ = await resumed(tmp_path, with_field("hashVersion", version, at=0))
    assert isinstance(error, JournalCompatibilityError)
    assert (error.data["subCode"], error.data["entryHashVersion"], calls) == (code, version, 0)
