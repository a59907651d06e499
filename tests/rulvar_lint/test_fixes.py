"""Fixes: what they write, and what they leave alone."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rulvar_lint import Config, Diagnostic, Edit, Fix, Project, fix_source
from rulvar_lint.fixes import apply, rewrite

Check = Callable[..., list[Diagnostic]]
HEAD = "from rulvar import Ctx, workflow\n\n\n@workflow\nasync def flow(ctx: Ctx, args: dict):\n"
EVERYTHING = Config(select=("ALL",))
CASES = [
    case
    for path in sorted((Path(__file__).parent / "cases").glob("*.json"))
    if path.name != "ancestor.json"
    for case in json.loads(path.read_text("utf-8"))
    if any(name.endswith(".py") for name in case["files"])
]

# (imports, line before, line after, applicability)
REPLACEMENTS = [
    ("import time", "x = time.time()", "x = ctx.time()", "safe"),
    ("import time as t", "x = t.time() - args['t']", "x = ctx.time() - args['t']", "safe"),
    (
        "from datetime import datetime, timezone",
        "x = datetime.now(timezone.utc)",
        "x = ctx.now()",
        "safe",
    ),
    ("from datetime import datetime, UTC", "x = datetime.now(tz=UTC)", "x = ctx.now()", "safe"),
    ("from datetime import datetime", "x = datetime.now()", "x = ctx.now()", "unsafe"),
    ("from datetime import date", "x = date.today()", "x = ctx.now().date()", "unsafe"),
    ("import random", "x = random.random()", 'x = ctx.random("x")', "safe"),
    ("import random", 'x = f"{random.random()}"', "x = f\"{ctx.random('x')}\"", "safe"),
    ("import uuid", "x = uuid.uuid4()", "x = ctx.uuid()", "safe"),
    ("import uuid", "x = uuid.uuid4().hex", 'x = ctx.uuid().replace("-", "")', "safe"),
    ("import uuid", 'x = f"{uuid.uuid4()}"', 'x = f"{ctx.uuid()}"', "safe"),
    ("", "print('x')", "ctx.log(\"info\", 'x')", "unsafe"),
    (
        "import logging\nlog = logging.getLogger()",
        'log.warning("%s", args)',
        'ctx.log("warn", "%s" % (args,))',
        "unsafe",
    ),
    ("", "return list(set(args['a']))", "return sorted(set(args['a']))", "unsafe"),
    ("", "x = ','.join({*args['a']})", "x = ','.join(sorted({*args['a']}))", "unsafe"),
    ("", "return f\"{set(args['a'])}\"", "return f\"{sorted(set(args['a']))}\"", "unsafe"),
    (
        "import time\nfrom datetime import datetime, timezone",
        "x = datetime.fromtimestamp(args['t'])",
        "x = datetime.fromtimestamp(args['t'], tz=timezone.utc)",
        "unsafe",
    ),
    ("import time", "x = time.localtime(args['t'])", "x = time.gmtime(args['t'])", "unsafe"),
    (
        "import datetime as dt",
        "x = ctx.now().astimezone()",
        "x = ctx.now().astimezone(dt.timezone.utc)",
        "unsafe",
    ),
    (
        "import json",
        "x = await ctx.agent(json.dumps(args))",
        "x = await ctx.agent(json.dumps(args, sort_keys=True))",
        "unsafe",
    ),
    ("", 'ctx.agent("x")', 'await ctx.agent("x")', "safe"),
    ("", 'x = ctx.agent("x")', 'x = await ctx.agent("x")', "safe"),
    (
        "import asyncio",
        'x = await asyncio.gather(ctx.agent("a"), ctx.agent("b"))',
        'x = await ctx.parallel([ctx.agent("a"), ctx.agent("b")])',
        "unsafe",
    ),
    (
        "import asyncio",
        "x = await asyncio.gather(*[ctx.agent(a) for a in args['a']])",
        "x = await ctx.parallel([ctx.agent(a) for a in args['a']])",
        "unsafe",
    ),
    (
        "",
        "x = await ctx.parallel([lambda: ctx.agent(a) for a in args['a']])",
        "x = await ctx.parallel([lambda a=a: ctx.agent(a) for a in args['a']])",
        "safe",
    ),
    (
        "from app import load",
        "x = await ctx.step('x', load(args['a']))",
        "x = await ctx.step('x', lambda: load(args['a']))",
        "safe",
    ),
    (
        "from app import load",
        "x = await ctx.step('x', await load(1))",
        "x = await ctx.step('x', lambda: load(1))",
        "safe",
    ),
    (
        "",
        "x = [await ctx.agent('x') for n in range(3)]",
        "x = [await ctx.agent('x', key=f\"agent-{n}\") for n in range(3)]",
        "unsafe",
    ),
    # arguments in the wrong place, and steps that run later than they are written
    ("", "x = await ctx.step(lambda: 1, 'a')", "x = await ctx.step('a', lambda: 1)", "safe"),
    (
        "from app import f",
        "x = await ctx.step(fn='a', label=lambda: 1)",
        "x = await ctx.step(fn=lambda: 1, label='a')",
        "safe",
    ),
    ("", "x = await ctx.step('a', 'b')", "x = await ctx.step('a', 'b')", "none"),
    ("", "x = await ctx.step('a', None)", "x = await ctx.step('a', None)", "none"),
    ("", "x = await ctx.step('a', [1, 2])", "x = await ctx.step('a', [1, 2])", "none"),
    (
        "from app import load",
        "x = await ctx.step('a', load(ctx.now()))",
        "x = await ctx.step('a', load(ctx.now()))",
        "none",
    ),
    (
        "from app import load",
        "x = await ctx.parallel([ctx.step(f'x{n}', load(n)) for n in args['a']])",
        "x = await ctx.parallel([ctx.step(f'x{n}', lambda n=n: load(n)) for n in args['a']])",
        "safe",
    ),
    (
        "from app import load",
        "x = [await ctx.step(f'x{n}', await load(n)) for n in args['a']]",
        "x = [await ctx.step(f'x{n}', lambda: load(n)) for n in args['a']]",
        "safe",
    ),
    # where a coroutine cannot simply be awaited
    ("", "x = await ctx.agent(ctx.agent('x'))", "x = await ctx.agent(await ctx.agent('x'))", "safe"),
    ("", "x = any(ctx.agent(a) for a in args)", "x = any(ctx.agent(a) for a in args)", "none"),
    # brackets around the last argument or parameter
    (
        "",
        "x = [await ctx.agent(('x')) for n in range(3)]",
        "x = [await ctx.agent(('x'), key=f\"agent-{n}\") for n in range(3)]",
        "unsafe",
    ),
    (
        "import asyncio",
        "x = await asyncio.gather((ctx.agent('a')), (ctx.agent('b')))",
        "x = await ctx.parallel([(ctx.agent('a')), (ctx.agent('b'))])",
        "unsafe",
    ),
    (
        "",
        "x = await ctx.parallel([lambda y=(1): ctx.agent(a) for a in args['a']])",
        "x = await ctx.parallel([lambda y=(1), a=a: ctx.agent(a) for a in args['a']])",
        "safe",
    ),
    (
        "",
        "x = await ctx.parallel([lambda *y: ctx.agent(a + b) for a, b in args['a']])",
        "x = await ctx.parallel([lambda *y, a=a, b=b: ctx.agent(a + b) for a, b in args['a']])",
        "safe",
    ),
    ("from datetime import datetime", "x = datetime.now(None)", "x = ctx.now()", "unsafe"),
    (
        "import logging",
        "logging.info('%(a)s', args)",
        "ctx.log(\"info\", '%(a)s' % args)",
        "unsafe",
    ),
    (
        "from app import load",
        "a, b = args['p']; x = await ctx.step('x', lambda: load(a, b), deps=(a,))",
        "a, b = args['p']; x = await ctx.step('x', lambda: load(a, b), deps=(a, b,))",
        "unsafe",
    ),
    # a name that may mean something else stays
    (
        "import time",
        "x = time.time if args else len; y = x()",
        "x = time.time if args else len; y = x()",
        "none",
    ),
    (
        "try:\n    from fast import now\nexcept ImportError:\n    from time import time as now",
        "x = now()",
        "x = now()",
        "none",
    ),
    (
        "import asyncio, functools\nboth = functools.partial(asyncio.gather, return_exceptions=True)",
        "x = await both(ctx.agent('a'), ctx.agent('b'))",
        "x = await both(ctx.agent('a'), ctx.agent('b'))",
        "none",
    ),
    # a set inside what is written down is sorted where it is
    (
        "",
        "x = await ctx.workflow('a', {'s': set(args), 'n': 1})",
        "x = await ctx.workflow('a', {'s': sorted(set(args)), 'n': 1})",
        "unsafe",
    ),
    (
        "from app import f",
        "s = set(args); x = await ctx.step('a', f, deps=[s])",
        "s = set(args); x = await ctx.step('a', f, deps=[sorted(s)])",
        "unsafe",
    ),
    (
        "",
        "s = {'s': set(args)}; x = await ctx.workflow('a', s)",
        "s = {'s': set(args)}; x = await ctx.workflow('a', s)",
        "none",
    ),
]
BLOCKS = [
    (
        "function and label of a step, with a comment between",
        '    return await ctx.step(\n        lambda: 1,  # first\n        "a",\n    )\n',
        '    return await ctx.step(\n        "a",  # first\n        lambda: 1,\n    )\n',
    ),
    (
        "swallowed",
        '    try:\n        await ctx.agent("x")\n    except:\n        pass\n',
        '    try:\n        await ctx.agent("x")\n    except Exception:\n        pass\n',
    ),
    (
        "nested def in a loop",
        "    jobs = []\n    for a in args:\n        async def job():\n"
        "            return await ctx.agent(a)\n        jobs.append(job)\n"
        "    return await ctx.parallel(jobs)\n",
        "    jobs = []\n    for a in args:\n        async def job(a=a):\n"
        "            return await ctx.agent(a)\n        jobs.append(job)\n"
        "    return await ctx.parallel(jobs)\n",
    ),
    (
        "comments inside a gather",
        '    import asyncio\n    x = await asyncio.gather(\n        ctx.agent("a"),  # one\n'
        '        ctx.agent("b"),  # two\n    )\n    return x\n',
        '    import asyncio\n    x = await ctx.parallel(\n        [ctx.agent("a"),  # one\n'
        '        ctx.agent("b")],  # two\n    )\n    return x\n',
    ),
    (
        "repeated call",
        '    a = await ctx.agent("x")\n    b = await ctx.agent("x")\n    return [a, b]\n',
        '    a = await ctx.agent("x")\n    b = await ctx.agent("x", key="agent-2")\n    return [a, b]\n',
    ),
    (
        "several repeated calls, whose keys must differ",
        '    await ctx.agent("x")\n    await ctx.agent("y")\n    await ctx.agent("x")\n    await ctx.agent("y")\n',
        '    await ctx.agent("x")\n    await ctx.agent("y")\n    await ctx.agent("x", key="agent-3")\n'
        '    await ctx.agent("y", key="agent-4")\n',
    ),
    (
        "several calls of one loop",
        '    for a in args:\n        await ctx.agent("x")\n        await ctx.agent("y")\n',
        '    for a in args:\n        await ctx.agent("x", key=f"agent-{a}")\n'
        '        await ctx.agent("y", key=f"agent-2-{a}")\n',
    ),
    (
        "loops in each other",
        '    for a in args:\n        for b in args:\n            await ctx.agent(f"x{a}")\n',
        '    for a in args:\n        for b in args:\n            await ctx.agent(f"x{a}", key=f"agent-{a}-{b}")\n',
    ),
]


def project(files: dict[str, str]) -> Project:
    made = Project(Path("no-such-folder"), EVERYTHING, [])
    for path, text in files.items():
        made.set_text(path, text)
    return made


@pytest.mark.parametrize(("imports", "before", "after", "safety"), REPLACEMENTS)
def test_a_line_is_replaced(imports: str, before: str, after: str, safety: str, check: Check) -> None:
    text = f"{imports}\n{HEAD}    {before}\n"
    found = check(text, Config(extend_select=("RLV207",)))
    fixes = {d.fix.applicability for d in found if d.fix is not None} or {"none"}
    assert found
    assert safety in fixes
    assert fix_source(text, found, unsafe=safety == "unsafe") == f"{imports}\n{HEAD}    {after}\n"
    if safety == "unsafe":
        assert fix_source(text, found) == text


@pytest.mark.parametrize(("name", "before", "after"), BLOCKS, ids=[block[0] for block in BLOCKS])
def test_a_block_is_rewritten(name: str, before: str, after: str, check: Check) -> None:
    found = check(HEAD + before)
    assert fix_source(HEAD + before, found, unsafe=True) == HEAD + after


def test_the_default_fields_of_a_model_are_passed_from_ctx(check: Check) -> None:
    text = (
        "import time, uuid\nfrom dataclasses import dataclass, field\n\n\n@dataclass\nclass E:\n"
        "    name: str\n    at: float = field(default_factory=time.time)\n"
        "    id: str = field(default_factory=lambda: str(uuid.uuid4()))\n\n\n"
        f'{HEAD}    return E("x")\n'
    )
    fixed = fix_source(text, check(text), unsafe=True)
    assert fixed.endswith('return E("x", at=ctx.time(), id=ctx.uuid())\n')


def test_a_function_becomes_async(check: Check) -> None:
    text = HEAD.replace("async def", "def") + "    return 1\n"
    assert fix_source(text, check(text), unsafe=True) == HEAD + "    return 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('x = os.environ["A"]', 'x = await ctx.step("environ", lambda: os.environ["A"])'),
        (
            "x = requests.get(args['u']).json()",
            "x = await ctx.step(\"json\", lambda: requests.get(args['u']).json())",
        ),
        ("await asyncio.sleep(5)", 'await ctx.step("sleep", lambda: asyncio.sleep(5))'),
        (
            'x = json.load(open("f"))',
            'x = await ctx.step("load", lambda: json.load(open("f")))',
        ),
        (
            "x = [os.listdir(d) for d in args['d']]",
            "x = [await ctx.step(\"listdir\", lambda: os.listdir(d), deps=[d]) for d in args['d']]",
        ),
    ],
)
def test_an_editor_is_offered_a_step(before: str, after: str, check: Check) -> None:
    text = f"import asyncio, json, os, requests\n{HEAD}    {before}\n"
    offered = [d for d in check(text) if d.fix is not None and d.fix.applicability == "manual"]
    assert fix_source(text, offered, unsafe=True) == text
    assert offered[0].fix is not None
    chosen = replace(offered[0], fix=replace(offered[0].fix, applicability="safe"))
    assert fix_source(text, [chosen]).endswith(f"    {after}\n")


@pytest.mark.parametrize(
    "line",
    [
        "x = iter(time.time, 0)",
        "x = [f() for f in (time.time, len)]",
        "x = iter(datetime.now, None)",
        "x = iter(random.random, 1)",
        "x = list(map(datetime.now, [UTC]))",
        "x = defaultdict(uuid.uuid4)",
        "x = list(map(log.info, args['xs']))",
    ],
)
def test_a_call_that_is_given_the_function_is_not_replaced(line: str, check: Check) -> None:
    imports = (
        "import logging, random, time, uuid\nfrom collections import defaultdict\n"
        "from datetime import UTC, datetime\nlog = logging.getLogger()\n"
    )
    found = check(f"{imports}{HEAD}    {line}\n")
    assert found
    assert [item.fix for item in found] == [None]


@pytest.mark.parametrize(
    "line",
    [
        "with open('f') as handle: pass",
        "conn = sqlite3.connect('f')",
        "x = lambda: os.environ['A']",
        "os.environ['A'] = '1'",
        "x = requests.get(args['u'])",
        "x = os.listdir(await ctx.agent('x'))",
    ],
)
def test_no_step_is_offered_where_it_would_not_work(line: str, check: Check) -> None:
    text = f"import os, requests, sqlite3\n{HEAD}    {line}\n"
    found = check(text)
    assert found
    assert all(d.fix is None for d in found if d.code.startswith("RLV10"))


# Laws


def pieces(case: dict[str, Any]) -> list[tuple[dict[str, str], Diagnostic, list[Diagnostic]]]:
    """One finding with a fix for each rule of a case."""
    files = {path: text for path, text in case["files"].items() if path.endswith(".py")}
    found = project(files).check()
    chosen = {item.code: item for item in found if item.fix is not None}
    return [(files, item, found) for item in chosen.values()]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_each_fix_keeps_the_file_parseable_and_the_other_findings(case: dict[str, Any]) -> None:
    for files, item, found in pieces(case):
        assert item.fix is not None
        text = files[item.path]
        chosen = replace(item, fix=replace(item.fix, applicability="safe"))
        made = apply(text, [chosen]).text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of what the case is about, in newer Pythons
            compile(made, item.path, "exec", dont_inherit=True)
        if item.fix.applicability == "manual":
            continue
        assert made != text
        after = project({**files, item.path: made}).check()
        lost = {d.code for d in found} - {d.code for d in after}
        assert lost <= {item.code, "RLV402"}, "RLV402 may go when deps or a key tell calls apart"
        others = [d for d in found if (d.path, d.line) != (item.path, item.line)]
        kept = {(d.path, d.code) for d in after}
        assert {(d.path, d.code) for d in others if d.code != item.code} <= kept


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_fixing_comes_to_an_end(case: dict[str, Any]) -> None:
    files = {path: text for path, text in case["files"].items() if path.endswith(".py")}
    for _ in range(12):
        found = project(files).check()
        made = {
            path: fix_source(text, [d for d in found if d.path == path], unsafe=True)
            for path, text in files.items()
        }
        if made == files:
            break
        files = made
    else:
        pytest.fail("fixes go on for ever")
    left = [d.fix.applicability for d in found if d.fix is not None]
    assert set(left) <= {"manual"}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_line_endings_encoding_and_byte_order_mark_stay(newline: str, encoding: str) -> None:
    head = "# -*- coding: latin-1 -*-\n" if encoding == "latin-1" else ""
    text = f'{head}import time\n{HEAD}    x = "é"; y = time.time()  # ü\n    return x\n'
    data = text.replace("\n", newline).encode(encoding)
    made = Project(Path("no-such-folder"), Config(), [])
    made.set_text("flow.py", text.replace("\n", newline))
    found = made.check()
    after, applied = rewrite(data, found)
    assert len(applied.fixed) == 1
    assert after == text.replace("time.time()", "ctx.time()").replace("\n", newline).encode(encoding)


def test_overlapping_fixes_are_left_for_the_next_pass() -> None:
    def one(column: int, end: int, text: str) -> Diagnostic:
        edit = Edit("a.py", 1, column, 1, end, text)
        fix = Fix("safe", "x", (edit,))
        return Diagnostic("a.py", 1, column, 1, end, "RLV101", "n", "error", "m", "u", (), fix)

    applied = apply("abcdef\n", [one(1, 4, "X"), one(3, 6, "Y"), one(6, 7, "Z")])
    assert applied.text == "XdeZ\n"
    assert len(applied.fixed) == 2


def test_a_fix_that_would_break_the_file_is_not_applied() -> None:
    fix = Fix("safe", "x", (Edit("a.py", 1, 1, 1, 2, "("),))
    item = Diagnostic("a.py", 1, 1, 1, 2, "RLV101", "n", "error", "m", "u", (), fix)
    assert fix_source("a = 1\n", [item]) == "a = 1\n"


def test_an_edit_outside_the_text_is_ignored() -> None:
    fix = Fix("safe", "x", (Edit("a.py", 9, 1, 9, 2, "b"),))
    item = Diagnostic("a.py", 9, 1, 9, 2, "RLV101", "n", "error", "m", "u", (), fix)
    assert fix_source("a = 1\n", [item]) == "a = 1\n"
