"""Another time of day, as Python code sees it: ``time`` and ``datetime`` moved by some seconds.

What is handed out are real times and dates; only asking for the current one gives another answer.
"""

from __future__ import annotations

import contextlib
import copyreg
import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from rulvar.testing.shake.substitutes import Substitute

__all__ = ["moved_clock", "pickled_by_value"]

Kind = TypeVar("Kind", bound=type)


def moved_clock(seconds: int) -> list[Substitute]:
    """Return what stands in for the clocks of ``time`` and ``datetime``."""
    now, nanoseconds = time.time, seconds * 1_000_000_000
    real_ns, gettime, gettime_ns = time.time_ns, time.clock_gettime, time.clock_gettime_ns

    def at(which: int) -> int:
        return seconds if which == time.CLOCK_REALTIME else 0

    functions: dict[str, Callable[..., Any]] = {
        "time": lambda: now() + seconds,
        "time_ns": lambda: real_ns() + nanoseconds,
        "clock_gettime": lambda which: gettime(which) + at(which),
        "clock_gettime_ns": lambda which: gettime_ns(which) + at(which) * 1_000_000_000,
        "localtime": _of_seconds(time.localtime, lambda: now() + seconds),
        "gmtime": _of_seconds(time.gmtime, lambda: now() + seconds),
        "ctime": _of_seconds(time.ctime, lambda: now() + seconds),
        "asctime": _of_fields(time.asctime, lambda: now() + seconds, 0),
        "strftime": _of_fields(time.strftime, lambda: now() + seconds, 1),
    }
    return [
        *((time, name, function) for name, function in functions.items()),
        (datetime, "datetime", _moved_datetime(datetime.timedelta(seconds=seconds))),
        (datetime, "date", _moved_date(datetime.timedelta(seconds=seconds))),
    ]


def _of_seconds(real: Callable[..., Any], now: Callable[[], float]) -> Callable[..., Any]:
    def read(*args: Any) -> Any:
        return real(now()) if not args or args[0] is None else real(*args)

    return read


def _of_fields(real: Callable[..., Any], now: Callable[[], float], position: int) -> Callable[..., Any]:
    localtime = time.localtime

    def read(*args: Any) -> Any:
        return real(*args) if len(args) > position else real(*args, localtime(now()))

    return read


@contextlib.contextmanager
def pickled_by_value() -> Iterator[None]:
    """Let dates be pickled while another class goes by the name of theirs."""
    table: dict[type, Any] = copyreg.dispatch_table
    kinds = (datetime.datetime, datetime.date)
    before = {kind: table.get(kind) for kind in kinds}
    table[datetime.datetime] = _reduced_datetime
    table[datetime.date] = _reduced_date
    try:
        yield
    finally:
        for kind, reduce in before.items():
            if reduce is None:
                del table[kind]
            else:
                table[kind] = reduce


def _reduced_datetime(moment: datetime.datetime) -> tuple[Any, ...]:
    fields = (*moment.timetuple()[:6], moment.microsecond, moment.tzinfo, moment.fold)
    return _datetime_of, fields


def _datetime_of(*fields: Any) -> datetime.datetime:
    return datetime.datetime(*fields[:8], fold=fields[8])


def _reduced_date(day: datetime.date) -> tuple[Any, ...]:
    return _date_of, (day.year, day.month, day.day)


def _date_of(*fields: int) -> datetime.date:
    return datetime.date(*fields)


class _Alike(type):
    """A class that answers ``isinstance`` and ``issubclass`` as the real one that it stands in for."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


def _moved_datetime(by: datetime.timedelta) -> type[datetime.datetime]:
    real = datetime.datetime

    class Moved(real, metaclass=_Alike):  # type: ignore[valid-type, misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs)

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return (real.now(datetime.UTC) + by).astimezone(tz) if tz is not None else _local()

        @classmethod
        def today(cls) -> datetime.datetime:
            return _local()

        @classmethod
        def utcnow(cls) -> datetime.datetime:
            return (real.now(datetime.UTC) + by).replace(tzinfo=None)

    def _local() -> datetime.datetime:
        return (real.now(datetime.UTC) + by).astimezone().replace(tzinfo=None)

    return _named(Moved, real)


def _moved_date(by: datetime.timedelta) -> type[datetime.date]:
    real, moment = datetime.date, datetime.datetime

    class Moved(real, metaclass=_Alike):  # type: ignore[valid-type, misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs)

        @classmethod
        def today(cls) -> datetime.date:
            return (moment.now(datetime.UTC) + by).astimezone().date()

    return _named(Moved, real)


def _named(stand_in: Any, real: Kind) -> Kind:
    stand_in.__name__, stand_in.__qualname__ = real.__name__, real.__qualname__
    stand_in.__module__, stand_in.__doc__ = real.__module__, real.__doc__
    return cast(Kind, stand_in)
