"""``ctx.pipeline``: items through stages, each item as fast as it can go."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rulvar.contracts.outcome import Dropped
from rulvar.contracts.stream import WireError
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.primitives.parallel import (
    Returned,
    begun,
    entry_ref,
    listed,
    raise_exhausted,
    run_branches,
    settled,
)
from rulvar.engine.primitives.step import wire_error
from rulvar.engine.run import Run
from rulvar.errors import ConfigError, NotAwaitableError
from rulvar.kernel.scope import pipeline_scope

__all__ = ["PipelineResult", "run_pipeline"]

Stage = Callable[[Any], Awaitable[Any]]
MODES = ("drop", "throw", "collect")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """What ``on_item_error="collect"`` returns: results in item order, and what was dropped."""

    results: list[Any]
    dropped: list[Dropped]


class _ItemFailed(Exception):
    """Carries a stage's failure out of its branch, with the scope that it happened in."""

    def __init__(self, scope: str, error: BaseException) -> None:
        self.scope = scope
        self.error = error


async def run_pipeline(run: Run, items: Iterable[Any], stages: tuple[Stage, ...], on_item_error: str) -> Any:
    """Send items through stages; see ``Ctx.pipeline``."""
    place = run.place()
    if on_item_error not in MODES:
        raise ConfigError(
            f"ctx.pipeline on_item_error={on_item_error!r}: use 'drop', 'throw' or 'collect'",
            data={"field": "on_item_error"},
        )
    for number, stage in enumerate(stages):
        if not callable(stage):
            raise ConfigError(
                f"ctx.pipeline stages[{number}]: expected a function, got {type(stage).__name__}",
                data={"field": f"stages[{number}]"},
            )
    if not isinstance(items, Iterable):
        raise ConfigError(
            f"ctx.pipeline items: expected a list, got {type(items).__name__}", data={"field": "items"}
        )
    sources = listed(run, items)
    scopes = [pipeline_scope(place.scope, 0, number) for number in range(len(sources))]
    thunks: list[Any] = [
        partial(_through, run, place, stages, number, item) for number, item in enumerate(sources)
    ]
    ended: list[int] = []
    ends = await run_branches(run, place, scopes, thunks, operator.call, abort_siblings=False, ended=ended)
    errors = [end.error if isinstance(end, _ItemFailed) else end for end in ends]
    raise_exhausted(errors)
    for error in errors:
        if isinstance(error, NotAwaitableError):
            raise error
    if on_item_error == "throw":
        failed = next((number for number in ended if isinstance(ends[number], BaseException)), None)
        if failed is not None:
            raise errors[failed]
    results: list[Any] = []
    dropped: list[Dropped] = []
    for end in ends:
        if not isinstance(end, BaseException):
            results.append(end.value if type(end) is Returned else end)
            continue
        scope, error = (end.scope, end.error) if isinstance(end, _ItemFailed) else (place.scope, end)
        wire = settled(error).error or WireError.from_wire(wire_error(error))  # a limit has none of its own
        dropped.append(Dropped(source="pipeline", scope=scope, error=wire, entry_ref=entry_ref(error)))
    run.dropped.extend(dropped)
    return PipelineResult(results=results, dropped=dropped) if on_item_error == "collect" else results


async def _through(run: Run, place: Place, stages: tuple[Stage, ...], number: int, item: Any) -> Any:
    value = item
    for index, stage in enumerate(stages):
        here = CURRENT_PLACE.get()
        assert here is not None
        scope = pipeline_scope(place.scope, index, number)
        span = here.span if index == 0 else run.next_span()
        token = CURRENT_PLACE.set(here.at(scope=scope, span=span, around=place.span))
        try:
            value = await begun(run, stage, value)
        except Exception as error:
            raise _ItemFailed(scope, error) from error
        finally:
            CURRENT_PLACE.reset(token)
    return value
