"""What a workflow body must not read by itself: clock, chance, fresh ids, the environment.

One table of sources, by the rule of the lint that forbids them. It is resolved against the modules
that are loaded, so that looking costs no import.
"""

from __future__ import annotations

import datetime
import dis
import functools
import operator
import os
import random
import sys
import time
import types
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol

__all__ = ["INSTEAD", "Notices", "Source", "Sources", "environment_reader", "known_sources"]

INSTEAD: Mapping[str, str] = {
    "RLV101": "use ctx.now() or ctx.time()",
    "RLV102": "use ctx.random()",
    "RLV103": "use ctx.uuid()",
    "RLV108": "pass it in args, or read it in ctx.step",
}
"""What to write instead, by rule."""

_CLOCKS = (
    "clock_gettime",
    "clock_gettime_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
    "time",
    "time_ns",
)
_CLOCKS_WITHOUT_ARGUMENT = {"asctime": 0, "ctime": 0, "gmtime": 0, "localtime": 0, "strftime": 1}
_DATE_CLOCKS = frozenset({"now", "today", "utcnow"})
_SECRETS = ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe")
_UUIDS = ("uuid1", "uuid4", "uuid6", "uuid7", "uuid8")
_OS = (
    "cpu_count",
    "getcwd",
    "getcwdb",
    "getenv",
    "getenvb",
    "getloadavg",
    "getlogin",
    "getpid",
    "getppid",
    "uname",
)
_HOST = {
    "getpass": ("getuser",),
    "platform": ("machine", "node", "platform", "processor", "release", "system", "uname", "version"),
    "socket": ("getfqdn", "gethostname"),
}
_NAMED = (
    ("time", (*_CLOCKS, *_CLOCKS_WITHOUT_ARGUMENT)),
    ("uuid", _UUIDS),
    ("os", (*_OS, "urandom", "environ", "environb")),
    ("secrets", _SECRETS),
    *_HOST.items(),
)
"""What is looked up by name; modules are only looked into where somebody has loaded them."""
_FUNCTIONS = (BuiltinFunctionType, FunctionType, MethodType, type)
_LAZY_IMPORT = getattr(types, "LazyImportType", None)
_ENVIRONMENT_MODULES = frozenset({"os", "collections.abc", "_collections_abc"})
_OPCODES_WITH_COUNT = frozenset({"CALL", "CALL_KW"})


@dataclass(frozen=True, slots=True)
class Source:
    """Something that gives another value every time.

    Attributes:
        code: the lint's rule.
        name: how a person writes it.
        max_args: it only counts when it is called with at most that many arguments.
        instance: it only counts as a method of this object.
    """

    code: str
    name: str
    max_args: int | None = None
    instance: Any = None

    def is_read_at(self, code: CodeType, offset: int) -> bool:
        """Whether the call at an offset reads it, as far as the number of arguments tells."""
        if self.max_args is None:
            return True
        text = code.co_code
        if dis.opname[text[offset]] not in _OPCODES_WITH_COUNT:
            return False  # called with *args: nothing tells how many
        return text[offset + 1] <= self.max_args

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"{self.name} gives another value on every replay; {INSTEAD[self.code]}"


class Notices(Protocol):
    """Takes note of impure reads."""

    def saw(self, source: Source, frame: FrameType) -> None:
        """Hear that code in a frame reads a source."""


