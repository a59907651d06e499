"""A file that is edited again and again has, after each edit, what a fresh look at it finds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulvar_lint import Config, Project

HEAD = """from __future__ import annotations
import os, random
import time
from datetime import datetime
from typing import TYPE_CHECKING

from rulvar import Ctx, workflow
"""
BLOCKS = [
    """
def score(value: int, weights: dict = {}) -> int:
    weights["a"] = value
    return value + len(weights)
""",
    '''
@workflow(name="one")
async def one(ctx: Ctx, args: dict) -> dict:
    """As score says — 😋 caf\u00e9."""
    started = time.time()
    text = f"caf\u00e9 😋 {started}"
    first = await ctx.agent(text, label="one")
    again = await ctx.agent("same")
    more = await ctx.agent("same")
    return {"first": first, "again": again, "more": more}
''',
    """
@workflow
async def two(ctx: Ctx, args: dict) -> dict:
    for item in {"a", "b"}:
        part = await ctx.step("load", lambda: score(3))
        CACHE.append(part)
    return {"n": random.random(), "os": os.environ["A"], "when": stamp(), "cache": len(CACHE)}
""",
    """
CACHE = []
LIMIT = 3
""",
    """
def stamp(now=datetime.now()):
    return datetime.now().isoformat()
""",
    """
class Order:
    total: int = 0
    seen = []

    def update(self, value):
        self.total = value
        self.seen.append(value)
        return LIMIT + self.total
""",
    """
class Other:
    def update(self):
        self.total = time.time()
        return self.total
""",
    """
@workflow
async def three(ctx: Ctx, order: Order) -> dict:
    order.update(2)
    # line 3 of a comment
    await ctx.step("a", lambda: None)
    return {"total": order.total, "line 4": Other().update()}
""",
    """
def register():
    @workflow
    async def inner(ctx, args):
        return time.monotonic() + LIMIT
    return inner
""",
    """
# rulvar: deterministic
def trusted():
    return time.time()

@workflow  # noqa: RLV401
async def four(ctx: Ctx, args: dict):
    text = '''a
    ''' + str(time.time())  # rulvar: ignore[RLV101] on all of it
    await ctx.agent(text)  # rulvar: ignore
    return trusted(), random.random()  # rulvar: ignore[RLV102, RLV103]
""",
    """
if TYPE_CHECKING:
    from decimal import Decimal
""",
    """
UTC = datetime.utcnow
if time.time():
    LIMIT = 4
""",
    """
async def helper(ctx: Ctx, order: "Order", handler=two) -> "Decimal":
    x = 'a text \\
that goes on'; await ctx.await_external(f"k-{order.total}")
    return await handler(ctx, {})
""",
    """
if __name__ == "__main__":
    print(one, score(1))
""",
]
LINES = [
    *("", "# note", "    pass", "    return time.time()", "    x = random.random()", "x = (", '"""', "    "),
    *("import time as clock", "from datetime import UTC", "from os import *", "time = None", "LIMIT = 5"),
    *("    global LIMIT", "    LIMIT = 9", "def score(v): return time.time()", "    await ctx.agent('same')"),
    *("    CACHE.clear()", "@workflow", "😋 = 1", "    y = '😋'; z = time.time()", "else:", "\tpass", "x \\"),
    *("    a = time.time()  # rulvar: ignore[RLV101]", "# rulvar: deterministic", "class Order: pass"),
    *("# rulvar: ignore-file[RLV102]", "    b = os.environ['B']  # rulvar: ignore", "# rulvar: ignore-fil"),
    *(
        "    import datetime",
        "    order.total = 3",
        "    yield 1",
        "from elsewhere import two",
        "    # line 5",
    ),
]
Edit = tuple[str, int, int, int]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["line", "drop", "replace", "block", "move", "undo"]),
        st.integers(0, 200),
        st.integers(0, 200),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


