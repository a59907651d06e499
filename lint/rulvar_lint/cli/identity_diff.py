"""`rulvar-lint identity-diff`: which journaled calls a change re-keys, adds or removes. Nothing is
run.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.cli.options import UsageError
from rulvar_lint.cli.settings import find_root
from rulvar_lint.config import load
from rulvar_lint.core.identities import describe_call
from rulvar_lint.project import Project
from rulvar_lint.rules.pages import CODES

if TYPE_CHECKING:
    import argparse

    from rulvar_lint.config import Config
    from rulvar_lint.core.frame import Frame

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """One journaled call: what identifies it, and how it is shown."""

    line: int
    kind: str
    identity: str
    shown: str


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the revisions; `before` or `after` is None for an added or removed
    call.
    """

    kind: str
    path: str
    function: str
    before: Call | None
    after: Call | None


def identity_diff(args: argparse.Namespace) -> int:
    """The command."""
    root = find_root(args.root, [])
    base, dots, head = args.revisions.partition("..")
    if not dots or not base:
        raise UsageError(f"{args.revisions}: expected BASE..HEAD, for example main..HEAD")
    config = load(root, CODES)
    before = _calls(root, config, base)
    after = _calls(root, config, head.removeprefix(".") or None)
    wanted = [Path(path).resolve().relative_to(root).as_posix() for path in args.paths] or None
    changes, kept = compare(before, after)
    changes = [
        c for c in changes if wanted is None or any(c.path == w or c.path.startswith(f"{w}/") for w in wanted)
    ]
    sys.stdout.write(_as_json(changes, kept) if args.output_format == "json" else _as_text(changes, kept))
    paid = any(change.kind != "added" for change in changes)
    return 1 if paid and not args.exit_zero else 0


# Reading the revisions


