"""How a database is asked which runs it holds."""

from __future__ import annotations

__all__ = ["RUN_IDS"]

RUN_IDS = (
    "WITH RECURSIVE journals (run_id) AS (SELECT min(run_id) FROM {entries} UNION ALL "
    "SELECT (SELECT min(e.run_id) FROM {entries} e WHERE e.run_id > journals.run_id) FROM journals "
    "WHERE journals.run_id IS NOT NULL) "
    "SELECT run_id FROM journals WHERE run_id IS NOT NULL UNION SELECT run_id FROM {metas} ORDER BY 1"
)
"""Runs with a meta row or a journal. It steps from run to run in the index, and does not read every entry."""
