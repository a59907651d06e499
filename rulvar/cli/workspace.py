"""What a command works on: the project, the store of runs, and the engine that runs workflows."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import inspect
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar.cli.ignoring import ignored_by_git
from rulvar.cli.project import DEFAULT_STORE, Project, find_project
from rulvar.cli.references import is_reference, load_module, load_reference, located
from rulvar.cli.stores import (
    FolderPlace,
    Place,
    Runs,
    close_store,
    name_of_store,
    named_place,
    transcripts_beside,
)
from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import RunMeta
    from rulvar.engine.engine import Engine
    from rulvar.engine.workflow import Workflow

__all__ = ["Workspace"]

_ENGINE_NAMES = ("engine", "make_engine", "create_engine")
"""What rulvar_config.py may call its engine or the function that makes one."""

_UNEXPECTED = re.compile(r"Engine\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_NOT_OPTIONS = frozenset({"adapters", "engine", "store", "workflows"})


class Workspace:
    """The project that a command was started in.

    Args:
        options: ``store`` and ``config`` of the command line, where the verb has them.

    Raises:
        ConfigError: a configuration file is wrong; names the file and the field.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.project: Project = find_project(Path.cwd())
        self._store: str | None = getattr(options, "store", None)
        self._config: str | None = getattr(options, "config", None)
        self._registered: dict[str, Workflow[Any]] | None = None

    # -- the store -----------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def runs(self, *, writes: bool = False) -> AsyncIterator[Runs]:
        """Open the store without starting or resuming a run, and close it afterwards.

        It is ``--store``, or the configured one. Only where neither is named and the project has an engine
        of its own, code of the project is run: the engine is what names the store then.

        Args:
            writes: the store is made where there is none yet.

        Raises:
            ConfigError: there is no store, or the engine that names it cannot be made.
        """
        place = self._named_place()
        if place is None and self._has_engine:
            from rulvar.stores.memory import InMemoryStore

            with contextlib.redirect_stdout(sys.stderr):  # the result is not the project's to write
                engine = await self._engine_for_its_store()
            async with engine:
                if not isinstance(engine.store, InMemoryStore):
                    yield Runs(engine.store, engine.transcripts, name_of_store(engine.store), engine)
                    return
        place = place or self._default_place()
        with contextlib.redirect_stdout(sys.stderr):
            store = place.open_to_write() if writes else place.open_existing(repair=False)
        with ignored_by_git(place if writes else None):
            try:
                yield Runs(store, transcripts_beside(store), name_of_store(store))
            finally:
                await close_store(store)

    def _named_place(self) -> Place | None:
        """Return the store that the command line or the configuration names."""
        if self._store is not None:
            return named_place(self._store, Path(), "--store", lambda: None)
        if self.project.store is not None:
            what = f"{self.project.file}: tool.rulvar.store"
            return named_place(self.project.store, self.project.root, what, self._check_owner)
        return None

    def configured_place(self) -> Place:
        """Return the store that is named, or the folder where runs are kept otherwise."""
        return self._named_place() or self._default_place()

    def _default_place(self) -> Place:
        hint = "pass --store, or set store in [tool.rulvar]"
        return FolderPlace(self.project.root / DEFAULT_STORE, hint)

    async def _engine_for_its_store(self) -> Engine:
        try:
            engine = await self._make_engine()
        except ConfigError as error:
            raise ConfigError(
                f"{error.message} (the engine was asked for its store; with --store, or store in [tool.rulvar], "
                "it is not made for a look)",
                data=error.data,
            ) from None
        if hasattr(engine.store, "repair_on_load"):
            engine.store.repair_on_load = False  # a look leaves a torn journal as it is
        return engine

    # -- the engine ----------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def engine(
        self, *, starts: bool = False, writes: bool = True, in_memory: bool = False
    ) -> AsyncIterator[Engine]:
        """Make the project's engine over its store, and close it afterwards.

        The store is ``--store``, the configured one, the engine's own when it keeps runs longer than the
        process, or ``.rulvar``.

        Args:
            starts: the store is made where there is none yet.
            writes: False for a look: a torn journal is then left as it is.
            in_memory: over an empty store that nobody keeps.

        Raises:
            ConfigError: the configuration is wrong, what it names cannot be loaded, or there is no store.
        """
        from rulvar.stores.memory import InMemoryStore

        engine = await self._make_engine()
        place = self._named_place()
        if in_memory:
            engine.store = InMemoryStore()
            engine.transcripts = transcripts_beside(engine.store)
        elif place is not None or isinstance(engine.store, InMemoryStore):
            place = place or self._default_place()
            store = place.open_to_write() if starts else place.open_existing(repair=writes)
            engine.store, engine.transcripts = store, transcripts_beside(store)
        with ignored_by_git(place if starts else None):
            async with engine:
                yield engine

    async def _make_engine(self) -> Engine:
        from rulvar.engine.engine import Engine

        reference = self._engine_reference()
        if reference is None:
            options = {k: v for k, v in self.project.settings.items() if k not in _NOT_OPTIONS}
            return self._engine_of(options, f"{self.project.file}: [tool.rulvar]")
        what, made = reference
        if not isinstance(made, (Engine, Mapping)) and callable(made):
            try:
                made = made()
                if inspect.isawaitable(made):
                    made = await made
            except ConfigError as error:
                raise ConfigError(located(what, error.message), data=error.data) from None
            except Exception as error:
                raise ConfigError(
                    f"{what}: making the engine failed: {type(error).__name__}: {error}", data={"field": what}
                ) from error
        if isinstance(made, Mapping):
            return self._engine_of(dict(made), what)
        if not isinstance(made, Engine):
            raise ConfigError(
                f"{what}: expected an Engine, a function that returns one, or its options, got {type(made).__name__}",
                data={"field": what},
            )
        return made

    def _engine_of(self, options: dict[str, Any], what: str) -> Engine:
        from rulvar.engine.engine import Engine

        adapters = list(options.pop("adapters", ()))
        for number, name in enumerate(self.project.settings.get("adapters", ())):
            adapters.append(self._adapter(name, f"{self.project.file}: tool.rulvar.adapters[{number}]"))
        workflows = {**self.registered, **{item.name: item for item in options.pop("workflows", ())}}
        try:
            return Engine(adapters=adapters, workflows=workflows.values(), **options)
        except ConfigError as error:
            raise ConfigError(located(what, error.message), data=error.data) from None
        except TypeError as error:
            raise ConfigError(f"{what}: {_option_problem(error)}", data={"field": what}) from None

    def _adapter(self, name: str, what: str) -> Any:
        self._check_owner()
        made = load_reference(name, self.project.root, what)
        is_adapter = callable(getattr(made, "stream", None)) and not isinstance(made, type)
        if is_adapter or not callable(made):
            return made
        try:
            return made()
        except Exception as error:
            raise ConfigError(
                f"{what}: {name}() failed: {type(error).__name__}: {error}", data={"field": what}
            ) from error

    @property
    def _has_engine(self) -> bool:
        """Whether code of the project makes the engine."""
        is_named = self._config is not None or self.project.settings.get("engine") is not None
        return is_named or self.project.module is not None

    def _engine_reference(self) -> tuple[str, Any] | None:
        if self._config is not None:
            return "--config", self._engine_object(self._config, Path.cwd(), "--config")
        named = self.project.settings.get("engine")
        if named is not None:
            self._check_owner()
            what = f"{self.project.file}: tool.rulvar.engine"
            return what, self._engine_object(named, self.project.root, what)
        if self.project.module is not None:
            self._check_owner()
            what = str(self.project.module)
            return what, self._engine_object(str(self.project.module), self.project.root, what)
        return None

    def _engine_object(self, reference: str, root: Path, what: str) -> Any:
        if ":" in reference.removeprefix(os.path.splitdrive(reference)[0]):
            return load_reference(reference, root, what)
        module = load_module(reference, root, what)
        for name in _ENGINE_NAMES:
            if hasattr(module, name):
                return getattr(module, name)
        raise ConfigError(
            located(what, f"{reference} has no 'engine': an Engine, or a function that returns one"),
            data={"field": what},
        )

    def _check_owner(self) -> None:
        """Refuse to run code because of a file that somebody else may have left in a folder above."""
        file = self.project.module or self.project.file
        if file is None or not hasattr(os, "geteuid"):
            return
        trusted = {os.geteuid(), 0, Path.cwd().stat().st_uid}
        if file.stat().st_uid not in trusted:
            raise ConfigError(
                f"{file}: belongs to another user; pass --config to run its code all the same",
                data={"file": str(file)},
            )

    # -- workflows -----------------------------------------------------------------------

    @property
    def registered(self) -> dict[str, Workflow[Any]]:
        """The workflows of ``[tool.rulvar] workflows``, by name."""
        if self._registered is None:
            found: dict[str, Workflow[Any]] = {}
            for number, reference in enumerate(self.project.settings.get("workflows", ())):
                self._check_owner()
                what = f"{self.project.file}: tool.rulvar.workflows[{number}]"
                loaded = self._workflow_at(reference, self.project.root, what)
                if found.setdefault(loaded.name, loaded) is not loaded:
                    raise ConfigError(
                        f"{what}: {reference!r} is named {loaded.name!r}, and so is another one of the list: "
                        "give one of them another name",
                        data={"field": "workflows"},
                    )
            self._registered = found
        return self._registered

    def workflow(self, name: str, engine: Engine) -> Workflow[Any]:
        """Return the workflow that a person names: a registered name, or a reference to code.

        Raises:
            ConfigError: there is no such workflow; says which there are.
        """
        if name in self.registered:
            return self.registered[name]
        if is_reference(name):
            return self._workflow_at(name, Path.cwd(), "workflow")
        try:
            return engine.workflow_of(name)
        except ConfigError:
            known = ", ".join(map(repr, sorted(self.registered))) or "none"
            near = self._named_in_code(name) or difflib.get_close_matches(name, self.registered, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; registered: {known}."
            raise ConfigError(
                f"no workflow named {name!r}{hint} Name its code (module:name or path/to/file.py:name), "
                "or list it in [tool.rulvar] workflows",
                data={"field": "workflow"},
            ) from None

    def _named_in_code(self, name: str) -> list[str]:
        """Return the registered workflows whose class or function has this name."""
        references = [
            each for each in self.project.settings.get("workflows", ()) if each.endswith(f":{name}")
        ]
        return [self._workflow_at(each, self.project.root, "workflow").name for each in references]

    def workflow_of_run(self, name: str | None, meta: RunMeta, engine: Engine) -> Workflow[Any]:
        """Return the workflow that a run is resumed with: the one that is named, or the recorded one."""
        if name is not None:
            return self.workflow(name, engine)
        recorded = meta.get("workflowName")
        if not isinstance(recorded, str):
            raise ConfigError(
                "the run does not say which workflow it is of; name it: module:name or path/to/file.py:name",
                data={"field": "workflow"},
            )
        return self.workflow(recorded, engine)

    def _workflow_at(self, reference: str, root: Path, what: str) -> Workflow[Any]:
        from rulvar.engine.workflow import Workflow

        if reference.endswith(".py"):
            module = load_module(reference, root, what)
            values = [_compiled(value) for value in vars(module).values()]
            found = {value.name: value for value in values if isinstance(value, Workflow)}.values()
            own = [item for item in found if _home_of(item) == module.__name__]
            if len(own) == 1:
                return own[0]
        loaded = _compiled(load_reference(reference, root, what))
        if not isinstance(loaded, Workflow):
            hint = (
                "; decorate it with @workflow"
                if inspect.isfunction(loaded) and inspect.iscoroutinefunction(loaded)
                else ""
            )
            if isinstance(loaded, type):
                hint = "; derive it from StateMachine, and not as an abstract base"
            raise ConfigError(
                f"{what}: {reference} is no workflow but {_article(type(loaded).__name__)}{hint}",
                data={"field": what},
            )
        return loaded


def _compiled(value: Any) -> Any:
    """Return the workflow that an agent or a state machine's class runs as; anything else as it is."""
    from rulvar.engine.workflow import Workflow

    try:
        found = getattr(value, "__workflow__", None)
    except Exception:  # whatever a module holds may answer in any way
        return value
    return found if isinstance(found, Workflow) else value


def _option_problem(error: TypeError) -> str:
    """Return what is wrong with an engine's options, for people who have not called Engine themselves."""
    from rulvar.engine.engine import Engine

    unexpected = _UNEXPECTED.search(str(error))
    if unexpected is None:
        return str(error)
    near = difflib.get_close_matches(unexpected[1], inspect.signature(Engine).parameters, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"Engine has no option {unexpected[1]!r}{hint}"


def _home_of(workflow: Workflow[Any]) -> str | None:
    """Return the name of the module that a workflow is written in."""
    return getattr(workflow.source or workflow.body, "__module__", None)


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
