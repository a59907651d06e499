"""A live smoke test spends within its bounds and never turns a failure into a pass."""

import math
from typing import Any

import pytest

from rulvar.contracts.stream import StreamError, TextDelta, WireError
from rulvar.errors import ConfigError
from rulvar.testing.live import MAX_LIVE_SMOKE_DELAY_MS, live_test_enabled, run_live_smoke


class Naps:
    """Waits that do not wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def failed(retryable: bool) -> list[Any]:
    return [StreamError(error=WireError(code="agent", message="no", retryable=retryable))]


async def smoke(kit: Any, *streams: list[Any], **bounds: Any) -> Any:
    adapter, naps = kit.Adapter(streams), Naps()
    outcome = await run_live_smoke(adapter, kit.ask(), sleep=naps, **bounds)
    return outcome, len(adapter.calls), naps.seconds


async def test_one_finish_at_the_end_passes(kit: Any) -> None:
    outcome, opened, naps = await smoke(kit, kit.answer())
    assert (outcome.status, outcome.attempts, opened, naps) == ("ok", 1, 1, [])
    assert outcome.events == tuple(kit.answer())


async def test_a_retryable_error_is_tried_again_with_linear_backoff(kit: Any) -> None:
    outcome, opened, naps = await smoke(
        kit, failed(True), failed(True), kit.answer(), attempts=3, base_delay_ms=500
    )
    assert (outcome.status, outcome.attempts, opened, naps) == ("ok", 3, 3, [0.5, 1.0])


async def test_the_attempts_are_a_bound(kit: Any) -> None:
    outcome, opened, naps = await smoke(
        kit, failed(True), failed(True), kit.answer(), attempts=2, base_delay_ms=1
    )
    assert (outcome.status, outcome.attempts, opened) == ("exhausted", 2, 2)
    assert len(outcome.errors) == 2
    assert outcome.error == outcome.errors[-1]
    assert len(naps) == 1


async def test_an_error_that_is_not_retryable_fails_at_once_and_stays_typed(kit: Any) -> None:
    outcome, opened, _ = await smoke(kit, failed(False), kit.answer())
    assert (outcome.status, opened) == ("failed", 1)
    assert outcome.error == WireError(code="agent", message="no", retryable=False)


async def test_broken_streams_are_never_tried_again(kit: Any) -> None:
    late = TextDelta(text="late")
    for stream, status, reason in [
        ([], "no-terminal", None),
        ([late], "no-terminal", None),
        ([*kit.answer(), late], "contract-violation", "terminal-not-final"),
        ([kit.finish(), kit.finish()], "contract-violation", "multiple-terminals"),
        ([*failed(True), kit.finish()], "contract-violation", "multiple-terminals"),
        ([late, RuntimeError("wire")], "contract-violation", "raised"),
    ]:
        outcome, opened, _ = await smoke(kit, stream, kit.answer())
        assert (outcome.status, outcome.reason, opened) == (status, reason, 1)
        assert outcome.error is None


@pytest.mark.parametrize("attempts", [0, 11, -1, 1.5, math.nan, math.inf, "3", None, True])
async def test_attempts_out_of_bounds_are_refused_before_any_stream_opens(kit: Any, attempts: Any) -> None:
    adapter = kit.Adapter([kit.answer()])
    with pytest.raises(ConfigError, match="attempts") as refusal:
        await run_live_smoke(adapter, kit.ask(), attempts=attempts)
    assert refusal.value.data["field"] == "attempts"
    assert refusal.value.data["max"] == 10
    value = refusal.value.data["value"]
    assert value == (
        str(attempts) if isinstance(attempts, float) and not math.isfinite(attempts) else attempts
    )
    assert adapter.calls == []


@pytest.mark.parametrize("delay", [-1, 0.5, math.nan, MAX_LIVE_SMOKE_DELAY_MS + 1, "1", False])
async def test_delays_out_of_bounds_are_refused(kit: Any, delay: Any) -> None:
    with pytest.raises(ConfigError, match="base_delay_ms") as refusal:
        await run_live_smoke(kit.Adapter(), kit.ask(), attempts=1, base_delay_ms=delay)
    assert refusal.value.data["max"] == MAX_LIVE_SMOKE_DELAY_MS


async def test_the_longest_scheduled_wait_is_bounded_too(kit: Any) -> None:
    most = MAX_LIVE_SMOKE_DELAY_MS // 2
    with pytest.raises(ConfigError, match="attempts"):
        await run_live_smoke(kit.Adapter(), kit.ask(), attempts=4, base_delay_ms=most)
    outcome, _, _ = await smoke(kit, kit.answer(), attempts=3, base_delay_ms=most)
    assert outcome.status == "ok"


def test_a_key_alone_is_no_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RULVAR_LIVE_TESTS", raising=False)
    monkeypatch.setenv("SOME_KEY", "x")
    assert not live_test_enabled("SOME_KEY")
    monkeypatch.setenv("RULVAR_LIVE_TESTS", "true")
    assert not live_test_enabled("SOME_KEY")
    monkeypatch.setenv("RULVAR_LIVE_TESTS", "1")
    assert live_test_enabled("SOME_KEY")
    assert live_test_enabled()
    monkeypatch.setenv("EMPTY_KEY", "")
    assert not live_test_enabled("SOME_KEY", "EMPTY_KEY")
    assert not live_test_enabled("ABSENT_KEY")
