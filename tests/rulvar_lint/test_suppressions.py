"""Comments that ask the lint to be quiet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulvar_lint import Config, Diagnostic, fix_source
from rulvar_lint.core.comments import Comments, read_comments
from rulvar_lint.core.source import Source

Check = Callable[..., list[Diagnostic]]
HEAD = "import time\nfrom rulvar import Ctx, workflow\n\n\n@workflow\nasync def f(ctx: Ctx, args):\n"


def codes(found: list[Diagnostic]) -> list[str]:
    return [item.code for item in found]


@pytest.mark.parametrize(
    "comment",
    [
        "# rulvar: ignore[RLV101] only a metric",
        "# rulvar: ignore[RLV101]",
        "#rulvar:ignore[RLV101]",
        "# rulvar: ignore[ RLV101 , RLV113 ] both",
        "# rulvar: ignore",
        "# noqa: RLV101",
        "# noqa: E501, RLV101",
        "# NOQA:RLV101",
        "# type: ignore  # rulvar: ignore[RLV101]",
        "# rulvar: ignore[rlv101]",
    ],
)
def test_a_comment_on_the_line_suppresses(comment: str, check: Check) -> None:
    found = check(f"{HEAD}    return time.time()  {comment}\n")
    assert "RLV101" not in codes(found)


@pytest.mark.parametrize(
    "comment",
    [
        "# rulvar: ignore[RLV102]",
        "# rulvar: ignore[RLV10]",
        "# rulvar: ignored",
        "# ignore[RLV101]",
        "# noqa: E501",
        '"# rulvar: ignore[RLV101]"',
    ],
)
def test_other_comments_do_not(comment: str, check: Check) -> None:
    text = comment if comment.startswith("#") else f"; x = {comment}"
    assert "RLV101" in codes(check(f"{HEAD}    y = time.time()  {text}\n    return y\n"))


def test_a_bare_noqa_is_ruff_s_business(check: Check) -> None:
    assert codes(check(f"{HEAD}    return time.time()  # noqa\n")) == ["RLV101"]


def test_a_comment_speaks_for_the_whole_statement_s_line_only(check: Check) -> None:
    text = f"{HEAD}    a = (\n        time.time()\n    )  # rulvar: ignore[RLV101]\n    return a\n"
    assert [(d.line, d.code) for d in check(text)] == [(8, "RLV101"), (9, "RLV002")]


def test_a_file_comment_speaks_for_the_file(check: Check) -> None:
    text = f"# rulvar: ignore-file[RLV101] host clock\n{HEAD}    return time.time()\n"
    assert check(text) == []
    unused = "# rulvar: ignore-file[RLV113]\n" + HEAD + "    return time.time()\n"
    assert [(d.line, d.code) for d in check(unused)] == [(1, "RLV002"), (8, "RLV101")]


def test_a_partly_used_list_is_cut_down_by_the_fix(check: Check) -> None:
    text = f"{HEAD}    return time.time()  # rulvar: ignore[RLV101, RLV102] metric\n"
    found = check(text)
    assert codes(found) == ["RLV002"]
    assert fix_source(text, found) == text.replace("RLV101, RLV102", "RLV101")


def test_an_unused_comment_is_removed_by_the_fix_and_other_comments_stay(check: Check) -> None:
    text = f"{HEAD}    return 1  # why  # rulvar: ignore[RLV101] old\n"
    assert fix_source(text, check(text)) == f"{HEAD}    return 1  # why\n"
    whole = f"{HEAD}    # rulvar: ignore[RLV101]\n    return 1\n"
    assert fix_source(whole, check(whole)) == f"{HEAD}    return 1\n"


def test_a_code_of_a_rule_that_is_off_is_not_unused(check: Check) -> None:
    text = f"{HEAD}    return 1  # rulvar: ignore[RLV404] later\n"
    assert check(text) == []
    assert codes(check(text, Config(extend_select=("RLV404",)))) == ["RLV002"]


def test_an_unknown_code_suppresses_nothing_and_says_what_was_meant(check: Check) -> None:
    found = check(f"{HEAD}    return time.time()  # rulvar: ignore[RLV1O1] metric\n")
    assert codes(found) == ["RLV101", "RLV003"]
    assert "did you mean RLV101?" in found[1].message


@pytest.mark.parametrize("inside", ["RLV-101", "wall-clock", "101", "RLV101 RLV1", "RLV 101"])
def test_what_is_no_code_in_the_brackets_suppresses_nothing(inside: str, check: Check) -> None:
    found = codes(check(f"{HEAD}    return time.time()  # rulvar: ignore[{inside}] metric\n"))
    assert "RLV003" in found
    assert ("RLV101" in found) == (not inside.startswith("RLV101"))


def test_a_bracket_that_is_not_closed_leaves_no_bare_comment(check: Check) -> None:
    assert codes(check(f"{HEAD}    return time.time()  # rulvar: ignore[RLV102\n")) == ["RLV101", "RLV002"]


def test_foreign_codes_are_left_alone(check: Check) -> None:
    assert check(f"{HEAD}    return 1  # noqa: E501, F401, DTZ005\n") == []


def test_a_helper_comment_ends_the_chain_and_counts_as_used(check: Check) -> None:
    text = (
        "import time\nfrom rulvar import workflow\n\n\ndef lap():\n"
        "    return time.time()  # rulvar: ignore[RLV101] statsd\n\n\n@workflow\n"
        "async def f(ctx, args):\n    lap()\n    return 1\n"
    )
    assert check(text) == []


def test_a_helper_comment_that_nobody_needs_is_unused(check: Check) -> None:
    text = (
        "import time\nfrom rulvar import workflow\n\n\ndef lap():\n"
        "    return time.time()  # rulvar: ignore[RLV101] statsd\n\n\n@workflow\n"
        "async def f(ctx, args):\n    return 1\n"
    )
    assert codes(check(text)) == ["RLV002"]


def test_a_trusted_function_is_not_looked_into(check: Check) -> None:
    text = (
        "import time\nfrom rulvar import workflow\n\n\n{}def lap():{}\n    return time.time()\n\n\n"
        "@workflow\nasync def f(ctx, args):\n    lap()\n    return 1\n"
    )
    assert codes(check(text.format("", ""))) == ["RLV101"]
    assert check(text.format("", "  # rulvar: deterministic - statsd only")) == []
    assert check(text.format("# rulvar: deterministic\n", "")) == []


def test_two_files_keep_their_comments_apart(check: Check) -> None:
    one = f"{HEAD}    return time.time()  # rulvar: ignore[RLV101] metric\n"
    found = check({"a.py": one, "b.py": one.replace("ignore[RLV101]", "ignore[RLV102]")})
    assert [(d.path, d.code) for d in found] == [("b.py", "RLV101"), ("b.py", "RLV002")]


def test_comments_inside_texts_do_not_count(check: Check) -> None:
    text = f'{HEAD}    """\n    # rulvar: ignore-file[RLV101]\n    """\n    return time.time()\n'
    assert codes(check(text)) == ["RLV101"]


