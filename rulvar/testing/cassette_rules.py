"""What a cassette must hold before it may be served or appended to.

A partially trusted fixture is worse than none, so any violation refuses the whole file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType

from rulvar.contracts.canonical import MAX_SAFE_INTEGER
from rulvar.contracts.ports.provider import Adapter
from rulvar.errors import ConfigError
from rulvar.kernel.keys import CURRENT_HASH_VERSION, SUPPORTED_HASH_VERSIONS
from rulvar.testing.cassette import Cassette
from rulvar.testing.cassette_lines import Declaration

__all__ = [
    "LAST_OCCURRENCE",
    "check_appendable",
    "check_live_declarations",
    "check_numbering",
    "check_replayable",
    "ordered_group",
    "refuse_ceiling",
]

LAST_OCCURRENCE = MAX_SAFE_INTEGER
"""The last number that the calls of one request can be given."""
_DECLARED = {"provider": "provider", "usageSemantics": "usage_semantics"}
_NOBODY: Mapping[str, Adapter] = MappingProxyType({})


def check_replayable(cassette: Cassette, live: Mapping[str, Adapter] = _NOBODY) -> None:
    """Check the rules of serving: version window, terminals, numbering, one declaration per adapter.

    Args:
        live: the adapters, by id, that calls are passed through to; they declare what their rows do.

    Raises:
        ConfigError: names the cassette, the adapter and the rows.
    """
    version = cassette.header.hash_version
    if version not in SUPPORTED_HASH_VERSIONS:
        window = " and ".join(map(str, SUPPORTED_HASH_VERSIONS))
        raise _refused(
            cassette,
            f"hashVersion {version} is outside the supported {window}; record it again",
            field="hashVersion",
        )
    if cassette.unterminated:
        index = cassette.unterminated[0]
        adapter = cassette.declarations[cassette.declared[index]].adapter_id
        raise _refused(
            cassette,
            f'row {index + 1} (line {cassette.lines[index]}, adapter "{adapter}"): its events do not end '
            "with exactly one terminal event (finish or error); delete the line, or record again",
            line=cassette.lines[index],
            field="events",
        )
    check_numbering(cassette)
    counts = Counter(declaration.adapter_id for declaration in cassette.declarations)
    for adapter_id in cassette.groups:
        _check_adapter_agrees(cassette, adapter_id, counts[adapter_id], live.get(adapter_id))


def check_live_declarations(cassette: Cassette, live: Mapping[str, Adapter]) -> None:
    """Check that the adapters which calls are passed through to, by id, declare what their rows do.

    Raises:
        ConfigError: names the cassette, the adapter and the field.
    """
    for adapter_id, group in cassette.groups.items():
        if adapter_id in live:
            rows = next(iter(group.values()))
            first = cassette.declared[rows if isinstance(rows, int) else rows[0]]
            _check_live_declares(cassette, cassette.declarations[first], live[adapter_id])


def check_appendable(cassette: Cassette) -> None:
    """Check that a recording session may append: same hash version, sound numbering, room for more.

    Raises:
        ConfigError: names the cassette, and the adapter and request that are in the way.
    """
    version = cassette.header.hash_version
    if version != CURRENT_HASH_VERSION:
        raise _refused(
            cassette,
            f"hashVersion {version} differs from {CURRENT_HASH_VERSION}, which this recorder writes; "
            "record to a new file",
        )
    check_numbering(cassette)
    for adapter_id, group in cassette.groups.items():
        for rows in group.values():
            numbers = [cassette.occurrences[row] for row in ((rows,) if isinstance(rows, int) else rows)]
            if max(numbers) >= LAST_OCCURRENCE:
                raise refuse_ceiling(cassette.path, adapter_id)


def check_numbering(cassette: Cassette) -> None:
    """Refuse a file in which a fully numbered group numbers one slot twice."""
    for adapter_id, request_hash, rows in _repeated(cassette):
        numbers = [cassette.occurrences[row] for row in rows]
        if min(numbers) < 0 or len(set(numbers)) == len(numbers):
            continue
        ordered = sorted(zip(numbers, rows, strict=True))
        for (left, other), (number, row) in pairwise(ordered):
            if left == number:
                raise _refused(
                    cassette,
                    f'adapter "{adapter_id}", requestHash {request_hash}: occurrence {number} stands twice '
                    f"(lines {cassette.lines[other]} and {cassette.lines[row]}): {_why_twice(cassette, other, row)}",
                    line=cassette.lines[row],
                    field="occurrence",
                )


def ordered_group(cassette: Cassette, rows: list[int]) -> list[int]:
    """Return the rows of one request in the order in which they are served.

    By number when every row carries one, in file order otherwise.
    """
    numbers = [cassette.occurrences[row] for row in rows]
    if min(numbers) < 0:
        return rows
    return [row for _, row in sorted(zip(numbers, rows, strict=True))]


def refuse_ceiling(path: str, adapter_id: str) -> ConfigError:
    """Return the refusal of a session that has no numbers left for a request."""
    return ConfigError(
        f'{path}: adapter "{adapter_id}": occurrence {LAST_OCCURRENCE} is the last that one requestHash can '
        "hold; record to a new file",
        data={"cassette": path, "adapterId": adapter_id},
    )


def _repeated(cassette: Cassette) -> Iterator[tuple[str, str, list[int]]]:
    for adapter_id, group in cassette.groups.items():
        for request_hash, rows in group.items():
            if not isinstance(rows, int):
                yield adapter_id, request_hash, rows


def _check_adapter_agrees(cassette: Cassette, adapter_id: str, count: int, live: Adapter | None) -> None:
    kinds = _first_declared(cassette, adapter_id, count)
    if len(kinds) > 1:
        _check_caps_agree(cassette, kinds)
        for field in _DECLARED:
            _check_declarations_agree(cassette, kinds, field)
    if live is not None:
        _check_live_declares(cassette, kinds[0][0], live)


def _first_declared(cassette: Cassette, adapter_id: str, count: int) -> list[tuple[Declaration, int]]:
    """Return the ``count`` things that an adapter declares, each with its first row.

    Rows are taken request by request, and those of a request in the order in which they are served.
    """
    first: dict[int, int] = {}
    for rows in cassette.groups[adapter_id].values():
        for row in (rows,) if isinstance(rows, int) else ordered_group(cassette, rows):
            first.setdefault(cassette.declared[row], row)
        if len(first) == count:
            break
    return [(cassette.declarations[index], row) for index, row in first.items()]


def _check_caps_agree(cassette: Cassette, kinds: list[tuple[Declaration, int]]) -> None:
    first: dict[str, tuple[Declaration, int]] = {}
    for declaration, row in kinds:
        other, other_row = first.setdefault(declaration.model, (declaration, row))
        if other.caps_json != declaration.caps_json:
            raise _refused(
                cassette,
                f'adapter "{declaration.adapter_id}": the caps of model "{declaration.model}" differ between '
                f"line {cassette.lines[other_row]} and line {cassette.lines[row]}; a replay adapter reports one; "
                "record it again",
                line=cassette.lines[row],
                field="caps",
            )


def _check_declarations_agree(cassette: Cassette, kinds: list[tuple[Declaration, int]], field: str) -> None:
    first, first_row = kinds[0]
    left = getattr(first, _DECLARED[field])
    for declaration, row in kinds:
        right = getattr(declaration, _DECLARED[field])
        if left != right:
            raise _refused(
                cassette,
                f'adapter "{first.adapter_id}": {field} is {_show(left)} at '
                f"line {cassette.lines[first_row]} and {_show(right)} at line {cassette.lines[row]}; "
                "an adapter declares one; record it again",
                line=cassette.lines[row],
                field=field,
            )


def _check_live_declares(cassette: Cassette, declaration: Declaration, live: Adapter) -> None:
    for field, attribute in _DECLARED.items():
        recorded = getattr(declaration, attribute)
        declared = getattr(live, attribute, None)
        if recorded != declared:
            raise ConfigError(
                f'{cassette.path}: adapter "{live.id}": {field} is {_show(recorded)} in the cassette and '
                f"{_show(declared)} in the live adapter; a call served live would be journaled under the wrong "
                "declaration; record the cassette again",
                data={"cassette": cassette.path, "adapterId": live.id, "field": field},
            )


def _show(value: str | None) -> str:
    """Return a declaration as messages show it; absent is a value of its own."""
    return "absent" if value is None else f'"{value}"'


def _why_twice(cassette: Cassette, first: int, second: int) -> str:
    rows = [cassette.data[cassette.starts[row] : cassette.ends[row]].strip() for row in (first, second)]
    if rows[0] == rows[1]:
        return "the same row was put in twice, as a merge may do; delete one of the lines"
    return "two recorders wrote this file at once; record it again"


def _refused(
    cassette: Cassette, problem: str, *, line: int | None = None, field: str | None = None
) -> ConfigError:
    place = {name: value for name, value in (("line", line), ("field", field)) if value is not None}
    return ConfigError(f"{cassette.path}: {problem}", data={"cassette": cassette.path, **place})
