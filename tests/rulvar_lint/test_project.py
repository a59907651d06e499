"""The session that an editor holds: overlays, changes, and what depends on what."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from pathlib import Path

import pytest

from rulvar_lint import Config, ConfigError, Project, lint_paths, lint_source

FLOW = """from app.clock import stamp
from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    return await ctx.agent(f"At {stamp()}")
"""
CLOCK = "import time\n\n\ndef stamp() -> float:\n    return time.time()\n"
PURE = "def stamp() -> float:\n    return 1.0\n"


def codes(project: Project, path: str) -> list[tuple[int, str]]:
    return [(item.line, item.code) for item in project.check_file(path)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {"app/__init__.py": "", "app/clock.py": CLOCK, "app/flow.py": FLOW}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_change_in_a_helper_changes_the_findings_of_its_caller(root: Path) -> None:
    project = Project(root)
    assert codes(project, "app/flow.py") == [(7, "RLV101")]
    project.set_text("app/clock.py", PURE)
    assert codes(project, "app/flow.py") == []
    project.set_text("app/clock.py", None)
    assert codes(project, "app/flow.py") == [(7, "RLV101")]


def test_a_change_on_disk_is_seen_after_invalidate(root: Path) -> None:
    project = Project(root)
    assert codes(project, "app/flow.py") == [(7, "RLV101")]
    (root / "app/clock.py").write_text(PURE)
    project.invalidate(root / "app/clock.py")
    assert codes(project, "app/flow.py") == []


def test_a_deleted_helper_is_unknown_and_a_new_one_is_found(root: Path) -> None:
    project = Project(root)
    (root / "app/clock.py").unlink()
    project.invalidate("app/clock.py")
    assert codes(project, "app/flow.py") == []
    (root / "app/clock.py").write_text(CLOCK)
    project.invalidate("app/clock.py")
    assert codes(project, "app/flow.py") == [(7, "RLV101")]


def test_a_buffer_that_is_not_on_disk_belongs_to_the_project(root: Path) -> None:
    project = Project(root)
    project.set_text("app/other.py", FLOW.replace("flow", "other"))
    assert codes(project, "app/other.py") == [(7, "RLV101")]
    assert {item.path for item in project.check()} == {"app/flow.py", "app/other.py"}


def test_findings_inside_a_ctx_helper_are_shown_in_the_helper_file(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "from helper import ask\nfrom rulvar import Ctx, workflow\n\n\n@workflow\n"
        "async def flow(ctx: Ctx, args: dict):\n    return await ask(ctx)\n"
    )
    (tmp_path / "helper.py").write_text(
        "import time\n\n\nasync def ask(c):\n    return await c.agent(str(time.time()))\n"
    )
    project = Project(tmp_path)
    assert codes(project, "helper.py") == [(5, "RLV101")]
    assert codes(project, "flow.py") == []
    project.set_text("flow.py", "x = 1\n")
    assert codes(project, "helper.py") == []


def test_a_chain_of_imports_reaches_a_helper_two_modules_away(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "from middle import ask\nfrom rulvar import Ctx, workflow\n\n\n@workflow\n"
        "async def flow(ctx: Ctx, args: dict):\n    return await ask(ctx)\n"
    )
    (tmp_path / "middle.py").write_text("from inner import ask\n")
    (tmp_path / "inner.py").write_text(
        "import time\n\n\nasync def ask(c):\n    return await c.agent(str(time.time()))\n"
    )
    assert codes(Project(tmp_path), "inner.py") == [(5, "RLV101")]


def test_absolute_and_relative_paths_name_the_same_file(root: Path) -> None:
    project = Project(root)
    assert project.check_file(root / "app" / "flow.py") == project.check_file("app/flow.py")
    assert project.check([root / "app"]) == project.check(["app"]) == project.check()
    assert project.check(["app/clock.py"]) == []


def test_checking_one_file_finds_what_checking_everything_finds(root: Path) -> None:
    whole = Project(root).check()
    project = Project(root)
    single = [item for path in ("app/flow.py", "app/clock.py") for item in project.check_file(path)]
    assert sorted(single, key=lambda item: item.sort_key) == whole


def test_editing_gives_the_same_as_starting_anew(root: Path) -> None:
    project = Project(root)
    texts = [FLOW, FLOW + "\n\nx = 1\n", FLOW.replace("stamp()", "1"), "def (\n", FLOW]
    for text in texts:
        project.set_text("app/flow.py", text)
        fresh = Project(root)
        fresh.set_text("app/flow.py", text)
        assert project.check_file("app/flow.py") == fresh.check_file("app/flow.py")
        assert project.check() == fresh.check()


def test_a_broken_buffer_is_one_finding(root: Path) -> None:
    project = Project(root)
    project.set_text("app/flow.py", FLOW + "def (:\n")
    assert codes(project, "app/flow.py") == [(8, "RLV001")]


def test_a_broken_helper_is_reported_in_its_own_file(root: Path) -> None:
    project = Project(root)
    project.set_text("app/clock.py", "def stamp(:\n")
    assert codes(project, "app/clock.py") == [(1, "RLV001")]
    assert codes(project, "app/flow.py") == []


def test_a_mutation_in_another_file_makes_a_constant_state(root: Path) -> None:
    project = Project(root)
    project.set_text("app/data.py", "LIMITS = {}\n")
    project.set_text(
        "app/flow.py",
        "from app.data import LIMITS\nfrom rulvar import Ctx, workflow\n\n\n@workflow\n"
        "async def flow(ctx: Ctx, args: dict):\n    return LIMITS.get('a')\n",
    )
    assert codes(project, "app/flow.py") == []
    project.set_text("app/host.py", "from app.data import LIMITS\n\n\ndef set_it():\n    LIMITS['a'] = 1\n")
    assert codes(project, "app/flow.py") == [(7, "RLV205")]


def test_workflows_have_their_name_and_place(root: Path) -> None:
    span = Project(root).workflows("app/flow.py")[0]
    assert (span.name, span.line, span.column, span.end_line) == ("flow", 6, 1, 7)
    assert Project(root).workflows("app/clock.py") == []


def test_ctx_calls_have_their_kind_label_and_ranges(tmp_path: Path) -> None:
    text = (
        "from rulvar import Ctx, workflow\n\n\n@workflow\nasync def flow(ctx: Ctx, args: dict):\n"
        '    é = await ctx.agent("x", label="first", agent_type="writer")\n'
        '    await ctx.step("save", lambda: 1)\n'
        '    await ctx.parallel([lambda: ctx.agent("y")])\n'
        '    await ctx.await_external("go")\n'
        "    return é\n"
    )
    project = Project(tmp_path)
    project.set_text("flow.py", text)
    spans = project.ctx_calls("flow.py")
    assert [(s.kind, s.line, s.column) for s in spans] == [
        ("agent", 6, 15),
        ("step", 7, 11),
        ("parallel", 8, 11),
        ("agent", 8, 33),
        ("await_external", 9, 11),
    ]
    first, second = spans[0], spans[1]
    assert (first.label, first.agent_type) == ("first", "writer")
    assert second.label == "save"
    line = text.splitlines()[5]
    assert line[first.name_column - 1 : first.name_end_column - 1] == "agent"
    assert line[first.column - 1 : first.end_column - 1].startswith("ctx.agent(")
    assert first.end_column == len(line) + 1


def test_a_file_outside_the_root_can_be_checked(root: Path, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    other = tmp_path_factory.mktemp("elsewhere") / "loose.py"
    other.write_text(FLOW.replace("from app.clock import stamp", "from time import time as stamp"))
    assert codes(Project(root), str(other)) == [(7, "RLV101")]


def test_a_missing_file_has_no_findings(root: Path) -> None:
    assert Project(root).check_file("nothing/here.py") == []


@pytest.mark.parametrize(
    ("home", "below"), [("", "src/app"), ("services/billing", "app"), ("libs/x", "src/app")]
)
def test_import_roots_are_src_and_folders_with_a_pyproject(home: str, below: str, tmp_path: Path) -> None:
    folder = tmp_path / home / below
    folder.mkdir(parents=True)
    (folder / "flow.py").write_text(FLOW)
    (folder / "clock.py").write_text(CLOCK)
    (tmp_path / home / "pyproject.toml").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_flow.py").write_text(FLOW)
    found = Project(tmp_path).check()
    assert {(item.path, item.line) for item in found} == {
        (f"{home}/{below}/flow.py".lstrip("/"), 7),
        ("tests/test_flow.py", 7),
    }


def test_lint_source_needs_no_project() -> None:
    text = FLOW.replace("from app.clock import stamp", "from time import time as stamp")
    found = lint_source(text)
    assert [(item.path, item.line, item.code) for item in found] == [("<string>", 7, "RLV101")]
    assert lint_source(text, "flow.py", Config(ignore=("RLV1",))) == []


def test_lint_paths_reports_on_the_named_paths(root: Path) -> None:
    assert [item.code for item in lint_paths(["app/flow.py"], root)] == ["RLV101"]
    assert lint_paths(["app/clock.py"], root) == []


def test_a_wrong_configuration_is_an_error_that_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.rulvar.lint]\nselct = ['RLV1']\n")
    with pytest.raises(ConfigError, match="unknown key `selct`; did you mean `select`"):
        Project(tmp_path)


def test_a_diagnostic_as_json_has_the_promised_form(root: Path) -> None:
    data = Project(root).check_file("app/flow.py")[0].to_json()
    keys = "path line column endLine endColumn code name severity message url related fix"
    assert list(data) == keys.split()
    assert data["related"][0] == {
        "path": "app/clock.py",
        "line": 5,
        "column": 12,
        "message": "`time.time()` reads the wall clock",
    }
    assert (data["endLine"], data["endColumn"]) == (7, 41)


EDITED = """import time
from dataclasses import dataclass
from rulvar import Ctx, workflow, define_workflow
from app.clock import stamp

