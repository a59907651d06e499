"""`rulvar-lint identity-diff`: what a change costs the workflows that are running."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BEFORE = """from rulvar import Ctx, workflow


@workflow
async def triage(ctx: Ctx, args: dict):
    summary = await ctx.agent(f"Summarise {args['text']}", model="small")
    saved = await ctx.step("save", lambda: summary, deps=[summary])
    for item in args["items"]:
        await ctx.agent(f"Label {item}", key=f"label-{item}")
    return saved
"""


def git(root: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=m")
    subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(BEFORE)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "before")
    return tmp_path


def run(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "rulvar_lint", "identity-diff", *args],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def changes(root: Path, text: str, *args: str) -> list[tuple[str, int, int]]:
    """(kind, line before, line after) of what a new text of the file changes."""
    (root / "flow.py").write_text(text)
    data = json.loads(run(root, "HEAD..", "--output-format", "json", *args).stdout)
    return [
        (item["kind"], *((item[side] or {"line": 0})["line"] for side in ("before", "after")))
        for item in data["changes"]
    ]


def test_nothing_changes_when_only_labels_comments_and_order_do(root: Path) -> None:
    text = BEFORE.replace('model="small")', "model='small', label=\"x\")  # note").replace(
        "    return saved", "    ctx.log('info', 'x')\n    return saved"
    )
    assert changes(root, text) == []
    done = run(root, "HEAD..")
    assert (done.returncode, done.stdout) == (
        0,
        "0 re-keyed, 0 added, 0 removed, 3 unchanged.\n",
    )


def test_a_reworded_prompt_re_keys_its_call_and_what_depends_on_its_result(root: Path) -> None:
    text = BEFORE.replace("Summarise", "Summarize")
    assert changes(root, text) == [("re-keyed", 6, 6), ("re-keyed", 7, 7)]
    done = run(root, "HEAD..")
    assert done.returncode == 1
    assert "flow.py: triage" in done.stdout
    assert "A workflow that is running now would make 2 calls live." in done.stdout


def test_a_key_keeps_a_reworded_prompt_in_place(root: Path) -> None:
    assert changes(root, BEFORE.replace("Label {item}", "Tag {item}")) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('model="small"', 'model="large"', [("re-keyed", 6, 6), ("re-keyed", 7, 7)]),
        ('"save"', '"store"', [("re-keyed", 7, 7)]),
        ("deps=[summary]", "deps=[summary, args]", [("re-keyed", 7, 7)]),
        ("label-{item}", "tag-{item}", [("re-keyed", 9, 9)]),
        (
            "    return saved",
            '    await ctx.await_external("ok")\n    return saved',
            [("added", 0, 10)],
        ),
        ('    saved = await ctx.step("save", lambda: summary, deps=[summary])\n', "    saved = 1\n",
         [("removed", 7, 0)]),
    ],
)  # fmt: skip
def test_what_identifies_a_call_counts(root: Path, old: str, new: str, expected: list[Any]) -> None:
    assert old in BEFORE
    assert changes(root, BEFORE.replace(old, new)) == expected


def test_a_moved_function_keeps_its_calls(root: Path) -> None:
    (root / "moved.py").write_text(BEFORE)
    assert changes(root, "x = 1\n") == []


def test_two_revisions_are_compared_without_the_working_tree(root: Path) -> None:
    (root / "flow.py").write_text(BEFORE.replace("Summarise", "Summarize"))
    git(root, "commit", "-qam", "after")
    (root / "flow.py").write_text("def (\n")
    done = run(root, "HEAD~1..HEAD", "--exit-zero")
    assert "2 re-keyed, 0 added, 0 removed, 1 unchanged." in done.stdout
    assert done.returncode == 0
    assert run(root, "HEAD..HEAD").stdout == "0 re-keyed, 0 added, 0 removed, 3 unchanged.\n"


def test_paths_choose_what_is_shown(root: Path) -> None:
    assert run(root, "HEAD..", "flow.py", "--exit-zero", "more.py").returncode == 0
    assert changes(root, BEFORE.replace("Summarise", "Summarize"), "other") == []


@pytest.mark.parametrize("revisions", ["nowhere..HEAD", "HEAD", "..HEAD"])
def test_a_wrong_revision_is_one_message(root: Path, revisions: str) -> None:
    done = run(root, revisions)
    assert done.returncode == 2
    assert done.stderr.startswith("rulvar-lint: ")
    assert len(done.stderr.splitlines()) <= 2


def test_outside_a_repository_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "HEAD..")
    assert done.returncode == 2
    assert "git" in done.stderr
