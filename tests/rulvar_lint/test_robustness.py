"""Any bytes at all: a finding or RLV001, never an exception, never a hang."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rulvar_lint import Config, Diagnostic, Project, fix_source, lint_paths

SOURCES = [
    text
    for path in sorted((Path(__file__).parent / "cases").glob("*.json"))
    if path.name != "ancestor.json"
    for case in json.loads(path.read_text("utf-8"))
    for name, text in case["files"].items()
    if name.endswith(".py")
]
HEAD = "import time\nfrom rulvar import Ctx, workflow\n\n\n@workflow\nasync def f(ctx: Ctx, args):\n"
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lint(data: bytes | str, tmp: Path = Path("no-such-folder")) -> list[Diagnostic]:
    project = Project(tmp, Config(select=("ALL",)), ["flow.py"])
    if isinstance(data, str):
        project.set_text("flow.py", data)
    else:
        tmp.mkdir(exist_ok=True)
        (tmp / "flow.py").write_bytes(data)
    found = project.check()
    project.workflows("flow.py")
    project.ctx_calls("flow.py")
    for item in found:
        assert item.line >= 1
        assert item.column >= 1
        assert (item.end_line, item.end_column) >= (item.line, item.column)
        json.dumps(item.to_json())
    return found


def mutated(text: str, seed: int) -> str:
    """A source with some tokens moved, dropped, doubled or replaced."""
    rng = random.Random(seed)
    lines = text.split("\n")
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(lines))
        how = rng.randrange(6)
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif how == 2:
            words = lines[at].split(" ")
            rng.shuffle(words)
            lines[at] = " ".join(words)
        elif how == 3:
            lines[at] = lines[at].replace("(", "[", 1).replace(")", "]", 1)
        elif how == 4:
            cut = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:cut] + rng.choice(PIECES) + lines[at][cut:]
        else:
            lines[at] = "    " + lines[at]
        lines = lines or [""]
    return "\n".join(lines)


PIECES = [
    " await ",
    "ctx.agent(",
    "lambda: ",
    "*",
    "**args",
    "yield ",
    " if x else ",
    ":=",
    "{",
    "}",
    "f'{",
    "'",
    '"""',
    "\\",
    "\t",
    "\x00",
    "\x0c",
    "\ufeff",
    "é",
    "\U0001f600",
    "async ",
    "class X: ",
    "global ctx; ",
    "set(args)",
    "match x:",
    "# rulvar: ignore[",
    "# rulvar: ignore-file",
]


KEPT_BETWEEN_RUNS = """from rulvar import define_workflow


def make(log):
    rows = []

    async def body(ctx, args):
        def work():
            rows.append(args["x"])
            return len(rows)

        return await ctx.step("work", work)

    return body


flow = define_workflow("x", make(None))
"""


@MANY
@given(st.sampled_from(SOURCES), st.integers(0, 10**6))
@example(KEPT_BETWEEN_RUNS, 1575)
def test_mutated_sources(text: str, seed: int) -> None:
    made = mutated(text, seed)
    found = lint(made)
    fixed = fix_source(made, found, unsafe=True)
    assert {item.code for item in lint(fixed)} <= {item.code for item in found} | {
        "RLV002", "RLV101", "RLV102", "RLV103", "RLV201", "RLV301", "RLV305", "RLV309",
        "RLV310", "RLV401", "RLV402", "RLV403", "RLV404", "RLV405",
    }  # fmt: skip


@MANY
@given(st.sampled_from(SOURCES), st.sampled_from(SOURCES), st.integers(0, 10**6))
def test_two_sources_run_together(one: str, two: str, seed: int) -> None:
    rng = random.Random(seed)
    left, right = one.split("\n"), two.split("\n")
    cut, other = rng.randrange(len(left) + 1), rng.randrange(len(right) + 1)
    lint("\n".join(left[:cut] + right[other:]))


@MANY
@given(st.text(max_size=400))
@example("\x00")
@example("rulvar\x00")
@example("\ud800 rulvar")
@example("rulvar\r\rctx")
@example("# -*- coding: nothing -*-\nfrom rulvar import workflow\n")
@example("# -*- coding: utf-16 -*-\nfrom rulvar import workflow\n")
@example("\ufefffrom rulvar import workflow\n")
def test_any_text(text: str) -> None:
    lint("from rulvar import workflow\n" + text)
    lint(text)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=300))
