"""Scope paths: what the grammar takes."""

from __future__ import annotations

import pytest

from rulvar.errors import ConfigError
from rulvar.kernel.scope import ParallelScope, PlanNodeScope, WorkflowScope, parse_scope, workflow_scope


def test_a_node_id_is_26_digits_and_capitals_of_any_kind() -> None:
    node = "01ILOU3TQ8R4M5N6P7Q8R9S0T1"
    assert parse_scope(f"plan/{node}/par:0:1") == (PlanNodeScope(node), ParallelScope(0, 1))


def test_a_workflow_of_any_name_without_a_slash_is_read() -> None:
    for name in ("a", "a:b", ":", "a b", "ü", "par"):
        assert parse_scope(workflow_scope("par:1:0", name, 12)) == (
            ParallelScope(1, 0),
            WorkflowScope(name, 12),
        )


@pytest.mark.parametrize("path", ["wf:a/b:0", "wf:a/0", "wf:a", "wf::0", "wf:a:-1", "wf:a:0/"])
def test_a_path_that_a_slash_in_a_name_breaks_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="scope path"):
        parse_scope(path)