def _git(root: Path, *args: str, given: bytes | None = None) -> bytes:
    try:
        done = subprocess.run(["git", *args], cwd=root, input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise UsageError("identity-diff needs git, which was not found") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(f"git {args[0]}: {said[-1] if said else 'failed'}")
    return done.stdout


def _calls(root: Path, config: Config, revision: str | None) -> dict[Place, list[Call]]:
    """Journaled calls by function; the working tree for None."""
    if revision is None:
        project = Project(root, config)
    else:
        texts = _texts(root, revision)
        project = Project(root, config, [])
        for path, text in texts.items():
            project.set_text(path, text)
    found: dict[Place, dict[int, Call]] = {}

    def collect(frame: Frame) -> None:
        name = _function_name(frame)
        for call in frame.calls:
            identity, shown = describe_call(call)
            line: int = getattr(call.node, "lineno", 0)
            key = (frame.module.path, name)
            found.setdefault(key, {})[line * 1000 + getattr(call.node, "col_offset", 0)] = Call(
                line, call.name, identity, shown
            )

    project.listen_to_regions(collect)
    project.check()
    return {place: [calls[at] for at in sorted(calls)] for place, calls in found.items()}


def _function_name(frame: Frame) -> str:
    names = []
    current: Frame | None = frame
    while current is not None and current.decl is not None:
        names.append(current.decl.qualname)
        current = current.outer
    return ".".join(reversed(names))


def _texts(root: Path, revision: str) -> dict[str, str]:
    listed = _git(root, "ls-tree", "-r", "-z", revision, ".").decode("utf-8", "surrogateescape")
    paths: list[str] = []
    blobs: list[str] = []
    for entry in listed.split("\0"):
        meta, _, path = entry.partition("\t")
        parts = meta.split()
        if path.endswith(".py") and len(parts) == 3 and parts[1] == "blob":
            paths.append(path)
            blobs.append(parts[2])
    data = _git(root, "cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs).encode())
    texts: dict[str, str] = {}
    start = 0
    for path in paths:
        end = data.index(b"\n", start)
        size = int(data[start:end].split()[2])
        texts[path] = data[end + 1 : end + 1 + size].decode("utf-8", "replace")
        start = end + 1 + size + 1
    return texts


# Comparing


def compare(before: dict[Place, list[Call]], after: dict[Place, list[Call]]) -> tuple[list[Change], int]:
    """The changes, and how many calls kept their identity. Functions that moved to another file
    are followed.
    """
    changes: list[Change] = []
    kept = 0
    for old, new in _pairs(before, after):
        path, function = new or old or ("", "")
        old_calls = before.get(old, []) if old is not None else []
        new_calls = after.get(new, []) if new is not None else []
        same, gone, fresh = _unmatched(old_calls, new_calls)
        kept += same
        changes += _classify(path, function, gone, fresh)
    return changes, kept


def _pairs(
    before: dict[Place, list[Call]], after: dict[Place, list[Call]]
) -> Iterable[tuple[Place | None, Place | None]]:
    moved: dict[str, list[Place]] = {}
    for place in after:
        if place not in before:
            moved.setdefault(place[1], []).append(place)
    for place in sorted(before):
        if place in after:
            yield place, place
        else:
            others = moved.get(place[1], [])
            yield place, others.pop(0) if others else None
    for places in moved.values():
        for place in places:
            yield None, place


def _unmatched(old: list[Call], new: list[Call]) -> tuple[int, list[Call], list[Call]]:
    """Calls whose identity exists on one side only. Order does not matter: the journal matches by
    key.
    """
    left = list(new)
    gone: list[Call] = []
    same = 0
    for call in old:
        match = next(
            (other for other in left if other.kind == call.kind and other.identity == call.identity),
            None,
        )
        if match is None:
            gone.append(call)
        else:
            left.remove(match)
            same += 1
    return same, gone, left


_ALIKE: Final = 0.5


def _classify(path: str, function: str, gone: list[Call], fresh: list[Call]) -> list[Change]:
    found: list[Change] = []
    left = list(fresh)
    for call in gone:
        alike = [
            (
                difflib.SequenceMatcher(None, call.shown, other.shown).ratio(),
                -abs(call.line - other.line),
                other,
            )
            for other in left
            if other.kind == call.kind
        ]
        best = max(alike, key=lambda entry: entry[:2], default=None)
        if best is not None and (best[0] >= _ALIKE or len(gone) == len(fresh) == 1):
            left.remove(best[2])
            found.append(Change("re-keyed", path, function, call, best[2]))
        else:
            found.append(Change("removed", path, function, call, None))
    found += [Change("added", path, function, None, call) for call in left]
    return found


# Showing


def _as_text(changes: list[Change], kept: int) -> str:
    lines: list[str] = []
    place: Place | None = None
    for change in changes:
        if (change.path, change.function) != place:
            place = (change.path, change.function)
            lines.append(f"{change.path}: {change.function}")
        call = change.after or change.before
        assert call is not None
        lines.append(f"  {change.kind:9} line {call.line:<5} {call.shown}")
        if change.before is not None and change.after is not None:
            lines.append(f"  {'':9} {'was':10} {change.before.shown}")
    count = {
        kind: sum(change.kind == kind for change in changes) for kind in ("re-keyed", "added", "removed")
    }
    lines.append(
        f"{count['re-keyed']} re-keyed, {count['added']} added, {count['removed']} removed, {kept} unchanged."
    )
    paid = count["re-keyed"] + count["added"]
    if paid:
        lines.append(f"A workflow that is running now would make {paid} call{'' if paid == 1 else 's'} live.")
    return "\n".join(lines) + "\n"


def _as_json(changes: list[Change], kept: int) -> str:
    def side(call: Call | None) -> dict[str, Any] | None:
        return None if call is None else {"line": call.line, "kind": call.kind, "call": call.shown}

    data = {
        "unchanged": kept,
        "changes": [
            {
                "kind": change.kind,
                "path": change.path,
                "function": change.function,
                "before": side(change.before),
                "after": side(change.after),
            }
            for change in changes
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
