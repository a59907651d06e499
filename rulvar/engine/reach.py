"""Which code of the project a workflow body can reach, as far as loaded modules tell.

The walk follows what objects hold, not what source texts say: functions and their closures, the
classes and instances in a module's namespace, modules of the project. Libraries are not entered.
Objects are only looked at: no attribute of an unknown object is read, as a lazy proxy might answer.
"""

from __future__ import annotations

import dis
import functools
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from rulvar.engine.impurity import Sources
from rulvar.engine.paths import absolute
from rulvar.engine.workflow import Workflow

__all__ = ["ProjectFiles", "Reach", "reach_of"]

_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_LOADS = frozenset({"IMPORT_NAME", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_CACHED = type(functools.lru_cache(len))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_LEAVES = frozenset({str, bytes, int, float, bool, complex, type(None)})
_LARGEST_CONTAINER = 256
_MOST_TERRITORIES = 256


class ProjectFiles:
    """Tells the project's files from those of Python, of installed packages and of rulvar itself."""

    def __init__(self) -> None:
        rulvar = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        python = os.path.dirname(os.path.abspath(os.__file__))
        self._libraries = (rulvar + os.sep, python + os.sep)
        self._known: dict[str, bool] = {}

    def holds(self, filename: object) -> bool:
        """Whether something names a file of the project."""
        if not isinstance(filename, str):
            return False
        known = self._known.get(filename)
        if known is None:
            known = self._known[filename] = self._judge(filename)
        return known

    def _judge(self, filename: str) -> bool:
        if filename.startswith("<"):
            return False
        path = absolute(filename)
        return not path.startswith(self._libraries) and not any(part in path for part in _PACKAGES)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a body can reach.

    Attributes:
        codes: the code objects of the project; none are told when nothing is read.
        reads: whether any of them names a source of impurity; False means that none can be read
            without being handed in from elsewhere.
    """

    codes: tuple[CodeType, ...]
    reads: bool


def reach_of(body: Callable[..., Any], project: ProjectFiles, sources: Sources) -> Reach:
    """Return what a body can reach."""
    walk = _Walk(project, sources, _territories(sources))
    walk.add(body)
    if not walk.reads:
        return Reach((), reads=False)
    codes = dict.fromkeys(walk.codes)
    for territory in walk.entered:
        codes.update(dict.fromkeys(territory.codes))
    return Reach(tuple(codes), reads=True)


@dataclass(frozen=True, slots=True)
class _Territory:
    """What a module's namespace leads to.

    Attributes:
        aliases: the names in it that are sources of impurity.
        loaded: how many modules were loaded: an import in a function may find one more.
        looks: everything that may hold other objects by now.
    """

    codes: tuple[CodeType, ...]
    reads: bool
    aliases: frozenset[str]
    loaded: int
    looks: tuple[_Look, ...]

    def is_current(self) -> bool:
        """Whether nothing was bound or put in anew since."""
        return self.loaded == len(sys.modules) and all(look.is_current() for look in self.looks)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a namespace, a class, a container or a closure held when it was looked into.

    Attributes:
        held: kept alive, as an object that comes later may get the place of one that is gone.
    """

    item: Any
    held: tuple[Any, ...]

    def is_current(self) -> bool:
        """Whether it holds the very same objects."""
        held = _held(self.item)
        return len(held) == len(self.held) and all(map(operator.is_, held, self.held))


def _held(item: Any) -> tuple[Any, ...]:
    """Return what something holds, and the names by which it does."""
    kind = type(item)
    if kind is FunctionType:
        return tuple(map(_cell_value, item.__closure__ or ()))
    if kind is dict:
        return (*item, *item.values())
    if issubclass(kind, type):
        return (*vars(item).values(), *item.__bases__)
    return tuple(item)


class _Territories:
    """Territories by namespace. A walk looks at every object of a module; the runs of a test suite share it."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._known: dict[int, _Territory] = {}

    def of(self, names: Mapping[str, Any], project: ProjectFiles) -> _Territory:
        """Return the territory of a namespace."""
        module = sys.modules.get(str(names.get("__name__")))
        if not isinstance(module, ModuleType) or vars(module) is not names:
            return _Walk(project, self._sources, None).explore(names)  # whoever made it may drop it soon
        known = self._known.get(id(names))
        if known is None or not known.is_current():
            if len(self._known) >= _MOST_TERRITORIES:
                self._known.clear()
            known = self._known[id(names)] = _Walk(project, self._sources, None).explore(names)
        return known


@functools.lru_cache(maxsize=8)
def _territories(sources: Sources) -> _Territories:
    return _Territories(sources)


class _Walk:
    """One walk; with territories it does not enter namespaces itself."""

    def __init__(self, project: ProjectFiles, sources: Sources, territories: _Territories | None) -> None:
        self._territories = territories
        self._looks: list[_Look] = []
        self.entered: list[_Territory] = []
        self.codes: dict[CodeType, None] = {}
        self.reads = False
        self._project = project
        self._sources = sources
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # what was seen stays alive, so that ids stay theirs
        self._aliases: dict[int, frozenset[str]] = {}
        self._todo: list[Any] = []

    def add(self, root: Any) -> None:
        self._hold([root])
        self._go()

    def explore(self, names: Mapping[str, Any]) -> _Territory:
        loaded = len(sys.modules)
        aliases = self._namespace(names)
        self._go()
        return _Territory(tuple(self.codes), self.reads, aliases, loaded, tuple(self._looks))

    def _go(self) -> None:
        while self._todo:
            item = self._todo.pop()
            if id(item) in self._seen:
                continue
            self._seen.add(id(item))
            self._kept.append(item)
            self._visit(item)

    def _hold(self, items: Iterable[Any]) -> None:
        """Note what code can name: sources are found here, the rest is visited later."""
        for item in items:
            if type(item) in _LEAVES:
                continue
            if not self.reads and self._sources.is_held_by(item):
                self.reads = True
            self._todo.append(item)

    def _visit(self, item: Any) -> None:
        kind = type(item)
        if kind is FunctionType:
            self._function(item)
        elif issubclass(kind, type):
            self._class(item)
        elif issubclass(kind, ModuleType):
            if self._project.holds(vars(item).get("__file__")):
                self._namespace(vars(item))
        elif kind in _CONTAINERS:
            if len(item) <= _LARGEST_CONTAINER:
                self._note(item)
                self._hold(item.values() if kind is dict else item)
        else:
            self._todo.extend(_parts(kind, item))

    def _note(self, item: Any) -> None:
        if self._territories is None and type(item) not in (tuple, frozenset):
            self._looks.append(_Look(item, _held(item)))

    def _function(self, function: FunctionType) -> None:
        if function.__closure__:
            self._note(function)
        self._todo.append(vars(function).get("__wrapped__"))
        held = [_cell_value(cell) for cell in function.__closure__ or ()]
        if not self._project.holds(function.__code__.co_filename):
            self._todo.extend(held)
            return
        self._hold([*held, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()])
        aliases = self._namespace(function.__globals__)
        for code in _nested(function.__code__):
            self.codes[code] = None
            if not self.reads:
                self.reads = self._names_source(code, aliases)

    def _class(self, owner: type) -> None:
        if not self._is_of_project(owner):
            return
        self._note(owner)
        values = list(vars(owner).values())
        self._hold(
            value.__func__ if type(value) in (staticmethod, classmethod) else value for value in values
        )
        self._todo.extend(owner.__mro__[1:-1])

    def _is_of_project(self, owner: type) -> bool:
        module = sys.modules.get(str(owner.__module__))
        if isinstance(module, ModuleType) and isinstance(file := vars(module).get("__file__"), str):
            return self._project.holds(file)
        functions = [value for value in vars(owner).values() if type(value) is FunctionType]
        return any(self._project.holds(function.__code__.co_filename) for function in functions)

    def _namespace(self, names: Mapping[str, Any]) -> frozenset[str]:
        known = self._aliases.get(id(names))
        if known is not None:
            return known
        if self._territories is not None:
            territory = self._territories.of(names, self._project)
            self.entered.append(territory)
            self.reads = self.reads or territory.reads
            self._aliases[id(names)] = territory.aliases
            return territory.aliases
        self._note(names)
        items = list(names.items())
        found = frozenset(name for name, value in items if self._sources.is_held_by(value))
        self._aliases[id(names)] = found
        self._todo.extend(value for name, value in items if name not in found)
        return found

    def _names_source(self, code: CodeType, aliases: frozenset[str]) -> bool:
        if _IMPORT_NAME not in code.co_code[::2] and aliases.isdisjoint(code.co_names):
            return False
        return any(
            self._imports_source(name) if operation == "IMPORT_NAME" else name in aliases
            for operation, name in _loads(code)
        )

    def _imports_source(self, name: str) -> bool:
        if name.partition(".")[0] in self._sources.modules:
            return True
        module = sys.modules.get(name)
        if module is None:
            return True  # not loaded yet: what it will bring cannot be told
        self._todo.append(module)
        return False


def _parts(kind: type, item: Any) -> Iterable[Any]:
    """Return the objects behind a descriptor, a bound method, a wrapper or an instance."""
    if kind is Workflow:
        return (item.body,)
    if kind is MethodType:
        return (item.__func__, type(item.__self__))
    if kind in (staticmethod, classmethod):
        return (item.__func__,)
    if kind is property:
        return (item.fget, item.fset)
    if kind is functools.cached_property:
        return (item.func,)
    if kind is functools.partial:
        return (item.func,)
    if kind is _CACHED:
        return (vars(item).get("__wrapped__"),)
    return (kind,)


def _cell_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _nested(item)


def _loads(code: CodeType) -> Iterator[tuple[str, str]]:
    """Yield the operations that load a global name or a module, with the name."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _LOADS:
            yield instruction.opname, instruction.argval
