"""No text from a journal, a prompt, a name or a file reaches a terminal as a control sequence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EVIL = {
    "esc": "\x1b[2J\x1b[H",
    "osc8": "\x1b]8;;http://evil\x07click\x1b]8;;\x07",
    "title": "\x1b]0;owned\x07",
    "c1": "\x9b31m\x90",
    "bidi": "\u202egnp.exe\u2066x",
    "return": "good\rbad\b\b\b",
    "line": "one\u2028two",
}
OWN = re.compile(r"\x1b\[(?:[0-9;]*m|2K)|\r")
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
FLOW = """
import json
from pathlib import Path
from rulvar import workflow

EVIL = json.loads(Path("evil.json").read_text())

@workflow(name="evil " + "".join(EVIL.values()))
async def evil(ctx, args):
    text = "".join(EVIL.values())
    ctx.log("info", text, {text: text})
    async with ctx.phase(text):
        await ctx.step("s", lambda: {text: [text]})
    try:
        await ctx.step("f", fail)
    except ValueError:
        pass
    await ctx.await_external(text, prompt=text + "\\n" + text, schema={"type": "object", "title": text})

def fail():
    raise ValueError("".join(EVIL.values()))

@workflow
async def fails(ctx, args):
    raise ValueError("".join(EVIL.values()))
"""


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory, run_in: Any) -> Path:
    """A project whose runs hold nothing but text that means harm."""
    folder = tmp_path_factory.mktemp("evil")
    (folder / "evil.json").write_text(json.dumps(EVIL))
    (folder / "evil.py").write_text(FLOW)
    name = "".join(EVIL.values())
    done = run_in(folder, "run", "evil.py:evil", "--run-id", "r1", "--name", name, "--tag", name)
    assert done.code == 3, done.err
    assert_safe(done.out + done.err)
    run_in(folder, "run", "evil.py:fails", "--run-id", "r2")
    return folder


def assert_safe(text: str, *, on_terminal: bool = False) -> None:
    shown = OWN.sub("", text) if on_terminal else text
    found = FORBIDDEN.search(shown.replace("\n", ""))
    assert found is None, (found, shown[max(found.start() - 40, 0) : found.end() + 40])


VERBS = {
    "ls": ["runs", "ls"],
    "audit": ["runs", "audit"],
    "inspect": ["inspect", "r1"],
    "inspect entries": ["inspect", "r1", "--entries"],
    "inspect entry": ["inspect", "r1", "--seq", "1"],
    "answer": ["answer", "r1"],
    "a refused answer": ["answer", "r1", "\x1b[31mkey", "\x1b[31mvalue"],
    "a failed run": ["run", "evil.py:fails"],
    "replay": ["replay", "r1", "evil.py:evil"],
    "diff": ["diff", "r1", "r2"],
    "unknown verb": ["\x1b[2Jnope"],
    "unknown run": ["inspect", "\x1b[2Jnope"],
    "unknown file": ["import", "\x1b[2Jnope.json"],
    "unknown option": ["runs", "ls", "--\x1b[2J"],
    "unknown workflow": ["run", "\x1b[2J.py:x"],
}


@pytest.mark.parametrize("words", VERBS.values(), ids=list(VERBS))
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_in_a_pipe(evil: Path, run_in: Any, words: list[str], as_json: bool) -> None:
    done = run_in(evil, *words, *(["--json"] if as_json else []))
    assert_safe(done.out + done.err)
    if as_json:
        json.loads(done.out)


@pytest.mark.parametrize("name", ["ls", "inspect", "answer", "replay", "unknown run"])
def test_on_a_terminal(evil: Path, person: Callable[..., Any], name: str) -> None:
    one = person(*VERBS[name], cwd=evil)
    one.wait()
    assert len(one.seen) > 20
    assert_safe(one.seen, on_terminal=True)


def test_while_a_run_is_under_way_and_asks(evil: Path, person: Callable[..., Any]) -> None:
    one = person("run", "evil.py:evil", "--run-id", "r3", cwd=evil)
    one.expect("Ctrl-D: leave all open")
    one.expect("> ")
    one.type("\x04")
    assert one.wait() == 3
    assert_safe(one.seen, on_terminal=True)


def test_a_file_name_is_foreign_text_too(look: Any, project: Path) -> None:
    folder = project / "\x1b[31mstore"
    folder.mkdir()
    (folder / "r1.jsonl").write_text("{broken\n{}\n")
    done = look("runs", "audit", "--store", folder)
    assert done.code == 1
    assert_safe(done.out + done.err)
    assert "\\x1b[31mstore" in done.out


MACHINE = """
import json
from dataclasses import dataclass
from pathlib import Path
from rulvar import Input, MachineCtx, StateMachine, document, transition, workflow

TEXT = "".join(json.loads(Path("evil.json").read_text()).values())

@document
@dataclass
class Question:
    question: str
    choices: list[str]

class Asks(StateMachine):
    @transition(to="asking")
    def begin(self, ctx: MachineCtx):
        ctx.save(Question(TEXT + "\\n" + TEXT, [TEXT]))

    @transition(from_="asking", to="end", wait=True)
    def left(self, ctx: MachineCtx, input: Input): ...

    @transition(from_="asking", to="end", wait=True)
    def right(self, ctx: MachineCtx, input: Input): ...

@workflow(name=TEXT)
async def needs(ctx, args):
    return args["\\x1b[31mone"]
"""


def test_what_a_machine_asks_and_what_a_body_needs_is_foreign_text_too(
    evil: Path, run_in: Any, person: Callable[..., Any]
) -> None:
    (evil / "asks.py").write_text(MACHINE)
    told = run_in(evil, "run", "asks.py:Asks", "--run-id", "m1")
    assert told.code == 3, told.err
    assert "choices: " in told.out
    for words in (["answer", "m1"], ["inspect", "m1"], ["runs", "m1"], ["run", "asks.py:needs"], ["resume"]):
        done = run_in(evil, *words)
        assert_safe(done.out + done.err)
    one = person("resume", "m1", "asks.py:Asks", cwd=evil)
    one.expect("Ctrl-D: leave all open")
    one.type("up\n")
    one.expect("is none of them")
    one.type("left\n")
    assert one.wait() == 0
    assert_safe(one.plain, on_terminal=True)
