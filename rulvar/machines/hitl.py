"""Asking people: machines that ask, and tools that leave their result to what a person answers.

A machine starts ``AskUser`` or ``ConfirmUser`` as a child and takes the answer as the child's result. A
model (or any workflow) calls the tools, which start the same children and end when these do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rulvar.contracts.envelope import ToolEnvelope
from rulvar.errors import RulvarError
from rulvar.machines.answer import Input
from rulvar.machines.app import App
from rulvar.machines.context import MachineCtx
from rulvar.machines.definition import transition
from rulvar.machines.document import Widget, document
from rulvar.machines.machine import StateMachine
from rulvar.tools.pending import ChildOutcome, from_child
from rulvar.tools.tool import tool

__all__ = [
    "HITL",
    "AskUser",
    "ConfirmUser",
    "ExploreTask",
    "RequestSecrets",
    "ask_clarification",
    "ask_for_approval",
    "explore_task",
    "request_secrets",
]

_ANSWER: dict[str, Any] = {"type": "object", "required": ["answer"], "properties": {"answer": {}}}


def _need_answer(input: Input) -> None:
    """Fail when nobody answered: a question that was given up is no consent."""
    if input.has_error:
        raise RulvarError(input.message or f"the question was {input.status}")


@dataclass(frozen=True, slots=True)
class Question:
    """What ``AskUser`` is started with.

    Attributes:
        question: what the person reads.
        mode: ``text`` takes a text, ``options`` one of the options, ``confirm`` yes or no.
        options: what there is to choose from.
    """

    question: str
    mode: Literal["text", "options", "confirm"] = "text"
    options: list[str] = field(default_factory=list)


@document(name="ask_user_text", widget=Widget("text-prompt", transition="user_answered"))
@dataclass
class TextQuestion:
    """A question that is answered with a text."""

    question: str


@document(name="ask_user_options", widget=Widget("choices", transition="user_answered"))
@dataclass
class OptionsQuestion:
    """A question that is answered with one of its options."""

    question: str
    options: list[str]


@document(name="ask_user_confirm", widget=Widget("confirm-prompt", transition="user_answered"))
@dataclass
class ConfirmQuestion:
    """A question that is answered with yes or no."""

    question: str


class AskUser(StateMachine, args=Question, name="ask_user"):
    """Asks one question; the result is ``{"answer": ...}``."""

    @transition(to="asking")
    def start(self, ctx: MachineCtx) -> None:
        """Keep what decides how to ask."""
        ctx.state["mode"] = ctx.args.mode

    def asks_for_text(self, state: Any) -> bool:
        """Whether a text is asked for."""
        return bool(state["mode"] == "text")

    def asks_for_option(self, state: Any) -> bool:
        """Whether one of several options is asked for."""
        return bool(state["mode"] == "options")

    def asks_for_consent(self, state: Any) -> bool:
        """Whether yes or no is asked for."""
        return bool(state["mode"] == "confirm")

    @transition(from_="asking", to="waiting_for_user", guard="asks_for_text")
    def show_question_text(self, ctx: MachineCtx) -> None:
        """Ask for a text."""
        ctx.save(TextQuestion(ctx.args.question), key="question")

    @transition(from_="asking", to="waiting_for_user", guard="asks_for_option")
    def show_question_options(self, ctx: MachineCtx) -> None:
        """Offer options."""
        ctx.save(OptionsQuestion(ctx.args.question, list(ctx.args.options)), key="question")

    @transition(from_="asking", to="waiting_for_user", guard="asks_for_consent")
    def show_question_confirm(self, ctx: MachineCtx) -> None:
        """Ask for yes or no."""
        ctx.save(ConfirmQuestion(ctx.args.question), key="question")

    @transition(from_="waiting_for_user", to="end", wait=True, payload=_ANSWER)
    def user_answered(self, ctx: MachineCtx, input: Input) -> None:
        """Take the answer."""
        _need_answer(input)
        ctx.result["answer"] = input.data["answer"]


@dataclass(frozen=True, slots=True)
class Consent:
    """What ``ConfirmUser`` is started with: a text in Markdown."""

    markdown: str


@document(
    name="confirm_user_form",
    widget=Widget(
        "form",
        actions=(
            {"label": "Deny", "transition": "user_denied"},
            {"label": "Confirm", "transition": "user_confirmed"},
        ),
    ),
)
@dataclass
class ConfirmForm:
    """A text with two buttons under it."""

    markdown: str


class ConfirmUser(StateMachine, args=Consent, name="confirm_user"):
    """Asks for consent; the result is ``{"confirmed": bool, "markdown": ...}``."""

    @transition(to="waiting_for_user")
    def show_form(self, ctx: MachineCtx) -> None:
        """Show the text with its buttons."""
        ctx.save(ConfirmForm(ctx.args.markdown), key="form")

    @transition(from_="waiting_for_user", to="end", wait=True)
    def user_denied(self, ctx: MachineCtx, input: Input) -> None:
        """The person said no."""
        _need_answer(input)
        ctx.result.update(confirmed=False, markdown=ctx.args.markdown)

    @transition(from_="waiting_for_user", to="end", wait=True)
    def user_confirmed(self, ctx: MachineCtx, input: Input) -> None:
        """The person said yes."""
        _need_answer(input)
        ctx.result.update(confirmed=True, markdown=ctx.args.markdown)


@dataclass(frozen=True, slots=True)
class SecretNames:
    """What ``RequestSecrets`` is started with: names, never values."""

    names: list[str]
    reason: str = ""


@document(name="request_secrets_form", widget=Widget("secret-input", transition="secrets_submitted"))
@dataclass
class SecretsForm:
    """Asks for secrets by name."""

    names: list[str]
    reason: str = ""


_SUBMITTED: dict[str, Any] = {
    "type": "object",
    "required": ["submitted"],
    "properties": {"submitted": {"type": "array", "items": {"type": "string"}}},
    "additionalProperties": False,
}


class RequestSecrets(StateMachine, args=SecretNames, name="request_secrets"):
    """Asks for secrets; the result is ``{"submitted": [names]}``.

    An answer is journaled, so it must not hold a secret: whoever shows the widget puts the values where
    secrets are kept, and answers with the names of those that are there.
    """

    @transition(to="waiting_for_user")
    def show_form(self, ctx: MachineCtx) -> None:
        """Say which secrets are needed."""
        ctx.save(SecretsForm(list(ctx.args.names), ctx.args.reason), key="secrets")

    @transition(from_="waiting_for_user", to="end", wait=True, payload=_SUBMITTED)
    def secrets_submitted(self, ctx: MachineCtx, input: Input) -> None:
        """Take the names of the secrets that are there now."""
        _need_answer(input)
        ctx.result["submitted"] = input.data["submitted"]


@dataclass(frozen=True, slots=True)
class Exploration:
    """What ``ExploreTask`` is started with."""

    task: str
    agent_type: str | None = None


class ExploreTask(StateMachine, args=Exploration, name="explore_task"):
    """Lets another agent look into something; the result is ``{"summary": ...}``."""

    @transition(to="end")
    async def explore(self, ctx: MachineCtx) -> None:
        """Ask the agent."""
        given = ctx.args
        ctx.result["summary"] = await ctx.agent(given.task, agent_type=given.agent_type, label="explore_task")


@tool(timeout=None)
def ask_clarification(question: str) -> ToolEnvelope:
    """Ask the person a question and wait for the answer."""
    return from_child(AskUser, {"question": question})


@tool(timeout=None)
def ask_for_approval(markdown: str) -> ToolEnvelope:
    """Ask the person to approve what the text says, and wait for the decision."""

    def complete(outcome: ChildOutcome) -> Any:
        if outcome.status != "completed":
            return ToolEnvelope(error=outcome.message or "the question was cancelled")
        return {"approved": outcome.data["confirmed"]}

    return from_child(ConfirmUser, {"markdown": markdown}, complete=complete)


@tool(timeout=None)
def request_secrets(names: list[str], reason: str = "") -> ToolEnvelope:
    """Ask the person to provide secrets by name; their values are never seen here."""
    return from_child(RequestSecrets, {"names": names, "reason": reason})


@tool(timeout=None)
def explore_task(task: str) -> ToolEnvelope:
    """Let another agent look into a task, and return its summary."""
    return from_child(ExploreTask, {"task": task})


HITL = App(
    "hitl",
    machines=(AskUser, ConfirmUser, RequestSecrets, ExploreTask),
    documents=(TextQuestion, OptionsQuestion, ConfirmQuestion, ConfirmForm, SecretsForm),
    tools=(ask_clarification, ask_for_approval, request_secrets, explore_task),
)