@example(data=b"\xef\xbb\xbffrom rulvar import workflow\nx = 1\n")
@example(data=b"\xff\xfef\x00r\x00o\x00m\x00")
@example(data=b"# coding: latin-1\nfrom rulvar import workflow\nx = '\xe9'\n")
@example(data=b"from rulvar import workflow\nx = '\xe9'\n")
@example(data=b"from rulvar import workflow\n\x00")
def test_any_bytes_on_disk(data: bytes, tmp_path: Path) -> None:
    lint(data, tmp_path)
    lint(b"from rulvar import workflow\n" + data, tmp_path)


names = st.sampled_from(["ctx", "args", "time", "x", "y", "f", "set", "asyncio", "self"])
attributes = st.sampled_from(
    ["agent", "step", "parallel", "now", "time", "gather", "add", "append", "keys", "x"]
)
expressions = st.recursive(
    names | st.sampled_from(["1", "'a'", "None", "True", "b'b'", "..."]),
    lambda inner: st.one_of(
        st.tuples(inner, attributes).map(lambda p: f"{p[0]}.{p[1]}"),
        st.tuples(inner, st.lists(inner, max_size=3)).map(lambda p: f"{p[0]}({', '.join(p[1])})"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}(*{p[1]}, **{p[0]})"),
        st.tuples(inner, names).map(lambda p: f"[{p[0]} for {p[1]} in {p[0]}]"),
        st.tuples(inner, names).map(lambda p: f"{{{p[0]} for {p[1]} in {p[0]} if {p[1]}}}"),
        st.tuples(inner, inner).map(lambda p: f"{{{p[0]}: {p[1]}}}"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} or {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} - {p[1]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(names, inner).map(lambda p: f"(lambda {p[0]}={p[1]}: {p[1]})"),
        inner.map(lambda e: f"(await {e})"),
        inner.map(lambda e: f"[*{e}]"),
        inner.map(lambda e: "f'{x}'"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}]"),
        st.tuples(names, inner).map(lambda p: f"({p[0]} := {p[1]})"),
    ),
    max_leaves=12,
)


def block(body: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def indent(text: str) -> str:
        return "\n".join("    " + line for line in text.split("\n"))

    inner = st.lists(body, min_size=1, max_size=3).map("\n".join).map(indent)
    return st.one_of(
        st.tuples(expressions, inner, inner).map(lambda p: f"if {p[0]}:\n{p[1]}\nelse:\n{p[2]}"),
        st.tuples(names, expressions, inner).map(lambda p: f"for {p[0]} in {p[1]}:\n{p[2]}"),
        st.tuples(names, expressions, inner).map(lambda p: f"async for {p[0]} in {p[1]}:\n{p[2]}"),
        st.tuples(expressions, inner).map(lambda p: f"while {p[0]}:\n{p[1]}"),
        st.tuples(inner, inner).map(lambda p: f"try:\n{p[0]}\nexcept x:\n{p[1]}\nfinally:\n{p[0]}"),
        st.tuples(expressions, names, inner).map(lambda p: f"with {p[0]} as {p[1]}:\n{p[2]}"),
        st.tuples(names, names, inner).map(lambda p: f"async def {p[0]}({p[1]}):\n{p[2]}"),
        st.tuples(names, inner).map(lambda p: f"class {p[0]}({p[0]}):\n{p[1]}"),
        st.tuples(expressions, inner).map(lambda p: f"match {p[0]}:\n  case [x, *y]:\n{p[1]}"),
    )


statements = st.recursive(
    st.one_of(
        expressions,
        st.tuples(names, expressions).map(lambda p: f"{p[0]} = {p[1]}"),
        st.tuples(names, names, expressions).map(lambda p: f"{p[0]}, *{p[1]} = {p[2]}"),
        st.tuples(names, expressions).map(lambda p: f"{p[0]} += {p[1]}"),
        st.tuples(names, expressions).map(lambda p: f"{p[0]}.x = {p[1]}"),
        expressions.map(lambda e: f"return {e}"),
        names.map(lambda n: f"del {n}"),
        st.just("import time as time, asyncio"),
        st.just("raise"),
    ),
    block,
    max_leaves=8,
)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(statements, min_size=1, max_size=6))
def test_generated_workflows(body: list[str]) -> None:
    text = "\n".join(body).replace("\n", "\n    ")
    made = f"{HEAD}    {text}\n"
    found = lint(made)
    lint(f"import time\nfrom rulvar import workflow\n{made}\n{text}")
    if all(item.code != "RLV001" for item in found):
        assert all(item.code != "RLV001" for item in lint(fix_source(made, found, unsafe=True)))


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}    return {'(' * 150}args{')' * 150}\n",
        f"{HEAD}    return {'[' * 90}time.time(){']' * 90}\n",
        f"{HEAD}    return {' + '.join(['time.time()'] * 3000)}\n",
        f"{HEAD}    x = args\n" + "    x = [x]\n" * 3000 + "    return x\n",
        f"{HEAD}    return args{'.a' * 3000}\n",
        f"{HEAD}    return args{'()' * 1000}\n",
        HEAD + "".join(f"{'    ' * n}if args:\n" for n in range(1, 95)) + "    " * 95 + "pass\n",
        HEAD + "    " + "lambda: " * 300 + "time.time()\n",
        HEAD + "".join(f"    a{n} = a{n - 1}\n" for n in range(1, 3000)),
        HEAD + "    return " + " if args else ".join(["1"] * 500) + "\n",
        f"{HEAD}    return '" + "x" * 200_000 + "' + str(time.time())\n",
        HEAD + "".join(f"    def g{n}(): return g{n + 1}()\n" for n in range(400)),
    ],
    ids=range(12),
)
def test_deep_and_long_constructs(text: str) -> None:
    lint(text)


