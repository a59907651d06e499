"""Every adapter keeps the contract and plays its scenes; and the rules find those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from loopback import sse
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Msg
from rulvar.errors import ConfigError
from rulvar.testing import FakeAdapter, fake_tool_calls, fake_wire_error
from rulvar.testing.conformance import adapter_conformance, adapter_scenes, scenes
from rulvar.testing.conformance.scenes import SCENES


class Played(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes], *, endless: bool) -> None:
        self.pieces, self.endless = pieces, endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.endless:
            await asyncio.sleep(60)


def playing(provider: Provider, scene: str) -> Any:
    """An adapter over a transport that plays a scene."""
    script = provider.call("probe", {"value": "1"}) if scene == "tool-call" else provider.text("Hello.")
    pieces = sse(*script)[:2] if scene == "endless" else sse(*script)

    def answer(request: httpx2.Request) -> httpx2.Response:
        if scene == "failure":
            return httpx2.Response(503, json={"error": {"message": "down for a while"}})
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Played(pieces, endless=scene == "endless"))

    return provider.adapter(transport=httpx2.MockTransport(answer))


def cases_of_providers() -> list[Any]:
    return [
        pytest.param(case, id=f"{provider.name}-{case}")
        for provider in PROVIDERS
        for case in adapter_scenes(
            lambda scene, provider=provider: playing(provider, scene), model=provider.model
        )
    ]


def scripted(scene: str) -> FakeAdapter:
    async def for_ever(call: Any) -> str:
        await asyncio.sleep(60)
        return ""

    answers: dict[str, Any] = {
        "text": "Hello.",
        "tool-call": fake_tool_calls(name="probe", args={"value": "1"}),
        "failure": fake_wire_error(message="down", retryable=True, data={"kind": "transport"}),
        "endless": for_ever,
    }
    return FakeAdapter(agents={"*": answers[scene]})


@pytest.mark.parametrize("case", cases_of_providers())
async def test_providers_play_their_scenes(case: Any) -> None:
    await case.check()


@pytest.mark.parametrize("case", adapter_scenes(scripted), ids=str)
async def test_the_scripted_model_plays_its_scenes(case: Any) -> None:
    await case.check()


def whole_cases() -> list[Any]:
    return [
        pytest.param(case, id=f"{provider.name}-{case.__name__}")
        for provider in PROVIDERS
        for case in adapter_conformance(
            lambda provider=provider: playing(provider, "text"),
            ChatRequest(model=provider.model, messages=(Msg.text("user", "hi"),)),
        )
    ]


@pytest.mark.parametrize("case", whole_cases())
def test_providers_keep_the_contract(case: Any) -> None:
    case()


def test_every_scene_has_cases_and_names_are_unique() -> None:
    cases = adapter_scenes(scripted)
    assert {case.scene for case in cases} == set(SCENES)
    assert len({case.name for case in cases}) == len(cases)


def test_what_is_no_adapter_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a function"):
        adapter_scenes(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="scene 'nosuch'"):
        adapter_scenes(scripted, scenes=["nosuch"])  # type: ignore[list-item]


class Broken:
    """An adapter with one fault; everything else is the scripted model's."""

    def __init__(self, fault: str, scene: str) -> None:
        self.fault, self.inner = fault, scripted(scene)
        self.id = "a:b" if fault == "colon" else "broken"

    def caps(self, model: str) -> Any:
        return {} if self.fault == "caps" else self.inner.caps(model)

    def stream(self, request: Any, signal: Any = None) -> Any:
        return self._events(request, None if self.fault == "ignores-abort" else signal)

    async def _events(self, request: Any, signal: Any) -> AsyncIterator[Any]:
        if self.fault == "raises":
            raise RuntimeError("down")
        last = None
        async for event in self.inner.stream(request, signal):
            if self.fault == "no-terminal" and type(event).__name__ in ("Finish", "StreamError"):
                return
            last = event
            yield event
        if self.fault == "two-terminals":
            yield last


@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        ("no-terminal", "again and again"),
        ("two-terminals", "a failure of the provider is an event"),
        ("ignores-abort", "promptly"),
        ("raises", "a failure of the provider is an event"),
    ],
)
async def test_the_rules_find_a_fault(fault: str, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "PROMPT_S", 0.2)
    failed = []
    for case in adapter_scenes(lambda scene: Broken(fault, scene)):
        try:
            await case.check()
        except (AssertionError, RuntimeError):
            failed.append(case.name)
    assert any(broken in name for name in failed), failed
