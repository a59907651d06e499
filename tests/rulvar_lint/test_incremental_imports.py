"""A file that imports others of its project has, after edits of any of them, what a fresh look finds."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rulvar_lint import Config, Project

FLOW_HEADS = [
    "from __future__ import annotations\nimport time\nfrom rulvar import Ctx, workflow\n",
    "from helpers import stamp, score, remember, recall, ask, Order, PROMPT, LIMITS\nimport state\n",
    "from helpers import PROMPT as SAID, RATES, shout\nfrom state import CACHE, bump\n",
    "import helpers\nfrom text import tidy\n",
]
FLOW_BLOCKS = [
    """
@workflow
async def one(ctx: Ctx, args: dict) -> dict:
    first = await ctx.agent(f"{PROMPT} {stamp()}")
    return {"first": first, "limit": LIMITS["a"]}
""",
    """
@workflow
async def two(ctx: Ctx, args: dict) -> dict:
    when = stamp()
    if when > 3:
        return {"when": when}
    part = await ctx.step("load", lambda: score(3), deps=[when])
    return {"part": part}
""",
    """
@workflow
async def three(ctx: Ctx, order: Order) -> dict:
    order.update(2)
    found = await ask(ctx, order.total)
    return {"found": found, "total": order.total}
""",
    """
@workflow
async def four(ctx: Ctx, args: dict) -> dict:
    remember(args["a"])
    again = recall()
    return {"again": await ctx.agent(f"{again}"), "rates": RATES}
""",
    """
@workflow
async def five(ctx: Ctx, args: dict) -> dict:
    CACHE.append(stamp())
    return {"n": len(CACHE), "bump": bump()}
""",
    """
@workflow
async def six(ctx: Ctx, args: dict) -> dict:
    made = Order(args["n"])
    made.update(3)
    drafts = await ctx.parallel([lambda n=n: ask(ctx, n) for n in args["items"]])
    return {"drafts": drafts, "text": tidy(made.label()), "said": SAID, "cached": CACHE[0]}
""",
    """
@workflow
async def seven(ctx: Ctx, args: dict) -> dict:
    again = await helpers.ask(ctx, 3)
    return {"again": again, "rate": helpers.RATES["b"], "count": state.COUNT, "when": helpers.stamp()}
""",
    """
def spoil() -> None:
    helpers.RATES["b"] = 4
    state.COUNT = 5
""",
    """
def silence() -> None:
    LIMITS.clear()
""",
    """
@workflow
async def eight(ctx: Ctx, args: dict) -> dict:
    shouted = shout({"b", "a"})
    for word in shouted:
        await ctx.agent(word)
    return {"n": [score(n) for n in args["items"]]}
""",
    """
class Deep(Order):
    def update(self, value):
        self.total = stamp()
        return self.total


@workflow
async def nine(ctx: Ctx, args: dict) -> dict:
    deep = Deep(3)
    return {"deep": deep.update(2), "kept": Order.kept}
""",
    """
@workflow
async def ten(ctx: Ctx, args: dict) -> dict:
    from text import tidy as clean
    order = Order(3)
    order.kept.append(stamp())
    return {"clean": clean(args["a"]), "log": await helpers.quietly(ctx, stamp())}
""",
]
HELPERS = [
    'import time\nimport random\nfrom rulvar import Ctx\n\nPROMPT = "Say"\n',
    'LIMITS = {"a": 1}\nRATES = {"b": 2.0}\nKEPT = []\n',
    "\ndef stamp() -> float:\n    return time.time()\n",
    "\ndef stamp() -> float:\n    return 3.0\n",
    "\ndef score(value: int, weights: dict = {}) -> int:\n    return value + len(KEPT)\n",
    "\ndef remember(value):\n    KEPT.append(value)\n",
    "\ndef recall():\n    return KEPT[0]\n",
    '\nasync def ask(ctx: Ctx, n: object) -> object:\n    at = time.time()\n    return await ctx.agent(f"{n} {at}")\n',
    '\nasync def ask(ctx: Ctx, n: object) -> object:\n    if random.random() > 3:\n        return await ctx.agent("no")\n    return await ctx.agent(f"{n}")\n',
    '\nasync def quietly(ctx, value):\n    again = await ctx.agent("same")\n    return again, await ctx.agent("same"), f"{value}"\n',
    "\ndef shout(words):\n    return [word.upper() for word in words]\n",
    "\nclass Order:\n    kept = []\n    total: int = 0\n\n    def __init__(self, total: int = 0) -> None:\n"
    '        self.total = total\n\n    def update(self, value):\n        self.total = value\n\n    def label(self):\n        return f"{self.total}"\n',
]
STATE = [
    "import helpers\nCACHE = []\nCOUNT = 0\n",
    "CACHE = [3]\nCOUNT = 0\n",
    "\ndef bump():\n    global COUNT\n    COUNT += 1\n    return COUNT\n",
    "\ndef bump():\n    return helpers.stamp()\n",
    "\ndef spoil():\n    helpers.LIMITS['a'] = 3\n",
    "from helpers import RATES\n\ndef more():\n    RATES.clear()\n",
]
TEXT = [
    "def tidy(text):\n    return text.strip()\n",
    "import uuid\n\ndef tidy(text):\n    return f'{text}{uuid.uuid4()}'\n",
    "from helpers import stamp\n\ndef tidy(text):\n    return stamp()\n",
    "def tidy(text:\n",
]
MAIN = [
    "from flow import one\nfrom rulvar import workflow, Ctx\n",
    '\n@workflow\nasync def main(ctx: Ctx, args: dict):\n    found = await one(ctx, args)\n    return {"found": found}\n',
    "\ndef other():\n    import flow\n    flow.LIMITS = 3\n",
    "from helpers import KEPT\n\ndef clear():\n    KEPT.clear()\n",
    "import flow\n",
]
MENU = {"helpers.py": HELPERS, "state.py": STATE, "text.py": TEXT, "main.py": MAIN}
LINES = [
    "# note",
    "",
    "    pass",
    "import helpers",
    "from state import bump",
    "x = (",
    "    # line 4",
    "KEPT = {}",
]
Texts = dict[str, list[str]]


@st.composite
def projects(draw: st.DrawFn) -> Texts:
    heads = draw(st.lists(st.sampled_from(FLOW_HEADS[1:]), unique=True, max_size=3))
    blocks = draw(st.lists(st.sampled_from(FLOW_BLOCKS), unique=True, min_size=2, max_size=6))
    found = {"flow.py": [FLOW_HEADS[0], *heads, *blocks]}
    for path, menu in MENU.items():
        chosen = draw(st.lists(st.sampled_from(range(len(menu))), unique=True, max_size=len(menu)))
        if chosen:
            found[path] = [menu[at] for at in sorted(chosen)]
    return found


HELPED = """
@workflow
async def flow_{n}(ctx: Ctx, args: dict) -> dict:
    order = Order({n})
    return {{"said": await ask(ctx, PROMPT), "when": stamp(), "label": order.label(), "limit": LIMITS["a"]}}
