"""What a cassette must hold before it may be served or appended to.

A partially trusted fixture is worse than none, so any violation refuses the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator

from rulvar.contracts.canonical import MAX_SAFE_INTEGER
from rulvar.errors import ConfigError
from rulvar.kernel.keys import CURRENT_HASH_VERSION, SUPPORTED_HASH_VERSIONS
from rulvar.testing.cassette import Cassette

__all__ = ["LAST_OCCURRENCE", "check_appendable", "check_replayable", "ordered_group", "refuse_ceiling"]

LAST_OCCURRENCE = MAX_SAFE_INTEGER
"""The last number that the calls of one request can be given."""


def check_replayable(cassette: Cassette) -> None:
    """Check the rules of serving: version window, terminals, numbering, one declaration per adapter.

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
    _check_caps_agree(cassette)
    _check_declarations_agree(cassette)


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
    for index, occurrence in enumerate(cassette.occurrences):
        if occurrence >= LAST_OCCURRENCE:
            raise refuse_ceiling(cassette.path, cassette.declarations[cassette.declared[index]].adapter_id)


def check_numbering(cassette: Cassette) -> None:
    """Refuse a file in which a fully numbered group numbers one slot twice."""
    for adapter_id, request_hash, rows in _repeated(cassette):
        numbers = [cassette.occurrences[row] for row in rows]
        if min(numbers) < 0 or len(set(numbers)) == len(numbers):
            continue
        first: dict[int, int] = {}
        for row, number in zip(rows, numbers, strict=True):
            other = first.setdefault(number, row)
            if other != row:
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


def _check_caps_agree(cassette: Cassette) -> None:
    first: dict[tuple[str, str], int] = {}
    for index, declaration in enumerate(cassette.declarations):
        key = (declaration.adapter_id, declaration.model)
        other = first.setdefault(key, index)
        if cassette.declarations[other].caps_json != declaration.caps_json:
            raise _refused(
                cassette,
                f'adapter "{key[0]}": the caps of model "{key[1]}" differ between '
                f"line {_line(cassette, other)} and line {_line(cassette, index)}; a replay adapter reports one; "
                "record it again",
                line=_line(cassette, index),
                field="caps",
            )


def _check_declarations_agree(cassette: Cassette) -> None:
    for attribute, field in (("provider", "provider"), ("usage_semantics", "usageSemantics")):
        first: dict[str, int] = {}
        for index, declaration in enumerate(cassette.declarations):
            other = first.setdefault(declaration.adapter_id, index)
            left = getattr(cassette.declarations[other], attribute)
            right = getattr(declaration, attribute)
            if left != right:
                raise _refused(
                    cassette,
                    f'adapter "{declaration.adapter_id}": {field} is {show_declared(left)} at '
                    f"line {_line(cassette, other)} and {show_declared(right)} at line {_line(cassette, index)}; "
                    "an adapter declares one; record it again",
                    line=_line(cassette, index),
                    field=field,
                )


def show_declared(value: str | None) -> str:
    """Return a declaration as messages show it; absent is a value of its own."""
    return "absent" if value is None else f'"{value}"'


def _line(cassette: Cassette, declaration: int) -> int:
    return cassette.lines[cassette.declared.index(declaration)]


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
