"""What a person would see of a run that waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rulvar import App, Ctx, Input, MachineCtx, StateMachine, Widget, document, transition, workflow
from rulvar.errors import ConfigError
from rulvar.hitl import AskUser
from rulvar.machines.report import describe_run
from rulvar.testing import run_workflow


def prompt(**options: Any) -> Any:
    @document(name="prompt", **options)
    @dataclass
    class Prompt:
        text: str = "?"

    return Prompt


async def view_of(kind: Any, content: Any = None, *, waits: Any = ("go",), **saving: Any) -> Any:
    """Park a machine that saved one document, and return what is seen."""

    def begin(self: Any, ctx: MachineCtx) -> None:
        ctx.save(kind, content or {"text": "?"}, validate="skip", **saving)

    def way() -> Any:
        def go(self: Any, ctx: MachineCtx) -> None: ...

        return transition("end", "park", wait=True)(go)

    members = {"begin": transition("park")(begin), **{name: way() for name in waits}}
    machine = type("Parking", (StateMachine,), members)
    return (await run_workflow(machine, apps=[App("a", machines=[machine], documents=[kind])])).park_view()


async def test_one_available_transition_answers_a_widget_that_names_none() -> None:
    view = await view_of(prompt(widget="text-prompt"))
    assert (view.widget, view.document_name, view.default_transition) == ("text-prompt", "prompt", "go")
    bare = await view_of(prompt(widget="text-prompt"), waits=("go", "stay"))
    assert (bare.widget, bare.transitions, bare.default_transition) == (None, ["go", "stay"], None)


@pytest.mark.parametrize(
    ("declared", "saving"),
    [
        ({"hide_at": "park"}, {}),
        ({"internal": True}, {}),
        ({"tags": ["internal"]}, {}),
        ({}, {"hide_at": ["park"]}),
        ({}, {"options": {"show_when": ["elsewhere"]}}),
        ({}, {"options": {"enabled_when": ["elsewhere"]}}),
        ({}, {"options": {"transition": "elsewhere"}}),
        ({"widget": "markdown"}, {}),
        ({"widget": None}, {}),
    ],
)
async def test_what_cannot_be_answered_is_no_prompt(declared: dict[str, Any], saving: dict[str, Any]) -> None:
    view = await view_of(prompt(**{"widget": "text-prompt", **declared}), **saving)
    assert (view.widget, view.transitions) == (None, ["go"])


@pytest.mark.parametrize("answer", [False, "", None, 0, "yes"])
async def test_an_answer_counts_when_it_is_there(answer: Any) -> None:
    view = await view_of(prompt(widget="text-prompt"), {"text": "?", "answer": answer})
    assert view.widget is None


async def test_a_form_shows_the_actions_that_can_be_taken() -> None:
    actions = (
        {"label": "Go", "transition": "go"},
        {"label": "Leave", "transition": "leave"},
        {"label": "Copy"},
    )
    view = await view_of(prompt(widget=Widget("form", actions=actions, options={"title": "T"})))
    assert (view.actions, view.default_transition) == (["Go", "Copy"], "go")
    assert view.options == {"title": "T"}


async def test_a_document_of_another_place_asks_nothing_unless_it_is_enabled_there() -> None:
    kind = prompt(widget=Widget("text-prompt", transition="go"))

    class Moving(StateMachine):
        @transition("between")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(kind("old"), key="q")

        @transition("park", "between")
        def move(self, ctx: MachineCtx) -> None: ...

        @transition("end", "park", wait=True, payload={"type": "string"})
        def go(self, ctx: MachineCtx, input: Input) -> None: ...

    class Enabled(Moving):
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(prompt(widget=Widget("text-prompt", transition="go"))("old"), enable_at="park")

    app = App("a", documents=[kind])
    bare = (await run_workflow(Moving, apps=[app])).park_view()
    assert bare is not None
    assert (bare.widget, bare.schema) == (None, {"type": "string"})
    seen = (await run_workflow(Enabled, apps=[app])).park_view()
    assert seen is not None
    assert (seen.widget, seen.schema) == ("text-prompt", {"type": "string"})
    assert seen.to_wire()["workflowId"] == "test-run"


async def test_a_widget_may_sit_on_the_machine_and_documents_come_first() -> None:
    class Widgeted(StateMachine, widget=Widget("form", transition="go")):
        @transition("park")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition("end", "park", wait=True)
        def go(self, ctx: MachineCtx) -> None: ...

    view = (await run_workflow(Widgeted, apps=[App("a", machines=[Widgeted])])).park_view()
    assert view is not None
    assert (view.widget, view.document_name, view.default_transition) == ("form", None, "go")


async def test_a_prompt_of_a_child_comes_before_a_bare_wait_of_the_root() -> None:
    class Parent(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(AskUser, {"question": "?"}, on_done="done")

        @transition("end", "waiting", wait=True)
        def done(self, ctx: MachineCtx, input: Input) -> None: ...

    run = await run_workflow(Parent)
    view = run.park_view()
    assert view is not None
    assert (view.workflow_name, view.widget) == ("ask_user", "text-prompt")
    assert run.park_view() is view
    lines = describe_run(run.view)
    assert lines[0] == "parent waiting at waiting"
    assert "  waits for done  (waiting#0/done)" in lines
    assert any(line.strip() == "ask_user waiting at waiting_for_user" for line in lines)
    assert lines[-1].startswith("asks: text-prompt ask_user_text")


@pytest.mark.parametrize(
    ("mode", "status", "said"),
    [
        ("strict", "failed", "document 'prompt' (strict)"),
        ("safe", "completed", None),
        ("skip", "completed", None),
    ],
)
async def test_content_that_does_not_fit(mode: Any, status: str, said: str | None) -> None:
    kind = prompt()

    class Saving(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(kind, {"text": 7}, validate=mode)

    run = await run_workflow(Saving)
    assert run.status == status
    if said is not None:
        assert run.error is not None
        assert said in run.error.message
        assert "text" in run.error.message


async def test_a_newer_document_of_a_key_takes_the_place_of_the_older_one() -> None:
    kind = prompt()

    class Saving(StateMachine):
        @transition("x")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(kind("one"), key="k")
            ctx.save(kind("two"))

        @transition("end", "x")
        def again(self, ctx: MachineCtx) -> None:
            assert ctx.documents.find("k")["text"] == "one"
            ctx.save(kind("three"), key="k")
            assert ctx.documents.find("k")["text"] == "three"
            assert ctx.documents.find("nothing") is None

    run = await run_workflow(Saving)
    assert run.exception is None
    assert [item.content["text"] for item in run.documents] == ["three", "two"]
    assert run.document("k")["text"] == "three"
    emitted = [event.get("invalidatedKey") for event in run.trace if event.type == "document.emitted"]
    assert emitted == [None, None, "k"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: document(name="x", widget=7)(dict), "widget"),
        (lambda: document(widget=["a", "b"])(type("D", (), {})), "one widget"),
        (lambda: document(hide_at=[1])(prompt()), "hide_at"),
        (lambda: document("not a class"), "expected a class"),
    ],
)
def test_wrong_documents_are_named(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


async def test_saving_what_is_no_document_is_refused() -> None:
    class Saving(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            for wrong, said in (
                ({"a": 1}, "made by @document"),
                ("nothing", "no document is named 'nothing'"),
            ):
                with pytest.raises(ConfigError, match=said):
                    ctx.save(wrong)
            with pytest.raises(ConfigError, match="validate='sometimes'"):
                ctx.save(prompt()(), validate="sometimes")  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match="key=''"):
                ctx.save(prompt()(), key="")

    assert (await run_workflow(Saving)).exception is None


async def test_a_wait_of_a_plain_workflow_is_a_bare_prompt() -> None:
    @workflow(name="gated")
    async def gated(ctx: Ctx, args: None) -> Any:
        return await ctx.await_external("gate", schema={"type": "boolean"}, prompt="Open?")

    view = (await run_workflow(gated)).park_view()
    assert view is not None
    assert (view.widget, view.content, view.key) == (None, "Open?", "gate")
    assert (view.transitions, view.default_transition) == (["gate"], "gate")
    assert view.schema == {"type": "boolean"}


@pytest.mark.parametrize("hide_at", [3, [""], [None]])
async def test_places_that_are_none_are_told(hide_at: Any) -> None:
    class Saving(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(prompt(), {"text": "?"}, hide_at=hide_at)

    run = await run_workflow(Saving)
    assert run.error is not None
    assert "ctx.save hide_at=" in run.error.message


async def test_a_body_sees_a_newer_document_of_a_key_where_readers_will_see_it() -> None:
    kind = prompt()

    class Twice(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            for text, key in (("first", "k"), ("second", None), ("third", "k")):
                ctx.save(kind, {"text": text}, key=key)
            ctx.state.update(seen=[item.content["text"] for item in ctx.documents])
            ctx.state.update(latest=ctx.documents.find("prompt"), keyed=ctx.documents.find("k"))

    run = await run_workflow(Twice)
    assert run.state["seen"] == [item.content["text"] for item in run.documents] == ["third", "second"]
    assert (run.state["latest"], run.state["keyed"]) == (run.document("prompt"), run.document("k"))
