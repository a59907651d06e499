"""More scenarios of documents, and of what a person sees of a run that waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from rulvar import (
    App,
    DeclaredDocument,
    MachineCtx,
    StateMachine,
    ToolEnvelope,
    Widget,
    document,
    park_view,
    tool,
    transition,
)
from rulvar.hitl import AskUser, ConfirmUser
from rulvar.testing import failure, queue, run_workflow


@document
class InvoiceDocument(BaseModel):
    total: int


@document(widget=Widget("confirm-prompt", transition="go"))
class ModelPrompt(BaseModel):
    question: str
    answer: bool | None = None


@document(widget=Widget("confirm-prompt", transition="go"))
@dataclass
class DataPrompt:
    question: str
    answer: bool | None = None


def saving(*saves: Any) -> Any:
    """Return a machine that saves documents on its way to ``ask``, where it waits for ``go``."""

    class Saving(StateMachine):
        @transition(to="ask")
        def begin(self, ctx: MachineCtx) -> None:
            for save in saves:
                save(ctx)

        @transition(from_="ask", to="end", wait=True)
        def go(self, ctx: MachineCtx) -> None: ...

    return Saving


def in_app(machine: Any, *documents: type) -> list[App]:
    return [App("tests", machines=[machine], documents=documents)]


async def parked(machine: Any, *documents: type) -> Any:
    run = await run_workflow(machine, apps=in_app(machine, *documents))
    assert run.status == "waiting"
    return run.park_view()


async def test_the_name_of_a_document() -> None:
    machine = saving(lambda ctx: ctx.save(InvoiceDocument(total=3)))
    run = await run_workflow(machine)
    [saved] = run.documents
    assert (saved.name, saved.content, saved.key) == ("invoice", {"total": 3}, None)
    assert (saved.transition, saved.place) == ("begin", "ask")
    assert (run.document("invoice"), run.document("InvoiceDocument"), run.document("none")) == (
        {"total": 3},
        None,
        None,
    )


async def test_documents_without_a_key_stand_beside_each_other() -> None:
    machine = saving(*[lambda ctx, n=n: ctx.save(InvoiceDocument(total=n)) for n in (1, 2)])
    run = await run_workflow(machine)
    assert [item.content for item in run.documents] == [{"total": 1}, {"total": 2}]
    assert run.document("invoice") == {"total": 2}


async def test_a_key_replaces_where_the_older_stood() -> None:
    machine = saving(
        lambda ctx: ctx.save(InvoiceDocument(total=1), key="a"),
        lambda ctx: ctx.save(InvoiceDocument(total=2), key="b"),
        lambda ctx: ctx.save(InvoiceDocument(total=3), key="a"),
    )
    run = await run_workflow(machine)
    assert [(item.key, item.content["total"]) for item in run.documents] == [("a", 3), ("b", 2)]
    assert (run.document("a"), run.document("b"), run.document("invoice")) == (
        {"total": 3},
        {"total": 2},
        {"total": 2},
    )
    emitted = [event for event in run.trace if event.type == "document.emitted"]
    assert [event.invalidated_key for event in emitted] == [None, None, "a"]
    assert [event.key for event in emitted] == ["a", "b", "a"]


@pytest.mark.parametrize(("mode", "status"), [("strict", "failed"), ("safe", "waiting"), ("skip", "waiting")])
async def test_content_that_does_not_fit(mode: Any, status: str) -> None:
    machine = saving(lambda ctx: ctx.save(InvoiceDocument, {"total": "much"}, validate=mode))
    run = await run_workflow(machine)
    assert (run.status, run.document("invoice")) == (
        status,
        None if mode == "strict" else {"total": "much"},
    )
    if mode == "strict":
        assert run.error is not None
        for part in ("invoice", "strict", "total"):
            assert part in run.error.message


async def test_a_document_under_an_unknown_name_fails_the_transition() -> None:
    run = await run_workflow(saving(lambda ctx: ctx.save("nosuch", {"a": 1})))
    assert run.error is not None
    assert (run.status, "nosuch" in run.error.message) == ("failed", True)


@pytest.mark.parametrize("kind", [ModelPrompt, DataPrompt])
async def test_an_answer_that_nobody_gave_leaves_the_prompt_open(kind: Any) -> None:
    view = await parked(saving(lambda ctx: ctx.save(kind(question="Go on?"))), kind)
    assert (view.widget, view.document_name) == ("confirm-prompt", kind.__document__.name)
    assert (view.content["question"], view.default_transition) == ("Go on?", "go")


@pytest.mark.parametrize("kind", [ModelPrompt, DataPrompt])
@pytest.mark.parametrize("answer", [False, True])
async def test_an_answer_closes_the_prompt_also_when_it_is_no(kind: Any, answer: bool) -> None:
    view = await parked(saving(lambda ctx: ctx.save(kind(question="Go on?", answer=answer))), kind)
    assert (view.widget, view.document_name, view.transitions) == (None, None, ["go"])


async def test_the_first_prompt_that_is_open_is_shown() -> None:
    machine = saving(
        lambda ctx: ctx.save(ModelPrompt(question="first", answer=False)),
        lambda ctx: ctx.save(InvoiceDocument(total=1)),
        lambda ctx: ctx.save(ModelPrompt(question="second")),
        lambda ctx: ctx.save(ModelPrompt(question="third")),
    )
    view = await parked(machine, ModelPrompt, InvoiceDocument)
    assert view.content["question"] == "second"


@pytest.mark.parametrize("options", [{"hide_at": "ask"}, {"hide_at": ["x", "ask"]}, {"tags": ["internal"]}])
async def test_a_hidden_prompt_is_a_bare_wait(options: Any) -> None:
    view = await parked(saving(lambda ctx: ctx.save(ModelPrompt(question="?"), **options)), ModelPrompt)
    assert (view.widget, view.document_name, view.content) == (None, None, None)
    assert (view.place, view.transitions, view.default_transition) == ("ask", ["go"], "go")


async def test_a_prompt_hidden_elsewhere_is_shown_here() -> None:
    machine = saving(lambda ctx: ctx.save(ModelPrompt(question="?"), hide_at=["elsewhere"]))
    assert (await parked(machine, ModelPrompt)).widget == "confirm-prompt"


@pytest.mark.parametrize("widget", ["message", "llm-message", "ai-message", "markdown", "plain", "link"])
async def test_what_only_shows_never_asks(widget: str) -> None:
    @document(name="shown", widget=widget)
    class Shown(BaseModel):
        text: str

    view = await parked(saving(lambda ctx: ctx.save(Shown(text="Hi!"))), Shown)
    assert (view.widget, view.document_name, view.default_transition) == (None, None, "go")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"transition": "go"}, True),
        ({"transition": "leave"}, True),
        ({"transition": "elsewhere"}, False),
        ({}, False),
        ({"actions": [{"label": "Leave", "transition": "leave"}]}, True),
        ({"transition": "go", "show_when": ["ask"]}, True),
        ({"transition": "go", "show_when": ["later"]}, False),
        ({"transition": "go", "enabled_when": ["later"]}, False),
        ({"transition": "go", "enabled_when": ["later", "ask"]}, True),
    ],
)
async def test_a_widget_asks_where_it_can_be_answered(options: Any, shown: bool) -> None:
    @document(name="asked", widget="text-prompt")
    class Asked(BaseModel):
        question: str

    class Two(StateMachine):
        @transition(to="ask")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(Asked(question="?"), options=options)

        @transition(from_="ask", to="end", wait=True)
        def go(self, ctx: MachineCtx) -> None: ...

        @transition(from_="ask", to="end", wait=True)
        def leave(self, ctx: MachineCtx) -> None: ...

    view = await parked(Two, Asked)
    assert (view.widget == "text-prompt") is shown
    assert view.transitions == ["go", "leave"]
    if not shown:
        assert view.default_transition is None


async def test_a_forms_buttons_and_its_default() -> None:
    @document(
        name="form",
        widget=Widget(
            "form",
            actions=(
                {"label": "Later", "transition": "unavailable"},
                {"label": "Reject", "transition": "rejected"},
                {"label": "Approve", "transition": "approved"},
                {"transition": "approved"},
            ),
        ),
    )
    class Form(BaseModel):
        markdown: str

    class Approving(StateMachine):
        @transition(to="ask")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(Form(markdown="Approve?"))

        @transition(from_="ask", to="end", wait=True)
        def approved(self, ctx: MachineCtx) -> None: ...

        @transition(from_="ask", to="end", wait=True)
        def rejected(self, ctx: MachineCtx) -> None: ...

    view = await parked(Approving, Form)
    assert (view.widget, view.content) == ("form", {"markdown": "Approve?"})
    assert (view.transitions, view.default_transition) == (["approved", "rejected"], "rejected")
    assert view.actions == ["Reject", "Approve", "approved"]


async def test_a_prompt_of_an_earlier_place_is_over() -> None:
    class Moving(StateMachine):
        @transition(to="between")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(ModelPrompt(question="old"))

        @transition(from_="between", to="ask")
        def move(self, ctx: MachineCtx) -> None: ...

        @transition(from_="ask", to="end", wait=True)
        def go(self, ctx: MachineCtx) -> None: ...

    assert (await parked(Moving, ModelPrompt)).widget is None


async def test_the_root_asks_before_its_children_and_nearer_ones_before_deeper_ones() -> None:
    class Leaf(StateMachine):
        @transition(to="ask")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(ModelPrompt(question=ctx.args["question"]))

        @transition(from_="ask", to="end", wait=True)
        def go(self, ctx: MachineCtx) -> None: ...

    class Middle(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Leaf, {"question": "deep"}, on_done="done")

        @transition(from_="waiting", to="end", wait=True)
        def done(self, ctx: MachineCtx) -> None: ...

    class Root(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Middle, on_done="done")
            ctx.start(Leaf, {"question": "near"}, on_done="done")

        @transition(from_="waiting", to="end", wait=True)
        def done(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Root, apps=in_app(Root, ModelPrompt))
    view = run.park_view()
    assert view is not None
    assert (view.content["question"], view.workflow_name) == ("near", "leaf")
    assert view.workflow_id == run.children[1].run_id
    bare = (await run_workflow(Root)).park_view()
    assert bare is not None
    assert (bare.workflow_id, bare.transitions, bare.widget) == ("test-run", ["done"], None)


@pytest.mark.parametrize(
    ("mode", "widget", "shown"),
    [
        ("text", "text-prompt", "text"),
        ("options", "choices", "options"),
        ("confirm", "confirm-prompt", "confirm"),
    ],
)
async def test_the_three_questions(mode: str, widget: str, shown: str) -> None:
    args = {"question": "Which?", "mode": mode, "options": ["a", "b"]}
    run = await run_workflow(AskUser, args)
    view = run.park_view()
    assert view is not None
    assert (run.place, run.path) == ("waiting_for_user", ["start", f"show_question_{shown}"])
    assert (view.widget, view.content["question"]) == (widget, "Which?")
    assert run.document("question")["question"] == "Which?"
    answered = await run_workflow(AskUser, args, answers={"user_answered": {"answer": False}})
    assert (answered.status, answered.result) == ("completed", {"answer": False})
    assert answered.path[-1] == "user_answered"


@pytest.mark.parametrize(("name", "confirmed"), [("user_confirmed", True), ("user_denied", False)])
async def test_a_consent_is_given_or_not(name: str, confirmed: bool) -> None:
    run = await run_workflow(ConfirmUser, {"markdown": "**Pay?**"}, answers={name: None})
    assert (run.status, run.result) == ("completed", {"confirmed": confirmed, "markdown": "**Pay?**"})
    view = (await run_workflow(ConfirmUser, {"markdown": "**Pay?**"})).park_view()
    assert view is not None
    assert (view.widget, view.actions) == ("form", ["Deny", "Confirm"])
    assert view.transitions == ["user_denied", "user_confirmed"]
    assert view.default_transition == "user_denied"


def declaring(
    *declared: DeclaredDocument, error: str | None = None, documents: Any = (InvoiceDocument,)
) -> Any:
    @tool(documents=documents)
    def bill() -> ToolEnvelope:
        return ToolEnvelope(data=None if error else "ok", error=error, documents=declared)

    class Billing(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["told"] = await ctx.call_tool(bill)

    return Billing


async def test_a_tools_documents_are_saved_before_the_call_is_over() -> None:
    machine = declaring(
        DeclaredDocument("invoice", {"total": 1}, {"key": "k"}), DeclaredDocument("invoice", {"total": 2})
    )
    run = await run_workflow(machine)
    assert run.result == {"told": "ok"}
    assert [(item.key, item.content) for item in run.documents] == [("k", {"total": 1}), (None, {"total": 2})]
    assert [event.type for event in run.trace] == [
        "transition.started",
        "tool.called",
        "document.emitted",
        "document.emitted",
        "tool.completed",
        "transition.completed",
        "run.settled",
    ]


async def test_an_error_envelope_saves_no_documents() -> None:
    run = await run_workflow(declaring(DeclaredDocument("invoice", {"total": 1}), error="it broke"))
    assert run.error is not None
    assert (run.status, run.document("invoice"), "it broke" in run.error.message) == ("failed", None, True)


@pytest.mark.parametrize(
    ("declared", "parts"),
    [
        (DeclaredDocument("nosuch", {"a": 1}), ("nosuch", "bill")),
        (DeclaredDocument("invoice", {"total": "x"}), ("invoice", "bill", "total")),
    ],
)
async def test_a_document_that_cannot_be_saved_fails_the_call(declared: Any, parts: Any) -> None:
    run = await run_workflow(declaring(declared))
    assert (run.status, len(run.documents)) == ("failed", 1)
    assert run.document("error") is not None
    assert run.error is not None
    for part in parts:
        assert part in run.error.message
    assert [event.type for event in run.tool_calls] == ["tool.failed"]


async def test_documents_of_a_replayed_tool_that_stands_under_another() -> None:
    @tool(documents=[InvoiceDocument])
    def plain() -> str:
        return "live"

    class Plain(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["told"] = await ctx.call_tool(plain)

    envelope = {"data": "replayed", "documents": [{"documentName": "invoice", "content": {"total": 9}}]}
    run = await run_workflow(
        Plain, replay={"version": 3, "recordings": [{"tool": "plain", "envelope": envelope}]}
    )
    assert (run.result, run.document("invoice")) == ({"told": "replayed"}, {"total": 9})


async def test_a_prompt_per_turn_of_a_conversation() -> None:
    class Talk(StateMachine):
        @transition(to="asking")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["n"] = 0
            ctx.save(ModelPrompt(question="turn 0"), key="prompt", options={"transition": "say"})

        @transition(from_="asking", to="asking", wait=True)
        def say(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["n"] += 1
            n = ctx.state["n"]
            ctx.save(ModelPrompt(question=f"turn {n}"), key="prompt", options={"transition": "say"})

    run = await run_workflow(Talk, answers={"say": queue("a", "b")}, apps=in_app(Talk, ModelPrompt))
    view = run.park_view()
    assert view is not None
    assert (view.content["question"], len(run.documents)) == ("turn 2", 1)


@document(widget=Widget("confirm-prompt", transition="recover"), enable_at=["recovery"])
class RecoveryQuestion(BaseModel):
    question: str
    answer: bool | None = None


@document(widget=Widget("text-prompt", transition="proceed"), hide_at=["ask"])
class HiddenQuestion(BaseModel):
    question: str


@pytest.mark.parametrize("waits", [False, True])
async def test_a_prompt_that_is_enabled_at_the_error_place_asks_there(waits: bool) -> None:
    class Recovering(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(RecoveryQuestion(question="Retry the child?"))

        @transition(from_="waiting", to="end", wait=True, error_place="recovery")
        def on_child(self, ctx: MachineCtx, input: Any) -> None: ...

        @transition(from_="recovery", to="end", wait=waits)
        def recover(self, ctx: MachineCtx) -> None:
            ctx.result["recovered"] = True

    apps = in_app(Recovering, RecoveryQuestion)
    waiting = (await run_workflow(Recovering, apps=apps)).park_view()
    assert waiting is not None
    assert (waiting.widget, waiting.transitions) == (None, ["on_child"])
    run = await run_workflow(Recovering, apps=apps, answers={"on_child": failure("child died")})
    view = run.park_view()
    assert view is not None
    assert (run.status, run.place, view.status, view.place) == ("failed", "recovery", "failed", "recovery")
    assert (view.widget, view.document_name) == ("confirm-prompt", "recovery_question")
    assert view.content["question"] == "Retry the child?"
    assert (view.transitions, view.default_transition) == (["recover"], "recover")
    recovered = await run.answer("recover")
    assert (recovered.status, recovered.result, recovered.park_view()) == (
        "completed",
        {"recovered": True},
        None,
    )


async def test_a_class_hides_its_documents_where_it_says() -> None:
    class Hiding(StateMachine):
        @transition(to="ask")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.save(HiddenQuestion(question="You should not see this."))

        @transition(from_="ask", to="end", wait=True)
        def proceed(self, ctx: MachineCtx) -> None: ...

    view = await parked(Hiding, HiddenQuestion)
    assert (view.place, view.transitions, view.default_transition) == ("ask", ["proceed"], "proceed")
    assert (view.widget, view.document_name) == (None, None)


async def test_a_failed_child_is_nobodys_prompt_and_its_parent_is() -> None:
    class Child(StateMachine):
        @transition(to="end", error_place="broken")
        def work(self, ctx: MachineCtx) -> None:
            raise ValueError("x")

        @transition(from_="broken", to="end", wait=True)
        def repair(self, ctx: MachineCtx) -> None: ...

    class Parent(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Child, on_done="done")

        @transition(from_="waiting", to="decide", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["told"] = input.status

        @transition(from_="decide", to="end", wait=True)
        def go_on(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Parent)
    view = run.park_view()
    assert view is not None
    assert (run.state["told"], run.children[0].status) == ("failed", "failed")
    assert (view.workflow_id, view.transitions) == (run.run_id, ["go_on"])


async def test_a_tree_may_be_asked_what_a_person_would_see() -> None:
    run = await run_workflow(saving(lambda ctx: ctx.save(ModelPrompt(question="Go on?"))))
    bare = park_view(run.view)
    assert bare is not None
    assert (bare.widget, bare.transitions) == (None, ["go"])
    view = park_view(run.view, [App("tests", documents=[ModelPrompt])])
    assert view is not None
    assert (view.widget, view.content["question"]) == ("confirm-prompt", "Go on?")
    asked = park_view((await run_workflow(AskUser, {"question": "Which?"})).view)
    assert asked is not None
    assert asked.widget == "text-prompt"
