"""Credentials in tool fixtures: masked when they are recorded, and matched by their mask when they are replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, Engine, InMemoryStore, ToolEnvelope, tool, workflow
from rulvar.errors import ConfigError
from rulvar.machines.report import record_run
from rulvar.testing import run_workflow

KEY = "sk-ant-api03-" + "a1B2c3D4" * 4


@tool
def log_in(password: str) -> ToolEnvelope:
    """Log in."""
    return ToolEnvelope(data={"access_token": KEY, "user": "acme"}, metadata={"header": f"Bearer {KEY}"})


@tool
def fetch(access: str, customer: str = "acme") -> str:
    """Fetch what a key may see."""
    return f"for {customer}"


@workflow(name="sync")
async def sync(ctx: Ctx, args: Any) -> Any:
    session = await ctx.call_tool(log_in, {"password": "hunter2"})
    return await ctx.call_tool(
        fetch, {"access": args or session["access_token"], "customer": session["user"]}
    )


@pytest.fixture(autouse=True)
def nothing_but_a_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)  # where nothing is recorded


async def test_what_is_recorded_has_its_credentials_masked_and_still_replays(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    first = await run_workflow(sync, fixture=path)
    text = path.read_text()
    assert KEY not in text
    assert "hunter2" not in text
    logged_in, fetched = json.loads(text)["recordings"]
    assert logged_in["args"] == {"password": "[REDACTED]"}
    assert logged_in["envelope"]["data"] == {"access_token": "[REDACTED]", "user": "acme"}
    assert fetched["args"]["access"] == "[REDACTED]"
    again = await run_workflow(sync, fixture=path)
    assert (again.status, again.result) == (first.status, first.result) == ("completed", "for acme")


async def test_a_run_that_keeps_its_recording_keeps_it_masked() -> None:
    run = await run_workflow(sync, record=True)
    assert run.recordings is not None
    assert KEY not in json.dumps(run.recordings.to_wire())


async def test_a_fixture_with_its_credentials_replays_as_well(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    await run_workflow(sync, fixture=path, redact=False)
    assert KEY in path.read_text()
    assert (await run_workflow(sync, fixture=path)).result == "for acme"
    assert (await run_workflow(sync, fixture=path, redact=False)).result == "for acme"


async def test_a_masked_fixture_replays_without_masking_too(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    await run_workflow(sync, KEY, fixture=path)
    assert (await run_workflow(sync, KEY, fixture=path, redact=False)).result == "for acme"


async def test_a_hook_masks_what_the_policy_does_not_know(tmp_path: Path) -> None:
    path, redact = tmp_path / "f.json", lambda text: text.replace("acme", "[customer]")
    await run_workflow(sync, fixture=path, redact=redact)
    text = path.read_text()
    assert "acme" not in text
    assert KEY not in text
    assert (await run_workflow(sync, fixture=path, redact=redact)).result == "for [customer]"


async def test_another_argument_is_drift_beside_a_mask_and_is_told_masked(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    await run_workflow(sync, fixture=path)
    run = await run_workflow(sync, f"other {KEY}", fixture=path)
    assert run.outcome.error is not None
    assert run.outcome.error.code == "replay_drift"
    assert "other [REDACTED]" in run.outcome.error.message
    assert KEY not in run.outcome.error.message


@pytest.mark.parametrize("redact", ["acme", 1, ["acme"]])
async def test_a_mask_that_is_none_is_refused_before_anything_runs(redact: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="redact: expected a function of a text, or False"):
        await run_workflow(sync, fixture=tmp_path / "f.json", redact=redact)


async def test_a_mask_without_a_fixture_is_refused() -> None:
    with pytest.raises(ConfigError, match="redact without fixture, replay or record"):
        await run_workflow(sync, redact=False)


async def test_a_fixture_made_of_a_real_run_is_masked(tmp_path: Path) -> None:
    store, path = InMemoryStore(), tmp_path / "f.json"
    async with Engine(journal=store) as engine:
        await engine.run(sync, run_id="r", trace=True).result()
    await record_run(store, "r", path)
    assert KEY not in path.read_text()
    assert (await run_workflow(sync, replay=path)).result == "for acme"
    await record_run(store, "r", path, redact=False)
    assert KEY in path.read_text()
