"""Packages that re-export names and load a name's module when it is first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Args:
        namespace: the package's ``globals()``; a name that was used once is kept there.
        homes: the module of each public name.
    """
    package = namespace["__name__"]

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(home), name)
        return value

    def known() -> list[str]:
        return sorted({*namespace, *homes})

    return find, known
