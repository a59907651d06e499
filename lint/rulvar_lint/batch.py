"""Checking a whole project at once: from the cache where nothing changed, in several processes
where much did.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rulvar_lint.cache import FORMAT, Cache, Stat, digest
from rulvar_lint.config import Config
from rulvar_lint.core.files import CONFIG, is_wanted, walk

if TYPE_CHECKING:
    from rulvar_lint.core.diagnostic import Diagnostic
    from rulvar_lint.project import Project
    from rulvar_lint.units import Unit
    from rulvar_lint.workspace import Workspace

PARALLEL_FROM: Final = 40
# Once it has seen a block of this size come and go, the C library of Linux keeps the memory of one tree
# for the next instead of giving it back in between.
_LARGE: Final = 1 << 24


class Outcome(NamedTuple):
    """What a run found. `files` counts Python files, `workflows` workflow functions; `stats` has
    (time, size) of each file that was looked at.
    """

    found: list[Diagnostic]
    files: int
    workflows: int
    stats: dict[str, Stat]


def check(
    root: Path,
    config: Config,
    wanted: list[str] | None = None,
    *,
    use_cache: bool = True,
    cache_folder: Path | None = None,
    jobs: int | None = None,
    overlays: dict[str, str] | None = None,
) -> Outcome:
    """Check the project at `root`; report on the paths in `wanted` (relative to it), or on
    everything.
    """
    files = stats(root, config, wanted or [])
    cache = Cache(root, config, cache_folder) if use_cache and not overlays else None
    if cache is not None and cache.load() and cache.is_fresh(files):
        outcome = _from_cache(cache, files, wanted)
        if outcome is not None:
            return outcome
    return _analyse(root, config, files, cache, wanted, jobs, overlays or {})


def stats(root: Path, config: Config, wanted: list[str]) -> dict[str, Stat]:
    """(time, size) of what an answer depends on: Python files, cassettes and configurations of a
    project, and the files named.
    """
    found: dict[str, Stat] = {}
    for path, stat in walk(root, exclude=config.exclude, respect_gitignore=config.respect_gitignore):
        if path.endswith((".py", CONFIG)) or config.is_cassette(path):
            found[path] = (stat.st_mtime_ns, stat.st_size)
    for name in wanted:
        if name not in found and name.endswith((".py", ".jsonl")):
            try:
                stat = (root / name).stat()
            except OSError:
                continue
            if name.endswith(".py") or config.is_cassette(name):
                found[name] = (stat.st_mtime_ns, stat.st_size)
    return found


def _from_cache(cache: Cache, files: dict[str, Stat], wanted: list[str] | None) -> Outcome | None:
    from rulvar_lint.core.diagnostic import Diagnostic

    report = cache.read("report")
    if report is None or not _named(files, wanted) <= set(cache.index["analysed"]):
        return None
    found = [
        Diagnostic.from_json(item)
        for path, items in report.items()
        if wanted is None or is_wanted(path, wanted)
        for item in items
    ]
    found.sort(key=lambda item: item.sort_key)
    return Outcome(found, cache.index["python"], cache.index["workflows"], files)


def _named(files: dict[str, Stat], wanted: list[str] | None) -> set[str]:
    """The Python files that were named one by one: they are checked whatever is in them."""
    return {name for name in wanted or () if name in files and name.endswith(".py")}


def _analyse(
    root: Path,
    config: Config,
    files: dict[str, Stat],
    cache: Cache | None,
    wanted: list[str] | None,
    jobs: int | None,
    overlays: dict[str, str],
) -> Outcome:
    from rulvar_lint.workspace import Workspace

    workspace = Workspace(root.resolve(), config, files)
    named = _named({**files, **dict.fromkeys(overlays, (0, 0))}, wanted)
    units: dict[str, Unit] = {}
    report: dict[str, list[Diagnostic]] = {}
    candidates = [] if overlays else workspace.candidates()
    if overlays or named or candidates or workspace.cassettes:
        from rulvar_lint.project import Project

        project = Project(root, config, workspace=workspace)
        for path, text in overlays.items():
            project.set_text(path, text)
        known = _reusable(workspace, cache, files) if cache is not None else {}
        candidates = sorted({*(workspace.candidates() if overlays else candidates), *named})
        todo = [path for path in candidates if path not in known]
        units = {**known, **_units(project, todo, jobs)}
        report = project.report({path: units[path] for path in candidates})
    for path in files:
        if workspace.is_unreadable(path):
            files[path] = (0, -1)  # look again: permissions change without a trace in time and size
    if cache is not None:
        cache.store(_stored(workspace, files, units, report))
    found = [
        item for path, items in report.items() if wanted is None or is_wanted(path, wanted) for item in items
    ]
    workflows = sum(len(unit.workflows) for unit in units.values())
    python = sum(path.endswith(".py") for path in files)
    return Outcome(sorted(found, key=lambda item: item.sort_key), python, workflows, files)


# Processes


def _units(project: Project, paths: list[str], jobs: int | None) -> dict[str, Unit]:
    bytes(_LARGE)
    workers = jobs if jobs is not None else _processors()
    if workers < 2 or len(paths) < PARALLEL_FROM or not hasattr(os, "fork"):
        return project.units(paths, release=True)
    from multiprocessing import get_context

    context = get_context("fork")
    chunks = [paths[start::workers] for start in range(workers)]
    running = []
    for chunk in chunks:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(project, chunk, sender), daemon=True)
        process.start()
        sender.close()
        running.append((process, receiver, chunk))
    found: dict[str, Unit] = {}
    for process, receiver, chunk in running:
        try:
            found.update(receiver.recv())
        except EOFError:
            found.update(project.units(chunk, release=True))
        process.join()
    return found


def _work(project: Project, paths: list[str], sender: Any) -> None:
    try:
        sender.send(project.units(paths, release=True))
    except Exception:
        return  # the process that waits meets the same error and reports it
    finally:
        sender.close()


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


# Cache entries


def _reusable(workspace: Workspace, cache: Cache, files: dict[str, Stat]) -> dict[str, Unit]:
    """The cached units that no change can have touched."""
    from rulvar_lint.units import Unit

    if not cache.index:
        return {}
    changed, structure = cache.changed(workspace.root, files)
    if structure:
        return {}
    texts = [workspace.data(path) for path in changed]
    found: dict[str, Unit] = {}
    for path, entry in (cache.read("units") or {}).items():
        if path in changed or not changed.isdisjoint(entry["deps"]):
            continue
        if any(word.encode() in text for word in entry["words"] for text in texts):
            continue
        found[path] = Unit.from_json(entry)
    return found


def _stored(
    workspace: Workspace,
    files: dict[str, Stat],
    units: dict[str, Unit],
    report: dict[str, list[Diagnostic]],
) -> dict[str, dict[str, Any]]:
    index = {
        "format": FORMAT,
        "python": sum(path.endswith(".py") for path in files),
        "workflows": sum(len(unit.workflows) for unit in units.values()),
        "analysed": sorted(units),
        "files": {path: [*stat, _digest(workspace, path, stat)] for path, stat in files.items()},
    }
    return {
        "index": index,
        "units": {path: unit.to_json() for path, unit in units.items()},
        "report": {path: [item.to_json() for item in items] for path, items in report.items() if items},
    }


def _digest(workspace: Workspace, path: str, stat: Stat) -> str:
    """A digest of what was looked at; empty for a file that has changed since."""
    if workspace.is_kept(path):
        return digest(workspace.data(path))
    try:
        with open(workspace.root / path, "rb", 0) as file:
            now = os.fstat(file.fileno())
            return digest(file.read()) if (now.st_mtime_ns, now.st_size) == stat else ""
    except OSError:
        return ""