"""
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flow.py", "flow.py", "flow.py", "helpers.py", "state.py", "text.py", "main.py"]),
        st.sampled_from(["add", "drop", "line", "shift", "undo"]),
        st.integers(0, 50),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=6,
)


def edited(path: str, pieces: list[str], kind: str, where: int, what: int) -> list[str]:
    """The pieces of a file with one of them more or less, or with a line in one of them."""
    at = where % (len(pieces) + 1)
    if kind == "add":
        menu = MENU.get(path, [*FLOW_HEADS, *FLOW_BLOCKS])
        return [*pieces[:at], menu[what % len(menu)], *pieces[at:]]
    if kind == "drop":
        return [*pieces[:at], *pieces[at + 1 :]]
    if kind == "shift":
        return ["# a line more\n", *pieces]
    if at == len(pieces):
        return pieces
    lines = pieces[at].split("\n")
    spot = what % len(lines)
    lines[spot:spot] = [LINES[(where + what) % len(LINES)]]
    return [*pieces[:at], "\n".join(lines), *pieces[at + 1 :]]


def seen(project: Project, paths: list[str]) -> dict[str, Any]:
    return {
        path: (project.check_file(path), project.workflows(path), project.ctx_calls(path)) for path in paths
    }


@settings(max_examples=150, deadline=None)
@given(texts=projects(), edits=EDITS, are_open=st.booleans())
def test_after_edits_of_any_file_the_findings_are_those_of_a_fresh_look(
    texts: Texts, edits: list[tuple[str, str, int, int]], are_open: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pyproject.toml").touch()
        for path, pieces in texts.items():
            (folder / path).write_text("".join(pieces))
        project = Project(folder, Config(select=("ALL",)))
        history: dict[str, list[list[str]]] = {path: [pieces] for path, pieces in texts.items()}
        for path, kind, where, what in [("flow.py", "shift", 0, 0), *edits]:
            before = history.setdefault(path, [[]])
            if kind == "undo" and len(before) > 1:
                pieces = before[-2]
            else:
                pieces = edited(path, before[-1], kind, where, what)
            before.append(pieces)
            (folder / path).write_text("".join(pieces))
            if path == "flow.py" or are_open:
                project.set_text(path, "".join(pieces))
            else:
                project.invalidate(path)
            fresh = Project(folder, Config(select=("ALL",)))
            paths = sorted(path.name for path in folder.glob("*.py"))
            assert seen(project, paths) == seen(fresh, paths)


def calls_of(action: Callable[[], object]) -> int:
    """How many functions are called meanwhile."""
    count = 0

    def seen_(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen_)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def test_an_edit_in_a_file_that_imports_others_is_looked_at_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text("".join(HELPERS))
    lines = "".join((*FLOW_HEADS[:2], *(HELPED.format(n=n) for n in range(60)))).split("\n")
    project = Project(tmp_path)
    project.set_text("flow.py", "\n".join(lines))
    opened = calls_of(lambda: project.check_file("flow.py"))
    lines[lines.index("    order = Order(30)")] += "  # as before"
    project.set_text("flow.py", "\n".join(lines))
    assert calls_of(lambda: project.check_file("flow.py")) < opened / 8
    (tmp_path / "helpers.py").write_text("".join(HELPERS) + "\nPROMPT = time.time()\n")
    project.invalidate("helpers.py")
    assert "RLV203" in {item.code for item in project.check_file("flow.py")}


def test_files_that_import_each_other_are_looked_at_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text("import flow\ndef stamp():\n    return flow.NOW\n")
    text = "import time\n" + FLOW_HEADS[1] + FLOW_HEADS[0].partition("\n")[2] + FLOW_BLOCKS[1]
    project = Project(tmp_path)
    for now in ("time.time()", "3", "time.time()"):
        project.set_text("flow.py", f"{text}NOW = {now}\n")
        codes = {item.code for item in project.check_file("flow.py")}
        assert codes == ({"RLV203"} if now != "3" else set())
