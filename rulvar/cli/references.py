"""Loads what a person names: ``module:attribute``, or ``path/to/file.py:attribute``.

This is the one place where the command line imports code of the project, and it does so only for a
name that was given on the command line or in the configuration.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["is_reference", "load_module", "load_reference", "located"]


def is_reference(text: str) -> bool:
    """Whether a text names code, and not a registered workflow."""
    return ":" in text or text.endswith(".py")


def load_reference(text: str, root: Path, what: str) -> Any:
    """Return the object that a reference names.

    Args:
        root: where modules and relative paths are looked for, beside the working directory.
        what: where the reference stands, for messages.

    Raises:
        ConfigError: there is no such file, module or attribute, or importing it failed; says where.
    """
    source, attribute = _split(text)
    module = load_module(source, root, what)
    if not attribute:
        raise ConfigError(
            f"{what}: {text!r}: add the name: {source}:NAME{_names_in(module)}", data={"field": what}
        )
    value: Any = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            near = difflib.get_close_matches(part, dir(value), 1)
            hint = f"; did you mean {near[0]!r}?" if near else _names_in(module)
            raise ConfigError(
                located(what, f"{source} has no {attribute!r}{hint}"), data={"field": what}
            ) from None
    return value


def located(what: str, problem: str) -> str:
    """Return a message that says once where something is wrong.

    Args:
        what: where it stands: a setting, an option, a file.
        problem: what is wrong; a more exact place in the same file may begin it.
    """
    is_there = problem.startswith((f"{what}:", f"{what} "))
    return problem if is_there else f"{what}: {problem}"


def load_module(source: str, root: Path, what: str) -> ModuleType:
    """Import a module by its name, or by the path of its file.

    Raises:
        ConfigError: as for :func:`load_reference`.
    """
    if source.endswith(".py") or "/" in source or "\\" in source:
        return _load_file(source, root, what)
    _search_first(Path.cwd())
    _search_first(root)
    if not source or not all(part.isidentifier() for part in source.split(".")):
        raise ConfigError(
            f"{what}: {source!r} is no module; write module:name or path/to/file.py:name",
            data={"field": what},
        )
    return _import(source, what, lambda: importlib.import_module(source))


def _split(text: str) -> tuple[str, str]:
    # a drive letter's colon stands at index 1 and is followed by a slash
    head, colon, tail = text.rpartition(":")
    if not colon or "/" in tail or "\\" in tail:
        return text, ""
    return head, tail


def _load_file(source: str, root: Path, what: str) -> ModuleType:
    path = next((place for place in (Path(source), root / source) if place.is_file()), None)
    if path is None:
        kind = (
            "is a folder; name a file" if Path(source).is_dir() else f"no such file{_near_file(source, root)}"
        )
        raise ConfigError(located(what, f"{source}: {kind}"), data={"field": what, "file": source})
    path = path.resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) if isinstance(module, ModuleType) else None
        if file is not None and module.__name__ != "__main__" and Path(file) == path:
            return module
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    _search_first(folder)
    name = ".".join(parts)
    if len(parts) > 1 and all(part.isidentifier() for part in parts):
        return _import(name, what, lambda: importlib.import_module(name))
    return _import(name, what, lambda: _execute(path, name))


def _near_file(source: str, root: Path) -> str:
    """Return a hint that names the file that comes nearest, or nothing."""
    folder = Path(source).parent
    try:
        names = [found.name for place in (Path(), root) for found in (place / folder).glob("*.py")]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(Path(source).name, names, 1)
    return f"; did you mean {str(folder / near[0])!r}?" if near else ""


def _execute(path: Path, name: str) -> ModuleType:
    taken = name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier()
    if taken:
        name = f"rulvar_loaded_{sha256(bytes(path)).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _import(name: str, what: str, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except SyntaxError as error:
        problem = f"{error.filename}:{error.lineno}: {error.msg}"
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            problem = (
                f"no module named {error.name!r} from here; run the command in its project, or name the file"
            )
        else:
            problem = f"{_place(error)}{error}"
    except ConfigError as error:
        problem = f"{_place(error)}{error.message}"
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        problem = f"{_place(error)}importing it failed: {said}"
    raise ConfigError(located(what, problem), data={"field": what})


def _place(error: BaseException) -> str:
    """Return the last place in the project's own files that an import went through."""
    place = ""
    own = Path(__file__).resolve().parents[1]
    for frame in traceback.extract_tb(error.__traceback__):
        is_code = not frame.filename.startswith("<") and own not in Path(frame.filename).parents
        if is_code and "importlib" not in frame.filename:
            place = f"{frame.filename}:{frame.lineno}: "
    return place


def _search_first(folder: Path) -> None:
    text = str(folder)
    if text not in sys.path:
        sys.path.insert(0, text)


def _names_in(module: ModuleType) -> str:
    """Return the workflows of a module, for a hint."""
    kind = sys.modules.get("rulvar.engine.workflow")
    workflow = getattr(kind, "Workflow", None)
    if workflow is None:
        return ""
    names = sorted(name for name, value in vars(module).items() if _runs(value, workflow))
    return f"; workflows there: {', '.join(names)}" if names else "; there is no workflow in it"


def _runs(value: Any, workflow: type) -> bool:
    """Whether something is a workflow, or runs as one: an agent, a state machine's class."""
    try:
        return isinstance(value, workflow) or isinstance(getattr(value, "__workflow__", None), workflow)
    except Exception:  # whatever a module holds may answer in any way
        return False
