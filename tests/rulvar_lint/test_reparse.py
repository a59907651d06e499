"""Parsing only what an edit touched gives the tree that parsing everything gives."""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rulvar_lint.core.blocks import blocks_of
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
ENDS = ["\n", "\r\n", "\r"]
NEW = st.lists(st.sampled_from(LINES), max_size=2)


def dumped(tree: object) -> str:
    return ast.dump(tree, include_attributes=True) if isinstance(tree, ast.AST) else str(tree)


def reparsed(before: bytes, after: bytes) -> ast.Module | None:
    old = parse(before)
    assert isinstance(old, ast.Module)
    blocks = reparse(blocks_of(old.body), before, after, parse)
    return None if blocks is None else ast.Module([block.stmt for block in blocks], [])


@settings(max_examples=1500, deadline=None)
@given(lines=TEXTS, at=st.integers(0, 13), drop=st.integers(0, 2), new=NEW, end=st.sampled_from(ENDS))
@example(["x = 1; y = \\", "2"], 1, 1, ["3"], "\n")
@example(["x = 1", "y = 2"], 0, 1, ["x = 1 \\"], "\n")
@example(["x = 1", ""], 0, 1, ["x = 1 \\"], "\n")
@example(["x = 1 \\", "", "y = 2"], 1, 1, ["2"], "\n")
@example(["@deco", "def f():", "    pass"], 0, 1, ["@other"], "\n")
@example(["def f():", "    pass", "x = 1"], 2, 0, ["    return 1"], "\n")
@example(["x = 1", "def f():", "    pass"], 1, 0, ["@deco"], "\n")
def test_an_edited_file_has_the_tree_of_the_whole_file(
    lines: list[str], at: int, drop: int, new: list[str], end: str
) -> None:
    edited = [*lines[:at], *new, *lines[at + drop :]]
    before, after = end.join(lines).encode(), end.join(edited).encode()
    if isinstance(parse(before), ParseFailure):
        return
    made = reparsed(before, after)
    if made is not None:
        assert dumped(made) == dumped(parse(after))


def test_a_second_edit_builds_on_the_first() -> None:
    texts = [b"a = 1\ndef f():\n    return 1\n\nb = 2\n"]
    texts.append(b"\n# more\n" + texts[0])
    texts.append(texts[1].replace(b"    return 1\n", b"    c = 3\n    return c\n"))
    texts.append(texts[2].replace(b"b = 2", b"b = (2 +\n 3)"))
    tree = parse(texts[0])
    assert isinstance(tree, ast.Module)
    blocks = blocks_of(tree.body)
    for before, after in pairwise(texts):
        made = reparse(blocks, before, after, parse)
        assert made is not None
        blocks = made
    assert dumped(ast.Module([block.stmt for block in blocks], [])) == dumped(parse(texts[-1]))


def test_statements_that_an_edit_does_not_touch_keep_their_trees() -> None:
    before = b"a = 1\ndef f():\n    return 1\n\nb = 2\n"
    old = parse(before)
    assert isinstance(old, ast.Module)
    for new in (b"return 12", b"c = 3\n    return 12"):
        made = reparse(blocks_of(old.body), before, before.replace(b"return 1", new), parse)
        assert made is not None
        assert [new.identity is was for new, was in zip(made, old.body, strict=True)] == [True, False, True]


@pytest.mark.parametrize("line", [b"    return 2\n", b"else:\n    pass\n"])
def test_a_line_that_continues_a_statement_makes_that_statement_new(line: bytes) -> None:
    before = b"if a:\n    f()\nb = 2\n"
    made = reparsed(before, before.replace(b"b = 2", line + b"b = 2"))
    assert made is not None
    assert len(made.body) == 2
