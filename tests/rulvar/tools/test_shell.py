"""Command lines are split into what a shell would run, and judged by patterns of words."""

from __future__ import annotations

import pytest

from rulvar.tools.shell import judge_command, lex_shell, match_argv


def words(line: str) -> list[tuple[str, ...]]:
    return [segment.argv for segment in lex_shell(line)]


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("make all 2>&1", ("make", "all", "2>&1")),
        ("cat <&3", ("cat", "<&3")),
        ("log >&2 now", ("log", ">&2", "now")),
        (r'say "a\b\"c"', ("say", 'ab"c')),
        ('say "x\\', ("say", "x\\")),
        ("say end\\", ("say", "end\\")),
        ("say a\rb\vc", ("say", "a\rb\vc")),
        ("tee >(cut x)", ("tee", "cut", "x)")),
        ("diff <(old)", ("diff", "old)")),
        ("sort <<END", ("sort", "END")),
    ],
)
def test_a_line_of_one_command_is_split_into_its_words(line: str, argv: tuple[str, ...]) -> None:
    assert words(line) == [argv]


@pytest.mark.parametrize(
    "line", ["sort <<END", "sort <<-END", "sort <<<word", "rm $(find x)", "rm `x`", "$("]
)
def test_a_command_that_cannot_be_read_off_the_line_asks_whatever_the_patterns_are(line: str) -> None:
    assert judge_command(lex_shell(line), allow=["**"], deny=["rm **", "**"]) == "ask"


def test_setting_variables_and_nothing_else_asks() -> None:
    assert judge_command(lex_shell("A=1 B=2"), allow=["**"]) == "ask"
    assert judge_command(lex_shell("A=1"), deny=["**"]) == "ask"


def test_a_denied_command_beside_an_unreadable_one_denies_the_line() -> None:
    assert judge_command(lex_shell("echo $(x); rm y"), deny=["rm *"]) == "deny"


def test_any_number_of_words_stands_at_the_end_of_a_pattern_only() -> None:
    assert match_argv("git **", ["git"])
    assert match_argv("git **", ["git", "log", "-1"])
    assert match_argv("**", [])
    assert not match_argv("** -rf", ["rm", "-rf"])
    assert not match_argv("a ** b", ["a", "b"])
    assert not match_argv("** **", ["a"])


def test_words_of_a_pattern_are_parted_by_spaces() -> None:
    assert match_argv("  a   b ", ["a", "b"])
    assert match_argv("a\tb", ["a\tb"])
    assert not match_argv("a\tb", ["a", "b"])
