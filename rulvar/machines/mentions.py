"""What a machine's code mentions: the tools, documents and machines that it may use.

Found by looking at the names that its functions read, without calling anything: an override of a tool
that nothing uses is a typing error, and a journaled document's class can be found by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from rulvar.engine.workflow import Workflow
from rulvar.machines.document import DocumentType, document_type
from rulvar.tools.injection import Injected
from rulvar.tools.tool import Tool

__all__ = ["Mentions", "find_mentions"]

_OWN = __name__.partition(".")[0]
_MACHINES = (".hitl", ".fan_out")
"""Modules of rulvar that define machines."""
_LISTS = ("tools", "documents", "children")
"""Attributes of a machine's class that list what its code cannot be seen to mention."""


@dataclass(slots=True)
class Mentions:
    """What was found.

    Attributes:
        tools: by id.
        documents: by name.
        workflows: machines and workflows by name.
        tokens: what ``inject`` asks for.
        families: by prefix: classes that make a machine for a workflow, as FanOut does.
    """

    tools: dict[str, Tool] = field(default_factory=dict)
    documents: dict[str, DocumentType] = field(default_factory=dict)
    workflows: dict[str, Workflow[Any]] = field(default_factory=dict)
    tokens: set[Any] = field(default_factory=set)
    families: dict[str, Any] = field(default_factory=dict)

    def workflow(self, name: str) -> Workflow[Any] | None:
        """Return a workflow by name; one of a family is made of the workflow that its name ends with."""
        found = self.workflows.get(name)
        prefix, dot, rest = name.partition(".")
        if found is not None or not dot or prefix not in self.families:
            return found
        child = self.workflow(rest)
        if child is None:
            return None
        made: Workflow[Any] = self.families[prefix].of(child).__workflow__
        self.workflows[name] = made
        return made

    def add(self, other: Mentions) -> None:
        """Add what was found elsewhere."""
        self.tools.update(other.tools)
        self.documents.update(other.documents)
        self.workflows.update(other.workflows)
        self.tokens.update(other.tokens)
        self.families.update(other.families)


def find_mentions(roots: Iterable[Any]) -> Mentions:
    """Return what some classes, workflows, tools or functions mention, directly or through others."""
    found = Mentions()
    seen: set[int] = set()
    pending: list[Any] = list(roots)
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        pending.extend(_visit(item, found))
    return found


def _visit(item: Any, found: Mentions) -> Iterable[Any]:
    """Note one object, and return what to look at next."""
    if isinstance(item, Tool):
        found.tools[item.id] = item
        found.tokens.update(injected.token for injected in item.injected.values())
        return [item.function, getattr(item.function, "__workflow__", None), *item.documents]
    if isinstance(item, Workflow):
        found.workflows[item.name] = item
        return [item.source or item.body, *item.uses]
    if isinstance(item, Injected):
        found.tokens.add(item.token)
        return []
    if isinstance(item, type):
        return _class(item, found)
    if isinstance(item, FunctionType) and _is_project(item.__module__):
        return _function(item)
    runs_as = getattr(item, "__workflow__", None)
    if isinstance(runs_as, Workflow):
        return [runs_as]
    wrapped = getattr(item, "__func__", None) or getattr(item, "__wrapped__", None)
    return [] if wrapped is None else [wrapped]


def _class(kind: type, found: Mentions) -> Iterable[Any]:
    declared = document_type(kind)
    if declared is not None:
        found.documents[declared.name] = declared
    family = vars(kind).get("__family__")
    if family is not None:
        found.families[family] = kind
    workflow = getattr(kind, "__workflow__", None)
    if isinstance(workflow, Workflow):
        found.workflows[workflow.name] = workflow
        lists = [getattr(kind, name, ()) for name in _LISTS]
        listed = [item for items in lists if isinstance(items, (list, tuple)) for item in items]
        return [*listed, *(value for base in kind.__mro__ for value in vars(base).values())]
    if declared is None and _is_project(kind.__module__):
        return [value for value in vars(kind).values() if isinstance(value, FunctionType)]
    return []


def _function(function: FunctionType) -> Iterator[Any]:
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield from _named(function.__globals__[name], function.__code__)
    for cell in function.__closure__ or ():
        try:
            yield from _named(cell.cell_contents, function.__code__)
        except ValueError:
            continue  # not bound yet
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _named(value: Any, code: CodeType) -> Iterator[Any]:
    if isinstance(value, ModuleType):
        if _is_project(value.__name__):
            yield from (vars(value)[name] for name in _names(code) if name in vars(value))
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    else:
        yield value
        yield from _members(value, code)


def _members(value: Any, code: CodeType) -> Iterator[Any]:
    """Yield what a function reads off an object of the project: its methods, and what it holds."""
    if isinstance(value, (type, Tool, Workflow, FunctionType)):
        return
    if not isinstance(value, SimpleNamespace) and not _is_project(type(value).__module__):
        return
    held = getattr(value, "__dict__", {})
    for name in _names(code):
        if name in held:
            yield held[name]
        else:
            yield from (vars(kind)[name] for kind in type(value).__mro__ if name in vars(kind))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_project(module: str | None) -> bool:
    name = module or ""
    top = name.partition(".")[0]
    if top == _OWN:
        return name.endswith(_MACHINES)
    return bool(top) and top not in sys.stdlib_module_names
