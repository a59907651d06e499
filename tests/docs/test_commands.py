"""Every command that a page shows in a shell exists, with the options that it is shown with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from rulvar.cli.arguments import Parser
from rulvar.cli.verbs import find_verb
from rulvar.testing import pytest_plugin

ROOT = Path(__file__).resolve().parents[2]
SHELL = re.compile(r"^```(?:bash|console|sh|yaml)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ |\s*- run: )?((?:rulvar|pytest) .*)$", re.MULTILINE)
COMMENT = re.compile(r"\s#\s.*$")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for block in SHELL.findall(page.read_text("utf-8")):
            for line in COMMAND.findall(block):
                words = shlex.split(COMMENT.sub("", line))
                if words[0] == program:
                    yield f"{page.relative_to(ROOT)}: {line}", words[1:]


@pytest.mark.parametrize(("line", "words"), list(commands("rulvar")), ids=lambda item: str(item)[:60])
def test_a_command_line_of_a_page_is_one(line: str, words: list[str]) -> None:
    verb, rest = find_verb(words)
    home = import_module(verb.module)
    parser = Parser(f"rulvar {verb.name}", "")
    home.declare(parser)
    assert parser.parse_args(rest) is not None


def test_the_options_of_pytest_that_pages_show_are_the_plugin_s() -> None:
    source = Path(pytest_plugin.__file__).read_text("utf-8")
    known = set(re.findall(r'"(--rulvar-[a-z-]+)"', source))
    for line, words in commands("pytest"):
        shown = {word.partition("=")[0] for word in words if word.startswith("--rulvar")}
        assert shown <= known, line


def test_there_are_commands_to_look_at() -> None:
    assert len(list(commands("rulvar"))) > 15
    assert len(list(commands("pytest"))) > 2
