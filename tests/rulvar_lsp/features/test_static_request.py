"""What the text of a call says of its request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulvar_lsp.features.static_request import (
    ModuleStrings,
    StaticRequest,
    imports_module,
    routed_models,
    static_request,
)
from rulvar_lsp.text import Text

NAMES = {"PROMPT": "Classify.", "WHO": "me"}


@pytest.mark.parametrize(
    ("source", "request_"),
    [
        ('ctx.agent("Hello", label="a")', StaticRequest("Hello")),
        ("ctx.agent('a' \"b\"\n  'c',\n)", StaticRequest("abc")),
        ('ctx.agent(PROMPT + " Now.")', StaticRequest("Classify. Now.")),
        ('ctx.agent(f"For {WHO}: {PROMPT}")', StaticRequest("For me: Classify.")),
        ('ctx.agent(prompt="x", model="fake:a")', StaticRequest("x", "fake:a")),
        ('ctx.agent("x", effort="low", schema=None)', StaticRequest("x", None, "low")),
        (
            'ctx.agent("x", schema={"type": "object"})',
            StaticRequest("x", schema="{'type': 'object'}"),
        ),
        ('ctx.agent("""a\n  b""", key="k")', StaticRequest("a\n  b")),
    ],
)
def test_what_is_written_out_is_known(source: str, request_: StaticRequest) -> None:
    assert static_request(source, NAMES) == request_


@pytest.mark.parametrize(
    "source",
    [
        "ctx.agent(prompt)",
        "ctx.agent(f\"Hello {args['x']}\")",
        'ctx.agent(f"{WHO!r}")',
        'ctx.agent(f"{WHO:>9}")',
        'ctx.agent("x", tools=[search])',
        'ctx.agent("x", agent_type="critic")',
        'ctx.agent("x", limits=limits)',
        'ctx.agent("x", model=model)',
        'ctx.agent("x", model="no-adapter")',
        'ctx.agent("x", schema=Model)',
        'ctx.agent("x", **more)',
        "ctx.agent(*some)",
        'ctx.agent("x".upper())',
        "ctx.agent()",
        "ctx.agent(",
        "not a call",
        "1",
    ],
)
def test_what_depends_on_more_than_the_text_is_not_known(source: str) -> None:
    assert static_request(source, NAMES) is None


@given(st.text())
def test_any_text_is_survived(source: str) -> None:
    strings = ModuleStrings(Text(f"A = ({source}\nB = A + B\n{source}"))
    static_request(source, strings)
    static_request(f"ctx.agent(A + B, {source})", strings)


def test_strings_that_a_module_names_once_are_known() -> None:
    text = Text(
        'ONE = "1"\nTWO: Final = (\n    "2"\n    "3"\n)\nBOTH = ONE + TWO\n'
        'TWICE = "a"\nTWICE = "b"\nMORE = "a"\nMORE += "b"\nSET = "a"\ndef f():\n    global SET, X\n'
        'SELF = SELF + "x"\nCALLED = (f(1))\nSAME == "x"\nLONG = """a\nb"""\n    INNER = "x"\n'
    )
    strings = ModuleStrings(text)
    names = ("ONE", "TWO", "BOTH", "TWICE", "MORE", "SET", "SELF", "CALLED", "SAME", "LONG", "INNER", "NONE")
    found = {name: value for name in names if (value := strings.get(name)) is not None}
    assert found == {"ONE": "1", "TWO": "23", "BOTH": "123", "LONG": "a\nb"}


@pytest.mark.parametrize(
    "code",
    [
        "def f(A):\n    pass\n",
        "def f(\n    x,\n    A=1,\n):\n    pass\n",
        "def f():\n    A = 2\n",
        "def f():\n    for A in x:\n        pass\n",
        "def f():\n    for i, A in x:\n        pass\n",
        "def f():\n    with x as A:\n        pass\n",
        "def f():\n    if (A := 2):\n        pass\n",
    ],
)
def test_a_name_that_a_function_has_for_itself_is_not_known(code: str) -> None:
    assert ModuleStrings(Text(f'A = "a"\n\n\n{code}')).get("A") is None


def test_models_are_those_that_the_loop_is_routed_to() -> None:
    assert routed_models('Engine(routing={"plan": "a:b", "loop": "fake:small"})') == {"fake:small"}
    assert routed_models("loop = 'x:y'") == frozenset()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import flow\n", True),
        ("from app import other, flow\n", True),
        ("from app.flow import triage\n", True),
        ("from app import (\n    other,\n    flow,\n)\n", True),
        ("import flows\n", False),
        ("# flow\nimport os\n", False),
        ("import os  # flow\n", False),
    ],
)
def test_a_module_is_imported_by_its_name(source: str, found: bool) -> None:
    assert imports_module(source, "flow") is found