class Sources:
    """The table, resolved: by callable, and by the code of those that are written in Python."""

    def __init__(self) -> None:
        self.by_callable: dict[Any, Source] = {}
        self.by_code: dict[CodeType, tuple[Source, ...]] = {}
        self.modules: dict[str, Any] = {"datetime": datetime, "os": os}
        for module, name, source in _functions():
            self.modules[module.__name__] = module
            self._add(getattr(module, name, None), source)
        for name in _DATE_CLOCKS:
            self._add(getattr(datetime.datetime, name, None), Source("RLV101", f"datetime.{name}()"))
        self._add(datetime.date.today, Source("RLV101", "date.today()"))
        self.unseeded = Source("RLV102", "random.Random()", 0)
        self.by_callable[random.Random] = self.unseeded
        self.by_callable[random.SystemRandom] = Source("RLV102", "random.SystemRandom()")
        self.environ = Source("RLV108", "os.environ")
        environ = type(os.environ)
        self.environ_codes = frozenset({environ.__getitem__.__code__, environ.__iter__.__code__})
        self.codes = self.environ_codes | self.by_code.keys() | {random.Random.__init__.__code__}

    def find(self, called: Any, first: Any = None) -> Source | None:
        """Return the source that a callable is.

        Args:
            first: what it is called with first; a method may come as its function and its instance.
        """
        if type(called) not in _FUNCTIONS:
            return None
        source = self.by_callable.get(called)
        if source is None and type(called) is FunctionType:
            for source in self.by_code.get(called.__code__, ()):
                if source.instance is not None and source.instance is first:
                    return source
            return None
        if source is None and type(called) is BuiltinFunctionType and called.__name__ in _DATE_CLOCKS:
            owner = called.__self__
            if isinstance(owner, type) and issubclass(owner, datetime.date):
                return Source("RLV101", f"{owner.__name__}.{called.__name__}()")
        return source

    def entered(self, frame: FrameType) -> Source | None:
        """Return the source whose Python code a frame has just entered."""
        if frame.f_code in self.environ_codes:
            return self.environ
        if frame.f_code is random.Random.__init__.__code__:
            return self.unseeded if frame.f_locals.get("x") is None else None
        for source in self.by_code.get(frame.f_code, ()):
            if source.instance is None or source.instance is frame.f_locals.get("self"):
                return source
        return None

    def is_held_by(self, value: Any) -> bool:
        """Whether a value gives code a way to a source: a module, a class or a function of the table."""
        if value is os.environ or value is getattr(os, "environb", None):
            return True
        kind = type(value)
        if kind is _LAZY_IMPORT:
            return True  # what it will bring cannot be told
        if issubclass(kind, type):
            return issubclass(value, (datetime.date, random.Random))
        if kind is ModuleType:
            return any(value is module for module in self.modules.values())
        return self.find(value) is not None

    def _add(self, called: Any, source: Source) -> None:
        if type(called) not in _FUNCTIONS:
            return
        self.by_callable[called] = source
        function = getattr(called, "__func__", called)
        if isinstance(function, FunctionType):
            bound = replace(source, instance=getattr(called, "__self__", None))
            self.by_code[function.__code__] = (*self.by_code.get(function.__code__, ()), bound)


def known_sources() -> Sources:
    """Return the table as the loaded modules make it; the same one while it would not change.

    A test may have put a clock of its own where a module has its function.
    """
    return _resolved(_Bindings(_bound()))


class _Bindings:
    """What is bound in the modules of the table: the same where every object is the same."""

    __slots__ = ("_hash", "_values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self._values = values  # kept, so that their ids stay theirs
        self._hash = hash(tuple(map(id, values)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Bindings) or len(self._values) != len(other._values):
            return False
        return all(map(operator.is_, self._values, other._values))


def _bound() -> tuple[Any, ...]:
    values: list[Any] = [datetime.datetime, datetime.date, *vars(random).values()]
    for module, names in _NAMED:
        if (found := sys.modules.get(module)) is not None:
            values += [getattr(found, name, None) for name in names]
        else:
            values.append(None)
    return tuple(values)


@functools.lru_cache(maxsize=8)
def _resolved(bindings: _Bindings) -> Sources:
    return Sources()


def _functions() -> Iterator[tuple[Any, str, Source]]:
    for name in _CLOCKS:
        yield time, name, Source("RLV101", f"time.{name}()")
    for name, most in _CLOCKS_WITHOUT_ARGUMENT.items():
        yield time, name, Source("RLV101", f"time.{name}() of this moment", most)
    for name, value in vars(random).items():
        if getattr(value, "__self__", None) is random._inst:
            yield random, name, Source("RLV102", f"random.{name}()")
    yield os, "urandom", Source("RLV102", "os.urandom()")
    for name in _UUIDS:
        yield uuid, name, Source("RLV103", f"uuid.{name}()")
    for name in _OS:
        yield os, name, Source("RLV108", f"os.{name}()")
    for name in _SECRETS:
        if "secrets" in sys.modules:
            yield sys.modules["secrets"], name, Source("RLV102", f"secrets.{name}()")
    for module, names in _HOST.items():
        for name in names:
            if module in sys.modules:
                yield sys.modules[module], name, Source("RLV108", f"{module}.{name}()")


def environment_reader(frame: FrameType) -> FrameType | None:
    """Return the frame that reads the environment, from the frame of ``os.environ``'s own method."""
    reader: FrameType | None = frame
    while reader is not None and reader.f_globals.get("__name__") in _ENVIRONMENT_MODULES:
        reader = reader.f_back
    return reader
