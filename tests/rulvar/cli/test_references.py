"""Workflows are named by module, by file, or by a registered name; a wrong name says what there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rulvar = Callable[..., Any]
ONE = "from rulvar import workflow\n@workflow\nasync def only(ctx):\n    return {value}\n"


@pytest.mark.parametrize(
    "name",
    ["flows:hello", "flows.py:hello", "./flows.py:hello", "pkg.inner:only", "pkg/inner.py:only", "pkg/inner.py", "one.py", "json.py:only", "dashed-name.py:only", "holder.py:Holder.flow"],
)  # fmt: skip
def test_a_workflow_is_named_in_many_ways(rulvar: Rulvar, project: Path, name: str) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "__init__.py").write_text("")
    (project / "pkg" / "beside.py").write_text("VALUE = 2\n")
    (project / "pkg" / "inner.py").write_text("from .beside import VALUE\n" + ONE.format(value="VALUE"))
    (project / "sibling.py").write_text("VALUE = 3\n")
    (project / "one.py").write_text(
        "from sibling import VALUE\nfrom flows import hello\n" + ONE.format(value="VALUE")
    )
    (project / "json.py").write_text(ONE.format(value=4))
    (project / "dashed-name.py").write_text(ONE.format(value=5))
    (project / "holder.py").write_text(ONE.format(value=6) + "class Holder:\n    flow = only\n")
    done = rulvar("run", name, "--json")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("nope", "no workflow named 'nope'; registered: none"),
        ("flows.py:helo", "did you mean 'hello'?"),
        ("flows.py:zzz", "workflows there: boom, echo, hello, release, slow"),
        ("flows.py", "add the name: flows.py:NAME"),
        ("flows:", "add the name"),
        ("nope.py:x", "nope.py: no such file"),
        ("nope:x", "no module named 'nope'"),
        ("flows.nope:x", "no module named 'flows.nope'"),
        ("1x:y", "'1x' is no module"),
        (":x", "'' is no module"),
        ("plain.py:function", "decorate it with @workflow"),
        ("plain.py:NUMBER", "is no workflow but an int"),
        ("plain.py", "there is no workflow in it"),
        ("syntax.py:x", "syntax.py:2: "),
        ("needs.py:x", "needs.py:1: No module named 'nope_nope'"),
        ("fails.py:x", "fails.py:3: importing it failed: ZeroDivisionError: division by zero"),
        ("exits.py:x", "SystemExit"),
        ("wrong.py:x", "async def"),
        ("./:x", "is a folder"),
    ],
)
def test_a_wrong_name_is_told_in_one_line_that_helps(
    look: Rulvar, project: Path, name: str, named: str
) -> None:
    (project / "plain.py").write_text("NUMBER = 1\nasync def function(ctx): ...\n")
    (project / "syntax.py").write_text("x = 1\ndef (:\n")
    (project / "needs.py").write_text("import nope_nope\n")
    (project / "fails.py").write_text("def f():\n    # here\n    return 1 / 0\nf()\n")
    (project / "exits.py").write_text("import sys\nsys.exit(1)\n")
    (project / "wrong.py").write_text("from rulvar import workflow\n@workflow\ndef x(ctx): ...\n")
    done = look("run", name)
    assert done.code == 2
    assert named in done.err, done.err
    assert len(done.err.splitlines()) == 1


def test_a_module_is_loaded_once_however_it_is_named(rulvar: Rulvar, project: Path) -> None:
    (project / "counted.py").write_text("print('loaded')\n" + ONE.format(value=1))
    (project / "rulvar_config.py").write_text(
        "import counted\nfrom rulvar import Engine\nengine = Engine()\n"
    )
    done = rulvar("run", "counted.py:only", "-q")
    assert done.code == 0, done.err
    assert done.out.count("loaded") == 1
