"""Whatever a pyproject.toml or an ignore comment holds: it is read, or refused by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rulvar_lint import Config, Project
from rulvar_lint.config import ConfigError, from_table, load

IS_LONG = "RULVAR_FUZZ_EXAMPLES" in os.environ  # else the same examples in every run
ANYHOW = settings(
    max_examples=int(os.environ.get("RULVAR_FUZZ_EXAMPLES", "100")),
    deadline=None,
    derandomize=not IS_LONG,
    suppress_health_check=list(HealthCheck),
)
CODES = frozenset({"RLV101", "RLV102", "RLV201"})
KEYS = [
    "select",
    "extend-select",
    "ignore",
    "per-file-ignores",
    "exclude",
    "respect-gitignore",
    "src",
    "effects",
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.text(max_size=6),
        st.sampled_from(["RLV101", "ALL", "**/*.py", "[", "\\"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
PIECES = st.sampled_from(
    [
        "# ",
        "rulvar:",
        " ignore",
        "ignore-file",
        "[",
        "]",
        "RLV101",
        "rlv101",
        ",",
        ":",
        " ",
        "noqa",
        "\t",
        "é",
        "\\",
    ]
)
HEAD = "import time\nfrom rulvar import Ctx, workflow\n\n\n@workflow\nasync def f(ctx: Ctx, args):\n    return time.time()"


@ANYHOW
@given(table=st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=6)), VALUES, max_size=4))
def test_any_table_is_a_configuration_or_refused_by_key(table: dict[str, Any]) -> None:
    try:
        config = from_table(table, "pyproject.toml", CODES)
    except ConfigError as refused:
        assert "[tool.rulvar.lint]" in str(refused)
        return
    config.is_selected("RLV101", True)
    config.is_ignored_in("a/b.py", "RLV101")
    config.is_cassette("a/cassettes/b.jsonl")


@ANYHOW
@given(
    data=st.one_of(
        st.binary(max_size=80), st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace"))
    )
)
@example(data=b"[tool.rulvar]\nlint = 7")
@example(data=b"tool = 7")
def test_any_bytes_are_a_project_file_or_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"# rulvar\n" + data)
    try:
        load(tmp_path, CODES)
    except ConfigError as refused:
        assert "pyproject.toml" in str(refused)


@ANYHOW
@given(comment=st.lists(PIECES, max_size=12).map("".join))
@example(comment="# rulvar: ignore[" + "RLV101," * 5_000)
@example(comment="# rulvar: ignore" + "[" * 50_000)
@example(comment="# noqa: " + " ," * 50_000)
def test_any_comment_is_an_ignore_comment_or_none(comment: str) -> None:
    project = Project(Path("no-such-folder"), Config(select=("ALL",)), ["flow.py"])
    project.set_text("flow.py", f"{HEAD}  # {comment}\n")
    for found in project.check():
        assert found.line >= 1


@pytest.mark.parametrize("value", ["[" * 5_000, "9" * 5_000])
def test_a_value_that_no_reader_takes_is_refused_with_the_files_name(tmp_path: Path, value: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.rulvar.lint]\nselect = {value}\n")
    with pytest.raises(ConfigError, match=r"pyproject\.toml: "):
        load(tmp_path, frozenset({"RLV101"}))
