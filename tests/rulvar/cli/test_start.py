"""The script starts fast, says what it can do, and never shows a traceback that nobody asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from rulvar.cli.verbs import VERBS

Rulvar = Callable[..., Any]


def loaded_by(code: str, cwd: Path) -> set[str]:
    program = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def test_the_version_is_told_without_loading_anything(rulvar: Rulvar, project: Path) -> None:
    assert rulvar("--version").out == f"rulvar {metadata.version('rulvar')}\n"
    loaded = loaded_by("from rulvar.cli.main import main; main(['--version'])", project)
    assert not loaded & {"argparse", "asyncio", "msgspec", "orjson", "tomllib", "json", "importlib.metadata"}


def test_a_look_does_not_load_the_engine(project: Path) -> None:
    (project / ".rulvar").mkdir()
    loaded = loaded_by("from rulvar.cli.main import main; main(['runs', 'ls'])", project)
    assert not {
        name for name in loaded if name.startswith(("rulvar.engine", "rulvar.runtime", "rulvar.testing"))
    }


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_names_every_verb(look: Rulvar, words: list[str]) -> None:
    done = look(*words)
    assert done.code == 0
    for verb in VERBS:
        assert f"  {verb.name}" in done.out


@pytest.mark.parametrize("words", [["cassette", "--help"], ["cassette", "-h"], ["help", "cassette"]])
def test_help_on_a_group_names_its_verbs_only(look: Rulvar, words: list[str]) -> None:
    done = look(*words)
    assert done.code == 0
    assert "cassette prune" in done.out
    assert "runs ls" not in done.out


@pytest.mark.parametrize("words", [["runs", "--help"], ["help", "runs"]])
def test_help_on_a_group_that_is_a_verb_as_well_says_both(look: Rulvar, words: list[str]) -> None:
    done = look(*words)
    assert done.code == 0
    assert "--record FILE" in done.out
    assert "  runs audit" in done.out


def test_without_a_verb_the_help_is_an_error(look: Rulvar) -> None:
    done = look()
    assert done.code == 2
    assert done.out == ""
    assert "usage: rulvar VERB" in done.err


@pytest.mark.parametrize("verb", VERBS, ids=[verb.name for verb in VERBS])
def test_every_verb_has_help_and_takes_json(look: Rulvar, verb: Any) -> None:
    done = look(*verb.name.split(), "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: rulvar {verb.name} ")
    assert "--json" in done.out
    assert look("help", *verb.name.split()).out == done.out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["rnu"], "did you mean 'rulvar run'?"),
        (["zzz"], "see rulvar --help"),
        (["runs"], "are required: RUN; rulvar runs ls lists the runs (see rulvar runs --help)"),
        (["cassette", "shwo"], "did you mean 'rulvar cassette show'?"),
        (["inspect"], "are required: RUN; rulvar runs ls lists the runs (see rulvar inspect --help)"),
        (["ls"], "did you mean 'rulvar runs ls'?"),
        (["list"], "did you mean 'rulvar runs ls'?"),
        (["audit"], "did you mean 'rulvar runs audit'?"),
        (["cassete", "ls"], "did you mean 'rulvar cassette ls'?"),
        (["continue", "r1"], "did you mean 'rulvar resume'?"),
        (["runs", "show", "r1"], "did you mean 'rulvar runs r1'?"),
        (["runs", "resume", "r1"], "did you mean 'rulvar resume r1'?"),
        (["lint", "."], "rulvar-lint is a program of its own"),
        (["runs", "ls", "--stat", "ok"], "did you mean '--status'?"),
        (["run", "flows.py:echo", "--agr", "a=1"], "did you mean '--arg'?"),
        (["run", "flow.py:echo"], "no such file; did you mean 'flows.py'?"),
        (["runs", "ls", "extra"], "unrecognized arguments: extra"),
        (["inspect", "r1", "--seq", "x"], "--seq"),
        (["help", "zzz"], "no such verb"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(look: Rulvar, words: list[str], named: str) -> None:
    done = look(*words)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert named in done.err


def test_a_command_that_lacks_a_run_names_the_latest(look: Rulvar, store: Any) -> None:
    store.put("r1", meta={"status": "suspended", "workflowName": "release"})
    for words in (["resume"], ["answer"], ["inspect"], ["replay"], ["runs"]):
        assert "the latest: r1 (release, suspended); rulvar runs ls lists all" in look(*words).err


@pytest.mark.parametrize(
    ("typed", "named"),
    [("01J8", "'01J8ZZZ' or '01J8AAA'"), ("01j8a", "'01J8AAA'"), ("realese-7", "'release-7'")],
)
def test_a_run_that_is_not_there_is_met_with_those_that_come_near(
    look: Rulvar, store: Any, typed: str, named: str
) -> None:
    for run_id in ("01J8AAA", "01J8ZZZ", "release-7"):
        store.put(run_id)
    assert f"did you mean {named}?" in look("inspect", typed).err


def test_a_word_that_is_no_run_and_comes_near_a_verb_is_met_with_the_verb(look: Rulvar, store: Any) -> None:
    store.put("r1")
    assert "or did you mean 'rulvar runs ls'?" in look("runs", "list").err
    assert "rulvar runs ls'?" not in look("inspect", "list").err


def test_versions_are_told(look: Rulvar) -> None:
    document = look("version", "--json").json
    assert document["rulvar"] == metadata.version("rulvar")
    assert document["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "orjson" in look("version").out


def test_an_internal_error_is_one_line_unless_the_traceback_is_asked_for(
    rulvar: Rulvar, project: Path
) -> None:
    (project / "odd.py").write_text(
        "from rulvar import Engine\nclass Odd(Engine):\n    def run(self, *a, **k):\n        raise KeyError('odd')\n"
        "engine = Odd()\n"
    )
    done = rulvar("run", "flows.py:hello", "--config", "odd.py:engine")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "internal error: KeyError: 'odd'; set RULVAR_TRACEBACK=1" in done.err
    shown = rulvar("run", "flows.py:hello", "--config", "odd.py:engine", RULVAR_TRACEBACK="1")
    assert "Traceback" in shown.err
    assert "odd.py" in shown.err


def test_python_runs_the_package_as_the_script(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rulvar", "--version"], cwd=project, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"rulvar {metadata.version('rulvar')}\n"


def test_an_option_in_the_place_of_the_verb_is_sent_behind_it(look: Rulvar) -> None:
    assert "options stand behind the verb: rulvar VERB --json" in look("--json", "runs", "ls").err
