"""Look-up in the library table. Names are matched exactly first, then by the longest `.*` above
them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from rulvar_lint.core.libraries import stdlib, third_party, third_party_types
from rulvar_lint.core.libraries.group import Group
from rulvar_lint.core.words import names


class Entry(NamedTuple):
    """What one dotted name does."""

    code: str
    does: str
    when: str
    severity: str


_LOCAL: Final = Entry("RLV205", "belongs to a thread, not to the run", "", "")
NOTHING: Final[tuple[Entry, ...]] = ()
_LANGCHAIN_INERT: Final = (
    "Prompt",
    "Parser",
    "Splitter",
    "Message",
    "Document",
    "Placeholder",
    "Template",
)


class Catalog:
    """The compiled table. `extra` adds names from the configuration: {"acme.now": "RLV101"}."""

    __slots__ = (
        "_elements",
        "_exact",
        "_given",
        "_known",
        "_members",
        "_pure",
        "_reads",
        "_results",
        "_same",
        "_seen",
        "_types",
        "_wild",
    )

    def __init__(self, extra: Mapping[str, str] | None = None) -> None:
        self._exact: dict[str, list[Entry]] = {}
        self._wild: dict[str, list[Entry]] = {}
        self._pure: dict[tuple[str, str], bool] = {}
        self._reads: dict[str, Entry] = {}
        self._seen: dict[str, tuple[Entry, ...]] = {}
        self._given: dict[str, str | None] = {}
        for group in (*stdlib.CALLS, *third_party.CALLS):
            self._add(group)
        for name, code in (extra or {}).items():
            self._add(Group(code, "is declared unstable in the configuration", name))
        for group in stdlib.READS:
            for path in group.paths.split():
                self._reads[path] = Entry(group.code, group.does, group.when, group.severity)
        self._results = {**third_party_types.RESULTS, **stdlib.RESULTS}
        self._types = stdlib.TYPES | third_party_types.TYPES
        self._elements = {**third_party_types.ELEMENTS, **stdlib.ELEMENTS}
        self._members = {**third_party_types.MEMBERS, **stdlib.MEMBERS}
        self._same = {
            f"{type_}.{member}"
            for table in (stdlib.SAME_TYPE, third_party_types.SAME_TYPE)
            for type_, members in table.items()
            for member in members
        }
        self._known = self._roots()

    def _add(self, group: Group) -> None:
        entry = Entry(group.code, group.does, group.when, group.severity)
        for path in group.paths.split():
            table = self._wild if path.endswith(".*") else self._exact
            table.setdefault(path.removesuffix(".*"), []).append(entry)
        for path in group.pure.split():
            self._pure[(group.code, path)] = True

    def _roots(self) -> frozenset[str]:
        names: set[str] = set(sys.stdlib_module_names)
        for table in (self._exact, self._wild, self._results, self._types):
            names.update(path.partition(".")[0] for path in table)
        return frozenset(names | set(_HARMLESS))

    def effects(self, path: str) -> tuple[Entry, ...]:
        """What calling `path` does; empty when nothing is known of it."""
        found = self._seen.get(path)
        if found is None:
            found = self._seen[path] = self._find(path)
        return found

    def _find(self, path: str) -> tuple[Entry, ...]:
        found = list(self._exact.get(path, ()))
        codes = {entry.code for entry in found}
        above = path
        while "." in above:
            above = above.rpartition(".")[0]
            # `x.*` says nothing of what a method of `x` gave.
            for entry in self._wild.get(above, ()) if "()" not in path[len(above) :] else ():
                if entry.code not in codes and not self._is_pure(entry.code, path):
                    codes.add(entry.code)
                    found.append(entry)
        return tuple(found) or NOTHING

    def _is_pure(self, code: str, path: str) -> bool:
        above = path
        if (code, path) in self._pure:
            return True
        while "." in above:
            above = above.rpartition(".")[0]
            if (code, f"{above}.*") in self._pure:
                return True
        return False

    def read(self, path: str) -> Entry | None:
        """What merely reading the attribute `path` does."""
        found = self._reads.get(path)
        return _LOCAL if found is None and path.startswith("threading.local.") else found

    def result(self, path: str) -> str | None:
        """The type of what a call of `path` gives, when it is followed."""
        if path not in self._given:
            self._given[path] = self._results.get(path) or self._result(path)
        return self._given[path]

    def _result(self, path: str) -> str | None:
        if path in self._types:
            return path
        if path in self._same:
            return path.rpartition(".")[0]
        if path.startswith("langchain") and path.rpartition(".")[2][:1].isupper():
            return (
                "langchain.Inert" if any(word in path for word in _LANGCHAIN_INERT) else "langchain.Runnable"
            )
        return None

    def is_type(self, path: str) -> bool:
        """Whether `path` is a class whose instances are followed."""
        return path in self._types

    def member(self, path: str) -> str | None:
        """The type of an attribute that is not called, when it is followed."""
        return self._members.get(path)

    def element(self, path: str) -> str | None:
        """The type of the elements of `path`, when they are followed."""
        return self._elements.get(path)

    def is_known(self, path: str) -> bool:
        """Whether the top-level package of `path` is in the standard library or in the table."""
        return path.partition(".")[0] in self._known

    def is_impure_module(self, path: str) -> bool:
        """Whether the module `path` has members that the table reports."""
        prefix = path + "."
        return path in self._wild or any(
            name.startswith(prefix) and "." not in name[len(prefix) :]
            for name in (*self._exact, *self._reads)
        )


def canonical(path: str) -> str:
    """The name under which the table knows `path`."""
    return _ALIASES.get(path, path)


_ALIASES: Final = {**third_party_types.ALIASES, **stdlib.ALIASES}


# Packages whose awaitables and calls are known to be harmless to replay.
_HARMLESS: Final = names("""rulvar pydantic attr attrs msgspec typing_extensions tenacity
backoff stamina retrying anyio trio orjson yaml jinja2 tiktoken dateutil pytest hypothesis numpy
pandas""")
