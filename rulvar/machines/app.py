"""Apps: where the widgets of documents and machines are found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError
from rulvar.machines.definition import Definition
from rulvar.machines.document import DocumentType, document_type
from rulvar.machines.mentions import Mentions, find_mentions
from rulvar.tools.tool import Tool

__all__ = ["App", "Apps", "definition_of"]


class App:
    """A set of machines with the documents and tools that belong to them.

    What a machine's code mentions belongs to it and need not be listed.

    Args:
        name: for people.
        machines: classes derived from StateMachine.
        documents: classes made by ``@document``.
        tools: tools that agents or machines may name by id.

    Raises:
        ConfigError: something that is none of these; names the option.
    """

    def __init__(
        self,
        name: str,
        *,
        machines: Iterable[type] = (),
        documents: Iterable[type] = (),
        tools: Iterable[Tool] = (),
    ) -> None:
        self.name = name
        self.machines = tuple(machines)
        self.documents = tuple(documents)
        self.tools = tuple(tools)
        self._check("machines", self.machines, [definition_of(item) for item in self.machines])
        self._check("documents", self.documents, [document_type(item) for item in self.documents])
        self._check("tools", self.tools, [item if isinstance(item, Tool) else None for item in self.tools])

    def _check(self, option: str, items: Sequence[Any], known: Sequence[Any]) -> None:
        for number, (item, found) in enumerate(zip(items, known, strict=True)):
            if found is None:
                raise ConfigError(
                    f"app {self.name!r} {option}[{number}]: {item!r} does not belong there",
                    data={"field": f"{option}[{number}]"},
                )

    def mentions(self) -> Mentions:
        """Return everything that belongs to the app."""
        return find_mentions([*self.machines, *self.documents, *self.tools])


class Apps:
    """Looks documents and machines up in several apps."""

    def __init__(self, apps: Iterable[App] = ()) -> None:
        self._mentions = Mentions()
        for number, app in enumerate(apps):
            if not isinstance(app, App):
                raise ConfigError(
                    f"apps[{number}]: expected an App, got {type(app).__name__}",
                    data={"field": f"apps[{number}]"},
                )
            self._mentions.add(app.mentions())

    @property
    def mentions(self) -> Mentions:
        """Everything that belongs to one of the apps."""
        return self._mentions

    def document(self, name: str) -> DocumentType | None:
        """Return the document of that name, or None."""
        return self._mentions.documents.get(name)

    def machine(self, name: str) -> Definition | None:
        """Return the machine of that name, or None."""
        return definition_of(self._mentions.workflows.get(name))


def definition_of(workflow: Any) -> Definition | None:
    """Return the definition of a machine's class, or of the workflow that it is compiled to."""
    source = workflow.source if isinstance(workflow, Workflow) else workflow
    found = getattr(source, "definition", None)
    return found if isinstance(found, Definition) else None
