"""Compares, prunes and merges cassettes. Rows that stay as they are keep their bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rulvar.contracts.canonical import encode_json
from rulvar.errors import ConfigError
from rulvar.kernel.keys import CURRENT_HASH_VERSION
from rulvar.testing.cassette import Cassette, CassetteRow, cassette_name, parse_cassette, read_cassette
from rulvar.testing.cassette_lines import encode_line
from rulvar.testing.cassette_rules import LAST_OCCURRENCE, check_numbering, check_replayable, refuse_ceiling
from rulvar.testing.excerpt import excerpt
from rulvar.testing.nearest_rows import likely_rows, recorded_request
from rulvar.testing.report import ReplayReport, relative_path
from rulvar.testing.request_difference import Difference, compare_requests
from rulvar.testing.row_use import row_use

__all__ = ["diff_cassettes", "merge_cassettes", "prune_cassette", "unused_lines"]

_NEAR = 1.0
"""Requests further apart than this are not shown as the same call changed."""


def diff_cassettes(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> dict[str, Any]:
    """Compare two cassettes, row by row of the same adapter and request.

    Returns:
        ``same``: how many rows are equal; ``answers``: rows of the same request whose events differ;
        ``changed``: requests of the old file next to their counterpart in the new one, with the fields
        that differ; ``removed`` and ``added``: lines without a counterpart.
    """
    left, right = read_cassette(old), read_cassette(new)
    same, answers = 0, []
    removed: list[int] = []
    paired: set[int] = set()
    for adapter_id, group in left.groups.items():
        for digest in group:
            mine, theirs = list(left.group(adapter_id, digest)), list(right.group(adapter_id, digest))
            for one, other in zip(mine, theirs, strict=False):
                paired.add(other)
                if left.row(one).wire["events"] == right.row(other).wire["events"]:
                    same += 1
                else:
                    answers.append({"old": left.lines[one], "new": right.lines[other], "requestHash": digest})
            removed += mine[len(theirs) :]
    added = [row for row in range(len(right.rows)) if row not in paired]
    changed = _pair_changed(left, right, removed, added)
    gone = {pair["old"] for pair in changed}
    come = {pair["new"] for pair in changed}
    return {
        "old": left.path,
        "new": right.path,
        "same": same,
        "answers": answers,
        "changed": changed,
        "removed": [left.lines[row] for row in removed if left.lines[row] not in gone],
        "added": [right.lines[row] for row in added if right.lines[row] not in come],
    }


def unused_lines(cassette: str | os.PathLike[str], report: ReplayReport) -> list[int]:
    """Return the lines of a cassette that no test of a report used.

    Raises:
        ConfigError: no test of the report used the cassette, one that did has not passed, or the
            cassette is not what it was when the report was written.
    """
    path = relative_path(os.path.abspath(os.fspath(cassette)), report.root)
    use = row_use(report.tests).get(path)
    if use is None or not use.rows:
        raise ConfigError(f"{path}: no test in the report opened this cassette")
    if use.failed:
        test = use.failed[0]
        raise ConfigError(
            f"{path}: {test.node_id} {test.outcome}, so its rows may be missing from the report; fix it first"
        )
    tape = read_cassette(cassette)
    index = {line: row for row, line in enumerate(tape.lines)}
    if set(index) != use.rows or any(
        tape.row(index[line]).request_hash != digest for line, digest in use.hashes.items()
    ):
        raise ConfigError(
            f"{path}: it has changed since the report was written; run the tests again with --rulvar-report"
        )
    return use.unused


def prune_cassette(cassette: str | os.PathLike[str], lines: Iterable[int]) -> int:
    """Remove rows by line, in place and atomically; return how many were removed.

    Raises:
        ConfigError: the cassette cannot be read or written, or a line holds no row.
    """
    tape = read_cassette(cassette)
    if isinstance(lines, (str, bytes)) or not isinstance(lines, Iterable):
        raise ConfigError(
            f"lines: expected line numbers, got {type(lines).__name__}", data={"field": "lines"}
        )
    unwanted = set(lines)
    strangers = unwanted - set(tape.lines)
    if strangers:
        raise ConfigError(f"{tape.path}: line {min(strangers)} holds no row", data={"cassette": tape.path})
    if not unwanted:
        return 0
    kept = (row for row in range(len(tape.rows)) if tape.lines[row] not in unwanted)
    _replace(tape.path, [encode_json(tape.header.wire), *(_line(tape, row) for row in kept)])
    return len(unwanted)


def merge_cassettes(inputs: Iterable[str | os.PathLike[str]], output: str | os.PathLike[str]) -> int:
    """Write the rows of several cassettes into one, in order; return how many there are.

    Occurrences of a request that several files hold are numbered on. Rows that two files begin with, header
    included, were recorded once and are written once: they are what both sides of a git conflict had before. A
    file that is named twice is written twice.

    Raises:
        ConfigError: fewer than two inputs, other hash versions, contradicting declarations, or an
            input that cannot be read; nothing is written then.
    """
    tapes = [read_cassette(path) for path in inputs]
    if len(tapes) < 2:
        raise ConfigError("merge: name at least two cassettes")
    for tape in tapes:
        if tape.header.hash_version != CURRENT_HASH_VERSION:
            raise ConfigError(
                f"{tape.path}: hashVersion {tape.header.hash_version} cannot be merged; record it again"
            )
        check_numbering(tape)
    lines = [encode_json(tapes[0].header.wire)]
    following: dict[tuple[str, str], int] = {}
    for number, tape in enumerate(tapes):
        shared = max((_shared_rows(earlier, tape) for earlier in tapes[:number]), default=0)
        lines += _numbered_on(tape, following, shared)
    path = cassette_name(output, "output")
    data = b"\n".join(lines) + b"\n"
    check_replayable(parse_cassette(path, data))
    _replace(path, lines)
    return len(lines) - 1


def _pair_changed(
    left: Cassette, right: Cassette, removed: list[int], added: list[int]
) -> list[dict[str, Any]]:
    """Pair rows that are only in one file with the nearest ones of the other; each is used once."""
    free = set(removed)
    pairs: list[dict[str, Any]] = []
    for row in added:
        adapter_id = right.declarations[right.declared[row]].adapter_id
        actual = recorded_request(right, row)
        candidates = [
            (compare_requests(recorded_request(left, other), actual), other)
            for other in likely_rows(left, adapter_id, actual)
            if other in free
        ]
        best = min(candidates, key=lambda item: item[0].distance, default=None)
        if best is None or best[0].distance > _NEAR:
            continue
        free.discard(best[1])
        pairs.append(
            {
                "old": left.lines[best[1]],
                "new": right.lines[row],
                "distance": best[0].distance,
                "differences": [_shown(difference) for difference in best[0].differences],
            }
        )
    return pairs


def _shown(difference: Difference) -> dict[str, Any]:
    recorded, actual = excerpt(difference.recorded, difference.actual)
    return {"path": difference.path, "old": recorded, "new": actual}


def _shared_rows(left: Cassette, right: Cassette) -> int:
    """Return how many rows two files begin with, when they are continuations of one file.

    A file that is named twice is meant twice.
    """
    if left.path == right.path or left.header.wire != right.header.wire:
        return 0
    count = 0
    for index in range(min(len(left.rows), len(right.rows))):
        if _line(left, index) != _line(right, index):
            break
        count += 1
    return count


def _numbered_on(tape: Cassette, following: dict[tuple[str, str], int], shared: int) -> list[bytes]:
    """Return the lines of a file's rows, their occurrences moved past those that came before.

    Args:
        shared: how many of its first rows are written already.
    """
    lines: list[bytes] = []
    offsets = dict(following)
    for index, row in enumerate(tape.rows):
        key = (row.adapter_id, row.request_hash)
        if index < shared:
            if row.occurrence is not None:
                offsets[key] -= 1
            continue
        occurrence = row.occurrence
        offset = offsets.get(key, 0)
        if occurrence is None:
            lines.append(_line(tape, index))
            continue
        number = occurrence + offset
        if number > LAST_OCCURRENCE:
            raise refuse_ceiling(tape.path, row.adapter_id)
        following[key] = max(following.get(key, 0), number + 1)
        lines.append(_line(tape, index) if not offset else _renumbered(row, number))
    return lines


def _renumbered(row: CassetteRow, number: int) -> bytes:
    return encode_line({**row.wire, "occurrence": number})


def _line(tape: Cassette, index: int) -> bytes:
    return tape.data[tape.starts[index] : tape.ends[index]].rstrip(b"\r")


def _replace(path: str, lines: list[bytes]) -> None:
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(b"\n".join(lines) + b"\n")
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot write the cassette: {error.strerror or error}") from None
