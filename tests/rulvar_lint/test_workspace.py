"""Which files can hold replayed code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulvar_lint.config import Config
from rulvar_lint.workspace import Workspace

MARKED = "from rulvar import workflow\n"
USER = "{}\n\n\nasync def flow(ctx):\n    pass\n"
FOLDERS = ["", "app", "app/flows", "app/deep/er", "lib", "src", "src/kit"]
MODULES = ["a", "b", "flow_one", "flow_two", "flow_three", "__init__"]
PATHS = [f"{folder}/{module}.py".removeprefix("/") for folder in FOLDERS for module in MODULES]
IMPORTS = [
    "from {up} import {module}",
    "from {up}{folder} import {module}",
    "from {up}{folder}.{module} import run",
    "from {up}{module} import (\n    run,\n)",
    "import {folder}.{module} as it",
    "import {module}",
    "from {folder} import other, {module}",
    "from {folder}.{module} import run",
    "from {module} import run",
]


def made(texts: dict[str, str], marked: Iterable[str] = ()) -> Workspace:
    """A workspace of these files, none of them on disk."""
    workspace = Workspace(Path("/nonexistent-root"), Config(), [*texts, *marked])
    workspace.overlays.update({path: text.encode() for path, text in texts.items()})
    workspace.overlays.update({path: MARKED.encode() for path in marked})
    return workspace


@pytest.mark.parametrize(
    ("user", "line"),
    [
        ("app/main.py", "from app.flows import one"),
        ("app/main.py", "from .flows import one"),
        ("app/main.py", "from .flows.one import run"),
        ("app/main.py", "import app.flows.one as it"),
        ("main.py", "from app.flows import (\n    zero,\n    one,\n)"),
        ("app/flows/two.py", "from . import one"),
        ("app/flows/deep/two.py", "from .. import one"),
        ("app/flows/deep/two.py", "import one"),
        ("lib/deep/two.py", "from app.flows import one"),
    ],
)
@pytest.mark.parametrize("marked", [1, 2, 3, 30])
def test_a_file_that_imports_a_marked_module_is_a_candidate(user: str, line: str, marked: int) -> None:
    others = [f"app/flows/one{number or ''}.py" for number in range(marked)]
    workspace = made({user: USER.format(line), "app/other.py": USER.format("import os")}, others)
    assert workspace.candidates() == sorted([user, *others])


@pytest.mark.parametrize(
    "line", ["from . import thing", "from .. import thing", "import app", "from app import thing"]
)
def test_a_package_is_imported_by_its_own_name_or_by_dots(line: str) -> None:
    workspace = made({"app/sub/main.py": USER.format(line)}, ["app/__init__.py", "app/sub/__init__.py"])
    assert "app/sub/main.py" in workspace.candidates()


def test_who_imports_an_importer_is_a_candidate_too() -> None:
    texts = {f"app/link{at}.py": USER.format(f"from app import link{at + 1}") for at in range(3)}
    assert made(texts, ["app/link3.py"]).candidates() == [*texts, "app/link3.py"]


def test_a_file_without_code_that_is_replayed_is_none() -> None:
    workspace = made({"main.py": "from app import one\n"}, ["app/one.py"])
    assert workspace.candidates() == ["app/one.py"]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, str], list[str]]:
    paths = draw(st.lists(st.sampled_from(PATHS), min_size=2, max_size=12, unique=True))
    marked = draw(st.lists(st.sampled_from(paths), max_size=5, unique=True))
    texts = {}
    for path in paths:
        if path in marked:
            continue
        lines = []
        for target in draw(st.lists(st.sampled_from(paths), max_size=2)):
            folder, _, module = target.removesuffix(".py").rpartition("/")
            names = {"folder": folder.replace("/", ".") or "app", "module": module}
            dots = draw(st.sampled_from([".", "..", "..."]))
            lines.append(draw(st.sampled_from(IMPORTS)).format(up=dots, **names))
        texts[path] = USER.format("\n".join(lines))
    return texts, marked


@settings(max_examples=300, deadline=None)
@given(layouts())
def test_candidates_are_those_whose_imports_lead_to_a_marked_file(
    layout: tuple[dict[str, str], list[str]],
) -> None:
    texts, marked = layout
    workspace = made(texts, marked)
    wanted = set(marked)
    while fresh := {path for path in texts if path not in wanted and wanted & workspace.imported(path)}:
        wanted |= fresh
    assert made(texts, marked).candidates() == sorted(wanted)
