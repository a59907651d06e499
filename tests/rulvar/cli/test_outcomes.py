"""How the end of a run is written in a few lines."""

from __future__ import annotations

import pytest

from rulvar.cli.outcomes import show_outcome
from rulvar.cli.terminal import Terminal
from rulvar.contracts.outcome import Outcome, Raised


def test_what_an_exhausted_run_returned_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    show_outcome(Terminal(), "r1", "flow", Outcome(status="exhausted", value=["a part"]))
    told = capsys.readouterr().out
    assert "exhausted  flow  r1" in told
    assert "a part" in told


def test_an_exception_that_is_no_error_of_the_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    raised = Raised(type="ValueError", file="flow.py", line=3, function="flow")
    show_outcome(Terminal(), "r1", "flow", Outcome(status="exhausted", raised=raised))
    assert "ValueError at flow.py:3 in flow" in capsys.readouterr().out
