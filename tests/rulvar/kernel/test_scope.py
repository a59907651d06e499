"""Scope paths that other writers of journals may have written."""

import pytest

from rulvar.errors import ConfigError
from rulvar.kernel.scope import PlanNodeScope, parse_scope


@pytest.mark.parametrize("node_id", ["0123456789ABCDEFGHJKMNPQRS", "ILOU0000000000000000000000"])
def test_a_node_id_is_26_digits_and_capital_letters(node_id: str) -> None:
    assert parse_scope(f"plan/{node_id}") == (PlanNodeScope(node_id),)


@pytest.mark.parametrize("node_id", ["", "A" * 25, "A" * 27, "a" * 26, "A" * 25 + "-", "A" * 26 + "\n"])
def test_anything_else_is_no_node_id(node_id: str) -> None:
    with pytest.raises(ConfigError, match="node id"):
        parse_scope(f"plan/{node_id}")
