"""Finds a project's configuration: ``[tool.rulvar]`` in pyproject.toml, and rulvar_config.py beside it.

Finding it runs no code of the project. The nearest folder upward that has either is the project.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["DEFAULT_STORE", "Project", "find_project"]

CONFIG_MODULE = "rulvar_config.py"
DEFAULT_STORE = ".rulvar"
_OTHERS = frozenset({"lint", "lsp", "testing"})
"""Tables of rulvar's other programs."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project's configuration.

    Attributes:
        root: the folder that relative paths in it start from; the working directory where there is none.
        file: the pyproject.toml that has ``[tool.rulvar]``.
        settings: that table, checked.
        module: the rulvar_config.py beside it.
    """

    root: Path
    file: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    module: Path | None = None

    @property
    def store(self) -> str | None:
        """Where runs are kept, as it is configured; see ``cli/stores.py``."""
        named: str | None = self.settings.get("store")
        return named


def find_project(start: Path) -> Project:
    """Return the nearest project from a folder upward.

    Raises:
        ConfigError: a pyproject.toml on the way cannot be read, or a setting is wrong; names the file
            and the field.
    """
    for folder in (start, *start.parents):
        file, module = folder / "pyproject.toml", folder / CONFIG_MODULE
        settings = _settings(file) if file.is_file() else None
        has_module = module.is_file()
        if settings is None and not has_module:
            continue
        return Project(
            root=folder,
            file=None if settings is None else file,
            settings=settings or {},
            module=module if has_module else None,
        )
    return Project(root=start)


def _settings(file: Path) -> Mapping[str, Any] | None:
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}", data={"file": str(file)}) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: not TOML: {error}", data={"file": str(file)}) from None
    tool = document.get("tool")
    table = tool.get("rulvar") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise _wrong(file, "", "expected a table")
    own = {name: value for name, value in table.items() if name not in _OTHERS}
    if not own and table:
        return None  # only the lint or another program is configured here
    for name, value in own.items():
        _check(file, name, value)
    return own


def _check(file: Path, name: str, value: Any) -> None:
    kind = _KINDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, _KINDS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(_KINDS))}"
        raise _wrong(file, name, f"no such setting{hint}")
    wanted, fits = kind
    if not fits(value):
        raise _wrong(file, name, f"expected {wanted}, got {value!r}")


def _wrong(file: Path, name: str, problem: str) -> ConfigError:
    where = f"tool.rulvar.{name}" if name else "tool.rulvar"
    return ConfigError(f"{file}: {where}: {problem}", data={"file": str(file), "field": where})


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


_TEXT = ("a text", _is_text)
_TEXTS = ("a list of texts", _are_texts)
_TABLE = ("a table", _is_table)
_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "adapters": _TEXTS,
    "budget_defaults": _TABLE,
    "concurrency": ("an integer from 1 up", lambda v: type(v) is int and v > 0),
    "determinism": ("'off', 'warn', 'error' or a table", lambda v: isinstance(v, (str, dict))),
    "engine": _TEXT,
    "permissions": _TABLE,
    "pricing": _TABLE,
    "profiles": _TABLE,
    "retry": _TABLE,
    "routing": _TABLE,
    "store": _TEXT,
    "workflows": _TEXTS,
}
"""The settings; all but ``engine``, ``adapters``, ``store`` and ``workflows`` are the engine's own options."""
