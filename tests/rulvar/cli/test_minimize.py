"""``rulvar export --minimize``: a field bug in a file that can be shown to others."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

FLOWS = """
    from rulvar import workflow

    @workflow
    async def ship(ctx, args):
        token = await ctx.step("token", lambda: "ghp_FAKEFAKEFAKEFAKE1234")
        note = await ctx.agent(f"note for {args['customer']} with {token}")
        raise ValueError(f"cannot ship to {args['customer']}: {note}")

    def hide(text):
        return text.replace("acme", "[customer]")
"""
CONFIG = """
    from rulvar import Engine
    from rulvar.testing import FakeAdapter

    def engine():
        return Engine(adapters=[FakeAdapter({"*": "acme is not ready"})], routing={"loop": "fake:m"})
"""


@pytest.fixture
def failed(project: Path, rulvar: Any) -> Path:
    """A project with a run that failed in the field."""
    (project / "flows.py").write_text(textwrap.dedent(FLOWS))
    (project / "rulvar_config.py").write_text(textwrap.dedent(CONFIG))
    done = rulvar("run", "flows:ship", "--arg", "customer=acme", "--run-id", "r1")
    assert done.code == 1, done.err
    return project


def test_the_small_file_replays_to_the_same_end(failed: Path, rulvar: Any) -> None:
    whole = rulvar("export", "r1", "-o", "whole.run.json", "--json").json
    done = rulvar("export", "r1", "flows:ship", "--minimize", "-o", "small.run.json", "--json")
    assert done.code == 0, done.err
    assert (done.json["entriesBefore"], done.json["status"]) == (whole["entries"], "error")
    assert done.json["entries"] < whole["entries"]
    assert [place["rule"] for place in done.json["masked"]] == ["github-token"]
    text = (failed / "small.run.json").read_text()
    assert "ghp_FAKE" not in text and "acme" in text
    replayed = rulvar("replay", "small.run.json", "flows:ship")
    assert "2 served from the journal" in replayed.out
    assert "cannot ship to acme: acme is not ready" in replayed.out


def test_the_projects_hook_and_blanks_leave_nothing_of_the_customer(failed: Path, rulvar: Any) -> None:
    done = rulvar("export", "r1", "flows:ship", "--minimize", "--redact", "flows:hide", "--blank")
    assert done.code == 0, done.err
    assert "3 of" not in done.err
    assert "masked: args.customer (custom)" in done.err
    assert "ends: error: cannot ship to [customer]" in done.err
    document = json.loads((failed / "r1.run.json").read_text())
    assert "acme" not in json.dumps(document["entries"])
    assert "cannot ship to [customer]: [REDACTED]" in rulvar("replay", "r1.run.json", "flows:ship").out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("r1", "--blank"), "--blank goes with --minimize"),
        (("r1", "flows:ship"), "WORKFLOW goes with --minimize"),
        (("r1", "--redact", "flows:hide"), "--redact goes with --minimize"),
        (("r2", "flows:ship", "--minimize"), "r2"),
        (("r1", "flows:nothing", "--minimize"), "nothing"),
        (("r1", "flows:ship", "--minimize", "--redact", "flows:nothing"), "--redact"),
        (("r1", "flows:ship", "--minimize", "--arg", "customer=other"), "args are not those"),
    ],
)
def test_what_cannot_be_minimized_is_refused(
    failed: Path, rulvar: Any, words: tuple[str, ...], named: str
) -> None:
    done = rulvar("export", *words)
    assert done.code == 2
    assert named in done.err
    assert "Traceback" not in done.err
    assert not (failed / "r1.run.json").exists()
