"""Garbage is collected after work, never during it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator

import pytest

from rulvar_lsp.edge import collection
from rulvar_lsp.edge.collection import Collector


@pytest.fixture(autouse=True)
def no_collection_of_its_own() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def litter(count: int) -> None:
    """Leave so many containers behind, all in cycles."""
    for _ in range(count // 2):
        one: list[object] = []
        one.append([one])


async def collected_within(collector: Collector, done: list[object], seconds: float) -> bool:
    collector.worked()
    await asyncio.sleep(seconds)
    return bool(done)


async def test_what_work_left_is_collected_in_a_moment() -> None:
    done: list[object] = []
    collector = Collector(lambda work: done.append(work()))
    litter(collection.FEW * 2)
    assert await collected_within(collector, done, 0.3)
    assert gc.get_count()[0] < collection.FEW


async def test_more_work_puts_the_collection_off() -> None:
    done: list[object] = []
    collector = Collector(lambda work: done.append(work()))
    litter(collection.FEW * 2)
    collector.worked()
    collector.wait()
    await asyncio.sleep(0.1)
    assert not done


@pytest.mark.parametrize("leave", [lambda: None, lambda: litter(collection.MANY * 2)], ids=["little", "much"])
async def test_little_and_much_wait_for_a_pause(
    leave: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "LATER_SECONDS", 0.2)
    done: list[object] = []
    collector = Collector(lambda work: done.append(work()))
    leave()
    assert not await collected_within(collector, done, 0.1)
    await asyncio.sleep(0.3)
    assert done


async def test_a_collection_that_found_nothing_is_not_repeated_soon() -> None:
    done: list[object] = []
    collector = Collector(lambda work: done.append(work()))
    kept = [[] for _ in range(collection.FEW * 2)]
    assert await collected_within(collector, done, 0.3)
    done.clear()
    kept += [[] for _ in range(collection.FEW * 2)]
    assert not await collected_within(collector, done, 0.3)