def test_mutually_recursive_functions_of_every_kind() -> None:
    many = 40
    text = "import time\nfrom rulvar import workflow\n"
    for n in range(many):
        calls = " or ".join(f"f{(n * k + 1) % many}(x)" for k in range(1, 5))
        text += f"\n\ndef f{n}(x):\n    return x and ({calls})\n"
    text += "\n\n@workflow\nasync def w(ctx, args):\n    return f0(args)\n"
    assert lint(text) == []
    found = lint(text.replace("return x and (f1(x)", "return time.time() and (f1(x)", 1))
    assert [item.code for item in found] == ["RLV101"]


def test_fifty_thousand_lines() -> None:
    flow = "\n\n@workflow\nasync def f{n}(ctx: Ctx, args):\n    x = time.time()\n    return x\n"
    text = "import time\nfrom rulvar import Ctx, workflow\n"
    text += "".join(flow.replace("{n}", str(n)) for n in range(8300))
    assert text.count("\n") > 49_000
    assert len(lint(text)) == 8300


@pytest.mark.parametrize(
    "text",
    [
        "type Alias[T] = list[T]\n",
        "def f[T](x: T) -> T:\n    return x\n",
        "x = f'{'nested'}'\n",
        "try:\n    pass\nexcept* ValueError:\n    pass\n",
        "match x:\n    case {'a': 1, **rest}:\n        pass\n",
        "t = t'{x}'\n",
        "try:\n    pass\nexcept A, B:\n    pass\n",
        "print 'old'\n",
        "exec 'old'\n",
    ],
)
def test_newer_and_older_syntax_parses_or_is_one_finding(text: str) -> None:
    found = lint("from rulvar import workflow\n" + text)
    assert [item.code for item in found] in ([], ["RLV001"])


@pytest.mark.skipif(sys.version_info < (3, 14), reason="template strings are newer")
def test_what_flows_into_a_template_string_flows_on() -> None:
    found = lint(
        f"{HEAD}    asked = t'{{time.time()}} {{args:>{{args}}}}'\n    return await ctx.agent(asked)\n"
    )
    assert [(item.code, "prompt" in item.message) for item in found] == [("RLV101", True)]


@pytest.mark.skipif(sys.version_info < (3, 15), reason="unpacking in comprehensions is newer")
def test_comprehensions_that_unpack_are_read() -> None:
    body = "    kept = {*x for x in args}\n    more = {**x for x in args}, [*x for x in args], (*x for x in args)\n"
    found = lint(
        f"{HEAD}{body}    for one in kept:\n        await ctx.step(one, lambda: 1)\n    return more\n"
    )
    assert [item.code for item in found] == ["RLV201"]


@pytest.mark.skipif(sys.version_info < (3, 15), reason="lazy imports are newer")
def test_lazy_imports_are_imports() -> None:
    found = lint("lazy import time\n" + HEAD.replace("import time\n", "") + "    return time.time()\n")
    assert [item.code for item in found] == ["RLV101"]


def test_positions_count_code_points_not_bytes() -> None:
    text = f'{HEAD}    é = "\U0001f600"; x = time.time()\n    return x\n'
    (item,) = lint(text)
    line = text.split("\n")[item.line - 1]
    assert line[item.column - 1 : item.end_column - 1] == "time.time()"


