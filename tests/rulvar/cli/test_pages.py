"""The page on the command line is true: its files are written, its commands run, their output compared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "cli.md"
TITLED = re.compile(r'^```[a-z]+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"\[exit (\d+)\]")


def commands(text: str) -> Iterator[tuple[list[str], list[str], int]]:
    """Yield the words of each command, the lines that it shows, and its exit code."""
    for block in CONSOLE.findall(text):
        for part in block.split("$ rulvar ")[1:]:
            first, *lines = part.rstrip("\n").split("\n")
            exit_code = EXIT.fullmatch(lines[-1]) if lines else None
            if exit_code is not None:
                lines.pop()
            yield shlex.split(first), lines, int(exit_code[1]) if exit_code else 0


def test_every_command_of_the_page_does_what_the_page_shows(
    project: Path, rulvar: Callable[..., Any]
) -> None:
    text = PAGE.read_text("utf-8")
    for name, code in TITLED.findall(text):
        if name != "rulvar_config.py":  # the page shows it after the commands
            (project / name).write_text(code)
    count = 0
    for words, lines, code in commands(text):
        done = rulvar(*words)
        assert done.code == code, (words, done.out, done.err)
        shown = [line.rstrip() for line in (done.err + done.out).splitlines()]
        assert len(shown) == len(lines), (words, shown)
        for line, expected in zip(shown, lines, strict=True):
            pattern = ".*".join(map(re.escape, expected.rstrip().split("…")))
            assert re.fullmatch(pattern, line), (words, line, expected)
        count += 1
    assert count > 10


def test_the_configuration_of_the_page_works(project: Path, rulvar: Callable[..., Any]) -> None:
    text = PAGE.read_text("utf-8")
    for name, code in TITLED.findall(text):
        (project / name).write_text(code)
    [table] = re.findall(r"^```toml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (project / "pyproject.toml").write_text(table)
    assert rulvar("run", "release", "--arg", "version=1.2.0", "--run-id", "r1").code == 3
    assert rulvar("answer", "r1", '{"approved": true}').code == 0
    assert rulvar("resume", "r1").code == 0