seen_{n} = {{}}


@dataclass
class Row{n}:
    a: int
    b: str = ""

    def total(self, x: int = {n}) -> int:
        seen_{n}[x] = self.a
        return self.a + x


async def side_{n}(ctx: Ctx, count: int, tags: set[str]) -> str:
    return await ctx.agent(f"{{count}} {{sorted(tags)}}")


async def plain_{n}(ctx, args: dict) -> float:
    return time.time()


plain_workflow = define_workflow("plain", plain_{n})


@workflow
async def flow(ctx: Ctx, args: dict):
    row = Row{n}(1)
    await ctx.step("total", lambda: row.total(4), deps=[row.a])
    for count in range(3):
        await side_{n}(ctx, count, {{"a", "b"}})
    return stamp(), seen_{n}.get("x")
"""


def alive() -> Counter[str]:
    """How many syntax nodes and objects of the lint are held, by type."""
    gc.collect()
    kinds = (type(item) for item in gc.get_objects())
    return Counter(
        kind.__name__ for kind in kinds if kind.__module__.startswith(("rulvar_lint", "ast", "_ast"))
    )


def test_a_document_that_is_edited_all_day_takes_no_more_memory(root: Path) -> None:
    project = Project(root)

    def edit(times: range) -> None:
        for n in times:
            project.set_text("app/flow.py", EDITED.format(n=n))
            if n % 3 == 0:
                project.set_text("app/clock.py", f"{CLOCK}# {n}\n")
            assert project.check_file("app/flow.py")
            project.workflows("app/flow.py")
            project.ctx_calls("app/flow.py")

    edit(range(20))
    before = alive()
    edit(range(20, 80))
    assert alive() - before == Counter()


PARTNER = """from app.m{other} import stamp_{other}
from rulvar import Ctx, workflow


def stamp_{n}() -> int:
    return {n}


@workflow
async def flow_{n}(ctx: Ctx, args: dict):
    return await ctx.agent(f"At {{stamp_{other}()}}")
"""


def calls_in_units(root: Path, modules: int) -> int:
    """How many functions are called to analyse so many modules that import each other in pairs."""
    (root / "app").mkdir(parents=True)
    paths = []
    for n in range(modules):
        paths.append(f"app/m{n}.py")
        (root / paths[-1]).write_text(PARTNER.format(n=n, other=n ^ 1))
    project = Project(root, Config(), paths)
    count = 0

    def seen(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        units = project.units(paths, release=True)
    finally:
        sys.setprofile(before)
    assert all(unit.deps == {paths[n], paths[n ^ 1]} for n, unit in enumerate(units.values()))
    return count


def test_the_work_for_modules_that_import_each_other_grows_with_their_number(tmp_path: Path) -> None:
    calls_in_units(tmp_path / "first", 4)
    some, many = calls_in_units(tmp_path / "some", 40), calls_in_units(tmp_path / "many", 160)
    assert many < 4.1 * some
