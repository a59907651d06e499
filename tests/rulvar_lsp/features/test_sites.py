"""Calls of a report in a text that has moved on: current, moved, stale, or gone."""

from __future__ import annotations

from rulvar_lsp.features.sites import PlacedSite, StaticCall, place_sites
from rulvar_lsp.report import Call, Site, TestRun
from rulvar_lsp.snapshot import RecordedCall, RecordedTest
from rulvar_lsp.text import Span, Text, lines_digest

WAS = [
    "async def w(ctx, args):",
    "    a = await ctx.agent('one')",
    "    b = await ctx.agent(",
    "        'two',",
    "    )",
    "    c = await ctx.agent('same')",
    "    d = await ctx.agent('same')",
]


def site(line: int, end: int | None = None, function: str = "w") -> Site:
    end = end or line
    return Site(
        file="flow.py",
        line=line,
        column=WAS[line - 1].index("ctx") + 1,
        end_line=end,
        end_column=len(WAS[end - 1]) + 1,
        digest=lines_digest(WAS[line - 1 : end]),
        function=function,
    )


ONE, TWO, SAME_1, SAME_2 = site(2), site(3, 5), site(6), site(7)


def recorded(at: Site, created: float = 1.0, served: str = "hit") -> RecordedCall:
    run = TestRun(node_id="t.py::t", file="t.py", line=1, outcome="passed")
    test = RecordedTest(run, "/p", "/p/r.json", str(created), created)
    return RecordedCall(test, Call(kind="agent", served=served, site=at), at)  # type: ignore[arg-type]


def static(lines: list[str]) -> list[StaticCall]:
    """The `ctx.agent` calls of a text whose calls end at the next `)` line."""
    found = []
    for number, line in enumerate(lines):
        if "ctx.agent(" in line:
            end = number
            while ")" not in lines[end]:
                end += 1
            column = line.index("ctx")
            found.append(StaticCall(Span(number, column, end, lines[end].rindex(")") + 1), "w"))
    return found


def place(lines: list[str], *sites: Site, parsed: bool = True) -> list[tuple[int, bool]]:
    text = Text("\n".join(lines))
    calls = [recorded(one) for one in sites]
    return [(p.span.line, p.stale) for p in place_sites(text, calls, static(lines) if parsed else None)]


def test_calls_in_an_unchanged_text_are_where_they_were() -> None:
    assert place(WAS, ONE, TWO, SAME_1, SAME_2) == [
        (1, False),
        (2, False),
        (5, False),
        (6, False),
    ]


def test_the_span_is_the_calls_own_when_the_indentation_changed() -> None:
    lines = [*WAS[:1], "    if True:", *("    " + line for line in WAS[1:])]
    text = Text("\n".join(lines))
    (placed,) = place_sites(text, [recorded(ONE)], static(lines))
    assert (placed.span, placed.stale) == (Span(2, 18, 2, 34), False)


def test_lines_above_move_calls_down() -> None:
    assert place(["", "", *WAS], ONE, TWO) == [(3, False), (4, False)]


def test_equal_lines_keep_their_order_when_they_move() -> None:
    lines = [WAS[0], "    x = 1", "    y = 2", *WAS[1:]]
    text = Text("\n".join(lines))
    placed = place_sites(text, [recorded(SAME_1), recorded(SAME_2)], static(lines))
    assert [(p.span.line, p.site) for p in placed] == [(7, SAME_1), (8, SAME_2)]


def test_a_copied_call_leaves_the_original_where_it_stands() -> None:
    lines = [*WAS[:2], *WAS[1:]]
    assert place(lines, ONE) == [(1, False)]


def test_a_changed_call_is_stale_at_its_place() -> None:
    lines = [line.replace("'two'", "'three'") for line in WAS]
    assert place(lines, ONE, TWO, SAME_1, SAME_2) == [
        (1, False),
        (2, True),
        (5, False),
        (6, False),
    ]


def test_a_call_that_changed_and_moved_is_stale_at_its_new_place() -> None:
    lines = ["", "# a comment", *(line.replace("'two'", "'three'") for line in WAS)]
    assert place(lines, ONE, TWO, SAME_1, SAME_2)[1] == (4, True)


def test_a_deleted_call_is_nowhere() -> None:
    lines = [*WAS[:2], *WAS[5:]]
    assert place(lines, ONE, TWO, SAME_1, SAME_2) == [(1, False), (2, False), (3, False)]


def test_no_place_is_given_to_two_changed_calls() -> None:
    lines = [WAS[0], "    a = await ctx.agent('other')"]
    assert place(lines, ONE, TWO) == [(1, True)]


def test_a_call_does_not_wander_into_another_function() -> None:
    lines = ["async def v(ctx, args):", "    a = await ctx.agent('x')"]
    text = Text("\n".join(lines))
    elsewhere = [StaticCall(Span(1, 14, 1, 28), "v")]
    assert place_sites(text, [recorded(ONE)], elsewhere) == ()


def test_a_text_that_does_not_parse_keeps_what_is_unchanged_and_calls_the_rest_stale() -> None:
    lines = [line.replace("'two'", "'three") for line in WAS]
    assert place(lines, ONE, TWO, parsed=False) == [(1, False), (2, True)]


def test_of_two_runs_at_one_place_the_one_that_is_true_now_is_shown() -> None:
    changed = Site(
        **{
            **{name: getattr(ONE, name) for name in ONE.__struct_fields__},
            "digest": lines_digest(["    a = await ctx.agent('ONE')"]),
        }
    )
    lines = [WAS[0], "    a = await ctx.agent('ONE')"]
    text = Text("\n".join(lines))
    calls = [recorded(ONE, created=5.0, served="miss"), recorded(changed, created=1.0)]
    (placed,) = place_sites(text, calls, static(lines))
    assert (placed.stale, [c.call.served for c in placed.calls]) == (False, ["hit"])


def test_a_large_file_is_placed_in_linear_work() -> None:
    lines = [f"    x{n} = await ctx.agent('{n}')" for n in range(20_000)]
    sites = [
        Site(
            file="f",
            line=n + 1,
            column=1,
            end_line=n + 1,
            end_column=9,
            digest=lines_digest([lines[n]]),
        )
        for n in range(0, 20_000, 2)
    ]
    placed = place_sites(Text("\n".join(["", *lines])), [recorded(s) for s in sites], None)
    assert [type(p) for p in placed[:1]] == [PlacedSite]
    assert [p.span.line for p in placed] == [s.line for s in sites]