def edited(lines: Sequence[str], edit: Edit) -> list[str]:
    kind, where, what, size = edit
    at = where % (len(lines) + 1)
    rest = list(lines[at + size :])
    if kind == "line":
        return [*lines[:at], LINES[what % len(LINES)], *lines[at:]]
    if kind == "drop":
        return [*lines[:at], *rest]
    if kind == "replace":
        return [*lines[:at], LINES[what % len(LINES)], *rest]
    if kind == "block":
        return [*lines[:at], *BLOCKS[what % len(BLOCKS)].split("\n"), *lines[at:]]
    to = what % (len(rest) + 1)
    return [*lines[:at], *rest[:to], *lines[at : at + size], *rest[to:]]


def seen(project: Project) -> tuple[Any, ...]:
    found = project.check_file("flow.py")
    return found, project.workflows("flow.py"), project.ctx_calls("flow.py")


def fresh(folder: Path, text: str) -> tuple[Any, ...]:
    """What is found in the file on disk, which is always analysed as a whole."""
    (folder / "flow.py").write_bytes(text.encode())
    return seen(Project(folder, Config(select=("ALL",))))


@settings(max_examples=120, deadline=None)
@given(
    blocks=st.lists(st.sampled_from(BLOCKS), min_size=2, max_size=9, unique=True),
    edits=EDITS,
    end=st.sampled_from(["\n", "\n", "\r\n"]),
)
def test_after_each_edit_the_findings_are_those_of_a_fresh_look(
    blocks: list[str], edits: list[Edit], end: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pyproject.toml").touch()
        project = Project(folder, Config(select=("ALL",)))
        lines = (HEAD + "".join(blocks)).split("\n")
        history = [lines]
        for edit in [("line", 0, 0, 0), *edits]:
            lines = history[-2] if edit[0] == "undo" and len(history) > 1 else edited(lines, edit)
            history.append(lines)
            text = end.join(lines)
            project.set_text("flow.py", text)
            assert seen(project) == fresh(folder, text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def test_a_finding_that_moves_takes_its_lines_along(folder: Path) -> None:
    text = HEAD + BLOCKS[1] + BLOCKS[4]
    project = Project(folder)
    project.set_text("flow.py", text)
    before = seen(project)
    moved = text.replace("\nfrom rulvar", "\n\n\nfrom rulvar").replace("import time\n", "import time\n\n")
    project.set_text("flow.py", moved)
    after = seen(project)
    assert [item.line - was.line for item, was in zip(after[0], before[0], strict=True)] == [3] * len(
        before[0]
    )
    assert after == fresh(folder, moved)
    assert any("line 1" in item.message for item in after[0])


def test_fixes_follow_the_line_endings_of_the_file(folder: Path) -> None:
    text = HEAD + BLOCKS[1] + BLOCKS[2] + BLOCKS[3] + BLOCKS[4]
    project = Project(folder)
    for now in (text, text.replace("\n", "\r\n", 1), text.replace("\n", "\r\n")):
        project.set_text("flow.py", now)
        assert seen(project) == fresh(folder, now)


def test_a_file_that_an_editor_lets_go_of_is_looked_at_on_disk(folder: Path) -> None:
    project = Project(folder)
    on_disk = fresh(folder, HEAD + BLOCKS[1] + BLOCKS[4])
    project.set_text("flow.py", HEAD + BLOCKS[4] + BLOCKS[1] + BLOCKS[6])
    assert seen(project) != on_disk
    project.set_text("flow.py", None)
    assert seen(project) == on_disk


def test_a_module_that_others_import_sees_what_they_do(folder: Path) -> None:
    text = HEAD + BLOCKS[2] + BLOCKS[3] + BLOCKS[0] + BLOCKS[4] + BLOCKS[8]
    project = Project(folder)
    project.set_text("flow.py", text)
    assert seen(project) == fresh(folder, text)
    for other in ("from flow import CACHE\n", "import flow\ndef f():\n    flow.LIMIT = 2\n", ""):
        (folder / "other.py").write_text(other)
        project.invalidate("other.py")
        assert seen(project) == fresh(folder, text)
        text += "\n# more\n"
        project.set_text("flow.py", text)
        assert seen(project) == fresh(folder, text)
