"""State machines read from their source."""

from __future__ import annotations

from rulvar_lsp.features.machines import diagram, machines, transition_markdown
from rulvar_lsp.text import Text

SOURCE = """from rulvar import END, Retry, StateMachine as Base, transition


class Ticket(Base, name="ticket"):
    @transition(to="classified")
    async def classify(self, ctx): ...

    @transition("answered", ("classified", "rejected"), guard="is_clear", retry=Retry(attempts=2), error_place="desk")
    @transition(to=END, from_="desk")
    def answer(self, ctx): ...

    @transition(from_="answered", wait=True)
    async def approve(self, ctx, input): ...

    def is_clear(self, state): ...


class Urgent(Ticket):
    @transition
    async def page(self, ctx): ...


class Other:
    @transition(to="x")
    def no(self): ...
"""


def test_machines_and_their_transitions_are_found() -> None:
    found = machines(Text(SOURCE))
    assert found is not None
    assert [machine.name for machine in found] == ["Ticket", "Urgent"]
    assert [(t.method, t.arrow) for t in found[0].transitions] == [
        ("classify", "start → classified"),
        ("answer", "classified, rejected → answered"),
        ("answer", "desk → end"),
        ("approve", "answered → end, waits"),
    ]
    assert [t.arrow for t in found[1].transitions] == ["start → end"]
    text = Text(SOURCE)
    for transition in found[0].transitions:
        span = transition.name_span
        assert text.line(span.line)[span.column : span.end_column] == transition.method
        assert transition.span.line <= span.line <= transition.span.end_line


def test_a_transition_explains_itself() -> None:
    found = machines(Text(SOURCE))
    assert found is not None
    assert transition_markdown(found[0].transitions[1:2]) == (
        "**answer**: `classified`, `rejected` → `answered`\n"
        "- only if `is_clear`\n"
        "- is tried again when it fails\n"
        "- goes to `desk` when no attempt is left"
    )


def test_a_diagram_has_every_arrow() -> None:
    found = machines(Text(SOURCE))
    assert found is not None
    lines = diagram(found[0]).splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert sum("-->" in line for line in lines) == 7
    assert '    state "classified" as p1' in lines
    assert "    [*] --> p1: classify" in lines
    assert "    p0 --> [*]: approve (waits)" in lines


def test_text_without_machines_costs_nothing_and_broken_text_is_none() -> None:
    assert machines(Text("x = (")) == ()
    assert machines(Text("StateMachine (")) is None
