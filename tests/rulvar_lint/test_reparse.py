"""Parsing only what an edit touched gives the tree that parsing everything gives."""

from __future__ import annotations

import ast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rulvar_lint.core.reparse import reparse
from rulvar_lint.core.source import ParseFailure, parse

LINES = [
    *("", " ", "# note", "x = 1", "x = 1; y = 2", "x = 1 \\", "2", "    2", "\t2", "\f", "é = 'é'", "#"),
    *("x = (", ")", '"""', "'''", "x = [1,", "]", "if x:", "else:", "elif y:", "    pass"),
    *("try:", "except E:", "finally:", "@deco", "@deco  # c", "def f():", "async def f(a=(", "class C:"),
    *("    def g(self):", "        return 1", "    return await x", "match x:", "    case 1:", "f'{x'"),
    *("f'{x}'", '    x = """a', 'b"""', "# coding: latin-1", "from __future__ import annotations", ";"),
]
TEXTS = st.lists(st.sampled_from(LINES), min_size=1, max_size=14)
NEW = st.lists(st.sampled_from(LINES), min_size=1, max_size=2)


def dumped(tree: object) -> str:
    return ast.dump(tree, include_attributes=True) if isinstance(tree, ast.AST) else str(tree)


@settings(max_examples=1500, deadline=None)
@given(lines=TEXTS, at=st.integers(0, 13), new=NEW, end=st.sampled_from(["\n", "\r\n", "\r"]))
@example(["x = 1; y = \\", "2"], 1, ["3"], "\n")
@example(["x = 1", "y = 2"], 0, ["x = 1 \\"], "\n")
@example(["x = 1", ""], 0, ["x = 1 \\"], "\n")
@example(["x = 1", ""], 0, ["x = 1 \\"], "\n")
@example(["@deco", "def f():", "    pass"], 0, ["@other"], "\n")
def test_an_edited_file_has_the_tree_of_the_whole_file(
    lines: list[str], at: int, new: list[str], end: str
) -> None:
    edited = list(lines)
    for offset, line in enumerate(new):
        if at + offset < len(edited):
            edited[at + offset] = line
    before, after = end.join(lines).encode(), end.join(edited).encode()
    old = parse(before)
    if isinstance(old, ParseFailure):
        return
    made = reparse(old, before, after, parse)
    if made is not None:
        assert dumped(made) == dumped(parse(after))


def test_statements_that_an_edit_does_not_touch_keep_their_trees() -> None:
    before = b"a = 1\ndef f():\n    return 1\n\nb = 2\n"
    old = parse(before)
    assert isinstance(old, ast.Module)
    made = reparse(old, before, before.replace(b"return 1", b"return 12"), parse)
    assert made is not None
    assert [new is was for new, was in zip(made.body, old.body, strict=True)] == [True, False, True]


def test_a_new_line_means_that_everything_is_parsed() -> None:
    before = b"a = 1\nb = 2\n"
    old = parse(before)
    assert isinstance(old, ast.Module)
    assert reparse(old, before, b"\n" + before, parse) is None