LINES = [
    *(
        "x = 1  # rulvar: ignore[RLV101]",
        "# rulvar: ignore-file[RLV102]",
        "def f():  # noqa: RLV101",
        "    pass",
    ),
    *(
        "    # RULVAR: ignore",
        "y = '''a # rulvar: ignore",
        "'''  # rulvar: ignore[RLV1]",
        "z = (1,",
        "x = 1 \\",
    ),
    *("2)  # noqa:RLV201; # rulvar: deterministic", "a = 1; b = (2,  # rulvar: ignore", "if x:", "else:", ""),
    *(
        "3); c = '# rulvar: ignore'",
        "# rulvar: deterministic",
        "@deco  # rulvar: ignore[RLV401]",
        "w = [",
        "]",
    ),
    *(
        "class C: pass",
        "  + 2  # rulvar: ignore",
        "    y = f'{x}' # noqa: RLV001",
        "é = 'é' # rulvar: ignore",
    ),
]


@settings(max_examples=400, deadline=None)
@given(lines=st.lists(st.sampled_from(LINES), max_size=8), end=st.sampled_from(["\n", "\r\n", "\r", "\f\n"]))
def test_a_parsed_file_has_the_comments_of_the_whole_text(lines: list[str], end: str) -> None:
    data = end.join(lines).encode()
    parsed = Source("m.py", data)
    parsed.parse()
    assert vars_of(read_comments(parsed)) == vars_of(read_comments(Source("m.py", data)))


def vars_of(comments: Comments) -> object:
    return comments.suppressions, comments.near(0, 1 << 30)
