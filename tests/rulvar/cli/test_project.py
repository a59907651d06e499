"""Configuration is found upward from the working directory, checked, and run only for verbs that run workflows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar.cli.project import find_project
from rulvar.errors import ConfigError

Rulvar = Callable[..., Any]


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_the_nearest_folder_with_a_configuration_is_the_project(tmp_path: Path) -> None:
    write(tmp_path, '[tool.rulvar]\nstore = "outer"\n')
    write(tmp_path / "a" / "b", '[project]\nname = "other"\n')
    assert (find_project(tmp_path / "a" / "b").root, find_project(tmp_path / "a" / "b").store) == (
        tmp_path,
        "outer",
    )
    write(tmp_path / "a", '[tool.rulvar]\nstore = "inner"\n')
    assert find_project(tmp_path / "a" / "b").store == "inner"


def test_a_table_of_the_lint_alone_makes_no_project(tmp_path: Path) -> None:
    write(tmp_path, '[tool.rulvar]\nstore = "outer"\n')
    write(tmp_path / "a", "[tool.rulvar.lint]\nselect = []\n")
    assert find_project(tmp_path / "a").root == tmp_path


def test_without_a_configuration_the_working_directory_is_the_project(tmp_path: Path) -> None:
    project = find_project(tmp_path)
    assert (project.root, project.settings) == (tmp_path, {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[tool.rulvar\n", "not TOML"),
        ("[tool]\nrulvar = 3\n", "tool.rulvar: expected a table"),
        ("[tool.rulvar]\nstor = 'x'\n", "did you mean 'store'?"),
        ("[tool.rulvar]\nzzz = 'x'\n", "known: adapters"),
        ("[tool.rulvar]\nstore = 3\n", "tool.rulvar.store: expected a text"),
        ("[tool.rulvar]\nstore = ''\n", "tool.rulvar.store"),
        ("[tool.rulvar]\nworkflows = 'x'\n", "tool.rulvar.workflows: expected a list of texts"),
        ("[tool.rulvar]\nworkflows = ['x', 3]\n", "tool.rulvar.workflows"),
        ("[tool.rulvar]\nrouting = []\n", "tool.rulvar.routing: expected a table"),
        ("[tool.rulvar]\nconcurrency = 0\n", "tool.rulvar.concurrency"),
        ("[tool.rulvar]\nconcurrency = true\n", "tool.rulvar.concurrency"),
    ],
)
def test_a_wrong_setting_names_file_and_field(tmp_path: Path, text: str, named: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        find_project(tmp_path)
    assert named in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "").write_bytes(b"[tool.rulvar]\nstore = '\xff'\n")
    with pytest.raises(ConfigError, match="not TOML"):
        find_project(tmp_path)


def test_settings_reach_the_engine_from_any_folder_below(rulvar: Rulvar, project: Path) -> None:
    write(
        project,
        '[tool.rulvar]\nstore = "state/runs"\nworkflows = ["flows.py:hello", "flows:release"]\ndeterminism = "error"\n',
    )
    below = project / "deep" / "down"
    below.mkdir(parents=True)
    assert rulvar("run", "hello", "--run-id", "r1", cwd=below).code == 0
    assert (project / "state" / "runs" / "r1.jsonl").exists()
    assert rulvar("run", "release", "--arg", "version=1", "--run-id", "r2", cwd=below).code == 3
    rulvar("answer", "r2", '{"approved": false}', cwd=below)
    assert rulvar("resume", "r2", cwd=below).code == 0
    (project / "clock.py").write_text(
        "import time\nfrom rulvar import workflow\n@workflow\nasync def clock(ctx):\n    time.time()\n"
    )
    done = rulvar("run", "clock.py:clock", "--json")
    assert done.json["error"]["code"] == "determinism"


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ('determinism = "loud"', "determinism='loud'"),
        ('routing = {loop = "x"}', "routing['loop'] model 'x'"),
        ('workflows = ["nope.py:x"]', "tool.rulvar.workflows[0]: nope.py: no such file"),
        ('workflows = ["flows.py:nope"]', "tool.rulvar.workflows[0]: flows.py has no 'nope'"),
        ('adapters = ["flows:hello"]', "tool.rulvar.adapters"),
        ('engine = "flows:hello"', "tool.rulvar.engine"),
        ('engine = "nope:engine"', "no module named 'nope'"),
        ("budget_defaults = {nope = 1}", "nope"),
    ],
)
def test_a_setting_that_the_engine_refuses_is_named(
    rulvar: Rulvar, project: Path, setting: str, named: str
) -> None:
    write(project, f"[tool.rulvar]\n{setting}\n")
    done = rulvar("run", "flows.py:hello")
    assert done.code == 2, done.out + done.err
    assert "internal error" not in done.err
    assert named in done.err


ENGINES = {
    "a function": "def engine():\n    return Engine(journal=JsonlFileStore('own'))\n",
    "an async function": "async def engine():\n    return Engine(journal=JsonlFileStore('own'))\n",
    "an engine": "engine = Engine(journal=JsonlFileStore('own'))\n",
    "options": "engine = {'journal': JsonlFileStore('own')}\n",
    "another name": "def make_engine():\n    return Engine(journal=JsonlFileStore('own'))\n",
}


@pytest.mark.parametrize("code", ENGINES.values(), ids=list(ENGINES))
def test_rulvar_config_makes_the_engine_and_may_bring_its_store(
    rulvar: Rulvar, project: Path, code: str
) -> None:
    (project / "rulvar_config.py").write_text("from rulvar import Engine, JsonlFileStore\n" + code)
    assert rulvar("run", "flows.py:hello", "--run-id", "r1").code == 0
    assert (project / "own" / "r1.jsonl").exists()
    assert rulvar("run", "flows.py:hello", "--run-id", "r2", "--store", "given").code == 0
    assert (project / "given" / "r2.jsonl").exists()


BROKEN = {
    "raises": (
        "def engine():\n    raise RuntimeError('no key')\n",
        "making the engine failed: RuntimeError: no key",
    ),
    "fails to import": ("import nope_nope\n", "No module named 'nope_nope'"),
    "divides": ("x = 1\n1 / 0\n", "rulvar_config.py:2: importing it failed: ZeroDivisionError"),
    "no syntax": ("def engine(:\n", "rulvar_config.py:1: "),
    "exits": ("raise SystemExit(3)\n", "importing it failed: SystemExit"),
    "no engine": ("x = 1\n", "has no 'engine'"),
    "another thing": ("def engine():\n    return 3\n", "expected an Engine"),
    "wrong option": ("engine = {'nope': 1}\n", "nope"),
}


@pytest.mark.parametrize(("code", "named"), BROKEN.values(), ids=list(BROKEN))
def test_a_configuration_that_breaks_is_told_in_one_line(
    look: Rulvar, project: Path, code: str, named: str
) -> None:
    (project / "rulvar_config.py").write_text(code)
    done = look("run", "flows.py:hello")
    assert done.code == 2
    assert named in done.err
    assert "rulvar_config.py" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("reference", ["engines.py:make", "engines:make", "engines.py:Holder.engine"])
def test_an_engine_is_named_on_the_command_line(rulvar: Rulvar, project: Path, reference: str) -> None:
    (project / "engines.py").write_text(
        "from rulvar import Engine, JsonlFileStore\ndef make():\n    return Engine(journal=JsonlFileStore('own'))\n"
        "class Holder:\n    engine = staticmethod(make)\n"
    )
    assert rulvar("run", "flows.py:hello", "--config", reference, "--run-id", "r1").code == 0
    assert (project / "own" / "r1.jsonl").exists()


def test_a_look_at_a_store_that_is_named_runs_no_code_of_the_project(rulvar: Rulvar, project: Path) -> None:
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1")
    (project / "rulvar_config.py").write_text("open('ran', 'w').close()\n")
    write(
        project,
        '[tool.rulvar]\nstore = ".rulvar"\nworkflows = ["rulvar_config.py:x"]\nengine = "rulvar_config:engine"\n',
    )
    for words in (["runs", "ls"], ["runs", "audit", "--repair"], ["inspect", "r1"], ["answer", "r1"],
                  ["answer", "r1", "gate", '{"approved": true}'], ["export", "r1"], ["diff", "r1", "r1"],
                  ["import", "r1.run.json", "--force"]):  # fmt: skip
        done = rulvar(*words)
        assert done.code in (0, 3), (words, done.err)
    assert not (project / "ran").exists()
    assert rulvar("run", "flows.py:hello").code == 2
    assert (project / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_code_that_another_user_left_in_a_folder_above_is_not_run(rulvar: Rulvar, project: Path) -> None:
    config = project.parent / "rulvar_config.py"
    config.write_text("open('ran', 'w').close()\nfrom rulvar import Engine\nengine = Engine()\n")
    os.chown(config, 12345, 12345)
    done = rulvar("run", "flows.py:hello")
    assert done.code == 2
    assert "belongs to another user" in done.err
    assert not (project / "ran").exists()
    assert rulvar("run", "flows.py:hello", "--config", config).code == 0


def test_a_store_that_is_not_there_says_what_to_do(rulvar: Rulvar, project: Path) -> None:
    done = rulvar("runs", "ls")
    assert done.code == 2
    assert "pass --store, or set store in [tool.rulvar]" in done.err
    (project / "rulvar_config.py").write_text("")
    told = rulvar("runs", "ls").err
    assert "rulvar_config.py has no 'engine'" in told
    assert "asked for its store; with --store" in told
    assert "flows.py: neither a folder nor a SQLite file" in rulvar("runs", "ls", "--store", "flows.py").err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("engine(", "{file}:1: '(' was never closed\n"),
        ("import nosuchmodule", "{file}:1: No module named 'nosuchmodule'\n"),
        ("raise ValueError('boom')", "{file}:1: importing it failed: ValueError: boom\n"),
        ("x = 1", "{file} has no 'engine': "),
        ("engine = 3", "{file}: expected an Engine"),
        ("engine = {'routin': {}}", "{file}: Engine has no option 'routin'; did you mean 'routing'?\n"),
    ],
)
def test_a_broken_configuration_is_named_once(rulvar: Rulvar, project: Path, text: str, told: str) -> None:
    file = project / "rulvar_config.py"
    file.write_text(text)
    done = rulvar("run", "flows.py:hello")
    assert done.code == 2
    assert done.err.startswith("rulvar: error: " + told.format(file=file))
    assert done.err.count(str(file)) == 1


def test_two_registered_workflows_of_one_name_are_refused(rulvar: Rulvar, project: Path) -> None:
    (project / "twins.py").write_text(
        "from rulvar import workflow\n"
        '@workflow(name="a")\nasync def one(ctx):\n    return 1\n'
        '@workflow(name="a")\nasync def two(ctx):\n    return 2\n'
    )
    write(project, '[tool.rulvar]\nworkflows = ["twins.py:one", "twins.py:two"]\n')
    done = rulvar("run", "a")
    assert done.code == 2
    assert "tool.rulvar.workflows[1]: 'twins.py:two' is named 'a', and so is another one" in done.err


def test_the_name_of_the_code_leads_to_the_name_of_the_workflow(rulvar: Rulvar, project: Path) -> None:
    (project / "one.py").write_text(
        'from rulvar import workflow\n@workflow(name="a")\nasync def only(ctx):\n    return 1\n'
    )
    write(project, '[tool.rulvar]\nworkflows = ["one.py:only"]\n')
    done = rulvar("run", "only")
    assert done.code == 2
    assert "no workflow named 'only'; did you mean 'a'?" in done.err
