"""Which file of the project uses which, seen from both sides."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

_NONE: Final[frozenset[str]] = frozenset()


class Edges:
    """Directed edges between files, from the one that uses to the one that is used."""

    __slots__ = ("_targets", "_users")

    def __init__(self) -> None:
        self._targets: dict[str, set[str]] = {}
        self._users: dict[str, set[str]] = {}

    def add(self, user: str, target: str) -> None:
        """`user` uses `target`."""
        self._targets.setdefault(user, set()).add(target)
        self._users.setdefault(target, set()).add(user)

    def targets(self, user: str) -> Set[str]:
        """The files that a file uses itself."""
        return self._targets.get(user, _NONE)

    def is_used(self, target: str) -> bool:
        """Whether any file, perhaps the same, uses this one."""
        return bool(self._users.get(target))

    def take(self, user: str) -> set[str]:
        """Forget what a file uses, and return it."""
        found = self._targets.pop(user, set())
        for target in found:
            self._users[target].discard(user)
        return found

    def reached(self, path: str) -> set[str]:
        """The file and all that it uses, directly or not."""
        return _closure(self._targets, path)

    def reaching(self, path: str) -> set[str]:
        """The file and all that use it, directly or not."""
        return _closure(self._users, path)


def _closure(edges: dict[str, set[str]], start: str) -> set[str]:
    found = {start}
    todo: list[Iterable[str]] = [edges.get(start, ())]
    while todo:
        fresh = [path for path in todo.pop() if path not in found]
        found.update(fresh)
        todo += [edges[path] for path in fresh if path in edges]
    return found
