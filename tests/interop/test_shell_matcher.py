"""Command lines are split and judged as upstream does."""

import pytest
from scenario_language import check_words

from rulvar.tools.shell import judge_command, lex_shell, match_argv

FIELDS = {
    "shell": {"group", "command", "segments", "verdict"},
    "argv": {"group", "pattern", "argv", "match"},
}


def test_every_case_is_of_a_kind_that_is_checked_here(load_vectors):
    for case in load_vectors("shell_matcher.json")["cases"]:
        check_words("the kinds of cases", {case["group"]: case}, FIELDS)
        check_words("a case of the shell", case, FIELDS[case["group"]])


def test_command_lines_split_into_the_recorded_segments_and_get_the_recorded_verdict(load_vectors):
    data = load_vectors("shell_matcher.json")
    wrong = []
    for case in data["cases"]:
        if case["group"] != "shell":
            continue
        segments = lex_shell(case["command"])
        found = [{"argv": list(item.argv), "unmatchable": item.opaque} for item in segments]
        verdict = judge_command(segments, **data["rules"])
        if (found, verdict) != (case["segments"], case["verdict"]):
            wrong.append((case["command"], found, verdict, case["segments"], case["verdict"]))
    assert not wrong


def test_argv_patterns_match_as_recorded(load_vectors):
    cases = [case for case in load_vectors("shell_matcher.json")["cases"] if case["group"] == "argv"]
    wrong = [case for case in cases if match_argv(case["pattern"], case["argv"]) is not case["match"]]
    if not cases:
        pytest.skip("no argv pattern is in this set of vectors")
    assert not wrong


@pytest.mark.parametrize(
    "command",
    ["cat <(rm x)", "tee >(rm x)", 'echo "$(rm x)"', "echo $(rm x)", "echo `rm x`", 'echo "`rm x`"'],
)
def test_what_a_substitution_runs_is_never_allowed(command):
    assert judge_command(lex_shell(command), allow=["**"]) == "ask"


def test_a_denied_command_is_found_behind_any_separator():
    for separator in (";", "|", "||", "&", "&&", "\n", "|&"):
        assert judge_command(lex_shell(f"ls{separator}rm x"), allow=["ls"], deny=["rm *"]) == "deny"