def test_tabs_and_form_feeds_keep_positions() -> None:
    text = HEAD + "\x0c\n\tx = time.time()\n\treturn x\n"
    (item,) = lint(text)
    assert text.split("\n")[item.line - 1][item.column - 1 :].startswith("time.time()")


def test_a_broken_file_does_not_hide_the_findings_of_others(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_bytes(b"from rulvar import workflow\ndef (\x00\n")
    (tmp_path / "latin.py").write_bytes(b"from rulvar import workflow\nx = '\xe9'\n")
    (tmp_path / "flow.py").write_text(f"{HEAD}    return time.time()\n")
    found = {(item.path, item.code) for item in Project(tmp_path).check()}
    assert found == {("broken.py", "RLV001"), ("latin.py", "RLV001"), ("flow.py", "RLV101")}


def test_odd_things_in_the_tree_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "dangling.py").symlink_to("nowhere.py")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "na\u00efve \U0001f600.py").write_text(f"{HEAD}    return time.time()\n")
    (tmp_path / "empty.py").write_text("")
    found = [item.path for item in Project(tmp_path).check()]
    assert found == ["na\u00efve \U0001f600.py"]
    done = subprocess.run(
        [sys.executable, "-m", "rulvar_lint", "--output-format", "json"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert len(json.loads(done.stdout)) == 1


def test_a_pipe_with_a_python_name_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "flow.py").write_text(HEAD + "    return time.time()\n")
    done = subprocess.run(
        [sys.executable, "-m", "rulvar_lint", "--no-cache", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "flow.py:7:" in done.stdout


def test_a_file_that_cannot_be_read_is_one_finding_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flow.py").write_text(HEAD + "    return time.time()\n")
    (tmp_path / "locked.py").write_text(HEAD + "    pass\n")
    real = open

    def refuse(file: str | Path, *args: Any, **options: Any) -> Any:
        if str(file).endswith("locked.py"):
            raise PermissionError(13, "Permission denied")
        return real(file, *args, **options)

    monkeypatch.setattr("builtins.open", refuse)
    for _ in range(2):  # the second answer does not come from a cache either
        found = lint_paths([tmp_path], root=tmp_path)
        assert [(item.path, item.line, item.code) for item in found] == [
            ("flow.py", 7, "RLV101"),
            ("locked.py", 1, "RLV001"),
        ]
        assert found[1].message == "the file cannot be read: Permission denied; change its permissions"
    monkeypatch.undo()
    assert [item.path for item in lint_paths([tmp_path], root=tmp_path)] == ["flow.py"]


def test_a_syntax_error_says_which_python_has_read_the_file() -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = lint("from rulvar import workflow\nx = (\n")
    assert [item.message.split(":")[0] for item in found] == [
        f"the file does not parse with Python {version}"
    ]


def test_helpers_that_call_the_next_one_twice_do_not_double_the_work() -> None:
    layers = 40
    parts = ["from rulvar import Ctx, workflow\n"]
    for n in range(layers):
        below = f"h{n + 1}(ctx)" if n + 1 < layers else "ctx.agent('x')"
        parts.append(
            f"async def h{n}(ctx: Ctx):\n    print({n})\n    return [await {below}, await {below}]\n"
        )
    found = lint("\n\n".join(parts))
    assert len([item for item in found if item.code == "RLV113"]) == layers


CHAIN = "    def c0(): return time.time()\n" + "".join(
    f"    def c{n}(): return c{n - 1}(), c{n - 1}()\n" for n in range(1, 40)
)
WIDE = "[" + ", ".join(["a"] * 40) + "]"


@pytest.mark.parametrize(
    "body",
    [
        CHAIN + '    return await ctx.step("x", lambda: c39())\n',
        CHAIN + '    return await ctx.step("x", c39)\n',
        CHAIN + "    return await ctx.parallel([c39])\n",
        "    d = {}\n"
        + "".join(f'    d["k{n}"] = d\n' for n in range(40))
        + '    await ctx.step("x", lambda: d)\n',
        "    a = args\n" + f"    a = {WIDE}\n" * 6 + '    await ctx.agent(f"{a}", key=a)\n',
        "    a = []\n" + "    a.append(a)\n" * 100 + '    await ctx.agent("%s" % a)\n    return a\n',
    ],
    ids=["step lambda", "step function", "thunk", "a dict in itself", "wide lists", "a list in itself"],
)
def test_values_and_calls_that_fan_out_are_looked_at_once(body: str) -> None:
    lint(HEAD + body)  # without that, none of these ends
