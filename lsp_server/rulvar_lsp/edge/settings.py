"""The client's settings, read leniently: a wrong value is reported by name and the default stays.

Rules are configured in pyproject.toml; these settings are about presentation and about running
tests. Whether code may be run at all (`trusted`) is never a setting: a workspace could switch it on
for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

SECTION = "rulvar"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the server; every name is the client's name in snake case."""

    diagnostics: bool = True
    code_lens: bool = True
    inlay_hints: bool = True
    interpreter: str = ""
    pytest_args: tuple[str, ...] = ()
    run_on_save: bool = False
    warm_runner: bool = True
    run_timeout_seconds: float = 300.0
    reports: tuple[str, ...] = ()
    workspace_diagnostics: bool = False


def read_settings(raw: Any, base: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Return `base` with the values of a settings object, and what is wrong with it."""
    if not isinstance(raw, dict):
        return base, ()
    if isinstance(raw.get(SECTION), dict):
        raw = raw[SECTION]
    changes: dict[str, Any] = {}
    faults = []
    for one in fields(Settings):
        name = _camel(one.name)
        if raw.get(name) is None:
            continue
        value = _read(raw[name], getattr(base, one.name))
        if value is None:
            expected = _expected(getattr(base, one.name))
            faults.append(f"{SECTION}.{name}: expected {expected}, got {type(raw[name]).__name__}")
        else:
            changes[one.name] = value
    return replace(base, **changes), tuple(faults)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


_LONGEST = 1e9
"""The largest number that a setting takes; nothing waits for longer than that."""


def _read(value: Any, default: Any) -> Any:
    if isinstance(default, bool):
        return value if isinstance(value, bool) else None
    if isinstance(default, str):
        return value if isinstance(value, str) else None
    if isinstance(default, float):
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST
        return float(value) if good else None
    good = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return tuple(value) if good else None


def _expected(default: Any) -> str:
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, str):
        return "a string"
    return "a positive number" if isinstance(default, float) else "a list of strings"
