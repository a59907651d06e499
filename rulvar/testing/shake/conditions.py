"""The conditions under which a replay is held against the record: one thing differs in each.

A condition is a name for people and a context to replay in. Hash seeds and what is read on import
need another process; everything else is done to this one, and undone.
"""

from __future__ import annotations

import contextlib
import glob
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from rulvar.engine.reach import ProjectFiles
from rulvar.testing.shake.clock import moved_clock, pickled_by_value
from rulvar.testing.shake.environment import (
    foreign_collation,
    other_environment,
    other_host,
    other_locale,
    other_time_zone,
)
from rulvar.testing.shake.substitutes import Substitute, substituted

__all__ = [
    "CONDITIONS",
    "EVERY_RUN",
    "PROCESS",
    "Condition",
    "Surroundings",
    "moved_seconds",
    "process_environment",
]

EVERY_RUN = "any other run"
PROCESS = "another process (hash seed, object addresses, what is read on import)"
_DAY = 86_400
_SCHEDULES = 3
_BLOCKS_PER_SIZE = 96
_LARGEST_BLOCK = 512
_TIME_ZONES = ("SHAKE-14", "SHAKE+11")
"""POSIX form, signs reversed: fourteen hours ahead of UTC, eleven hours behind it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a condition may depend on.

    Attributes:
        number: which round it is, from 1 on; every round shakes in its own way.
        body: the workflow's function.
    """

    number: int
    project: ProjectFiles
    body: Callable[..., Any]

    def random(self, salt: int = 0) -> random.Random:
        """Return a source of chance that is the same in every shake."""
        return random.Random(self.number * 1000 + salt)


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that differs.

    Attributes:
        name: for people.
        around: makes the context in which a replay happens.
        ordered: whether calls must come in the recorded order.
        late: number of the schedule by which served calls return late; None returns them at once.
    """

    name: str
    around: Callable[[Surroundings], AbstractContextManager[object]]
    ordered: bool = True
    late: int | None = None


def moved_seconds(number: int, now: time.struct_time) -> int:
    """Return by how much a round moves the clock: it is another minute, half of the day and weekday then."""
    half_days = 800 + 2 * 91 * number + 1
    into_half = (now.tm_hour % 12) * 3600 + now.tm_min * 60 + now.tm_sec
    minutes = 13 * 60 + 7
    return half_days * _DAY // 2 + (minutes if into_half < _DAY // 4 else -minutes)


def _substitutes(make: Callable[[Surroundings], list[Substitute]]) -> Callable[[Surroundings], Any]:
    return lambda around: substituted(make(around), around.project, around.body)


@contextlib.contextmanager
def _clock(around: Surroundings) -> Iterator[None]:
    clock = moved_clock(moved_seconds(around.number, time.localtime()))
    with pickled_by_value(), substituted(clock, around.project, around.body):
        yield


def _time_zone(around: Surroundings) -> AbstractContextManager[object]:
    return other_time_zone(_TIME_ZONES[around.number % 2])


@contextlib.contextmanager
def _locale(around: Surroundings) -> Iterator[None]:
    with other_locale(), substituted(foreign_collation(), around.project, around.body):
        yield


@contextlib.contextmanager
def _environment(around: Surroundings) -> Iterator[None]:
    with (
        other_environment(around.project),
        substituted(other_host(around.project), around.project, around.body),
    ):
        yield


def _directories(around: Surroundings) -> list[Substitute]:
    listdir, scandir, turn = os.listdir, os.scandir, around.number

    def list_turned(*args: Any, **kwargs: Any) -> Any:
        return _turned(sorted(listdir(*args, **kwargs)), turn)

    class ScanTurned:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            with scandir(*args, **kwargs) as entries:
                self._entries = iter(_turned(sorted(entries, key=lambda entry: entry.name), turn))

        def __iter__(self) -> ScanTurned:
            return self

        def __next__(self) -> Any:
            return next(self._entries)

        def __enter__(self) -> ScanTurned:
            return self

        def __exit__(self, *error: object) -> None:
            self.close()

        def close(self) -> None:
            self._entries = iter(())

    # pathlib's globbing holds on to the function in newer Pythons
    holders = [kind for kind in vars(glob).values() if _holds(kind, scandir)]
    return [
        (os, "listdir", list_turned),
        (os, "scandir", ScanTurned),
        *((kind, "scandir", staticmethod(ScanTurned)) for kind in holders),
    ]


def _holds(kind: Any, scandir: Any) -> bool:
    held = vars(kind).get("scandir") if isinstance(kind, type) else None
    return isinstance(held, staticmethod) and held.__func__ is scandir


def _turned(names: list[Any], number: int) -> list[Any]:
    """Return names in one of two orders, so that one of them is not the recorded one."""
    return names if number % 2 == 0 else names[::-1]


@contextlib.contextmanager
def _chance(around: Surroundings) -> Iterator[None]:
    before = random.getstate()
    random.seed(around.number * 7919)
    try:
        yield
    finally:
        random.setstate(before)


@contextlib.contextmanager
def _addresses(around: Surroundings) -> Iterator[None]:
    """Leave the free blocks of the allocator in another order, so that new objects lie elsewhere."""
    chance = around.random(1)
    kept: list[bytes] = []
    freed: list[bytes] = []
    for size in range(16, _LARGEST_BLOCK, 16):
        blocks = [bytes(size - 33 if size > 33 else 0) for _ in range(_BLOCKS_PER_SIZE)]
        chance.shuffle(blocks)
        kept += blocks[::2]
        freed += blocks[1::2]
    chance.shuffle(freed)
    del blocks
    while freed:
        freed.pop()
    yield
    kept.clear()


def _nothing(around: Surroundings) -> AbstractContextManager[object]:
    return ExitStack()


PLAIN = Condition(PROCESS, _nothing)
CONDITIONS: tuple[Condition, ...] = (
    Condition("another clock", _clock),
    Condition("another time zone", _time_zone),
    Condition("another locale", _locale),
    Condition("another environment", _environment),
    Condition("another directory order", _substitutes(_directories)),
    Condition("another seed of random", _chance),
    Condition("other object addresses", _addresses),
    *(
        Condition("another order of completion", _nothing, ordered=False, late=number)
        for number in range(_SCHEDULES)
    ),
)
"""What is done to a replay in this process."""


def process_environment(number: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process of a round.

    Every round has another hash seed. Every second one also begins in another time zone and locale,
    for what modules read when they are imported.
    """
    seed = number + (environment.get("PYTHONHASHSEED", "") == str(number)) * 1000
    changed = {**environment, "PYTHONHASHSEED": str(seed)}
    if number % 2 == 0:
        changed.update(TZ=_TIME_ZONES[(number // 2) % 2], LC_ALL="C", LANG="C")
    return changed
