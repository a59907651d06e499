"""What goes into a call's identity, worked out once: contracts of schemas, toolsets, and their hashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.kernel.keys import EMPTY_TOOLSET_HASH, schema_hash, toolset_hash
from rulvar.tools.tool import Tool
from rulvar.tools.toolset import Toolset

__all__ = ["Identities"]

_MOST = 1024


class Identities:
    """Remembers contracts and hashes of one engine. It holds what it remembers, so an id is never reused."""

    def __init__(self) -> None:
        self._schemas: dict[Any, tuple[SchemaContract, str]] = {}
        self._toolsets: dict[tuple[int, ...], tuple[Toolset, str]] = {}

    def schema(self, schema: Any, what: str) -> tuple[SchemaContract, str]:
        """Return the contract of a schema, and its hash.

        Raises:
            ConfigError: not a schema; ``what`` names where it was given.
        """
        key = _schema_key(schema)
        known = self._schemas.get(key) if key is not None else None
        if known is None:
            contract = schema_contract(schema, what)
            known = (contract, schema_hash(contract.json))
            if key is not None:
                _bound(self._schemas)
                self._schemas[key] = known
        return known

    def toolset(self, tools: Sequence[Tool]) -> tuple[Toolset, str]:
        """Return tools as a set, and its hash.

        Raises:
            ConfigError: two tools of one name, or something that is not a tool.
        """
        key = tuple(map(id, tools))
        known = self._toolsets.get(key)
        if known is None:
            made = Toolset(tools)
            known = (made, toolset_hash(made.contracts) if len(made) else EMPTY_TOOLSET_HASH)
            _bound(self._toolsets)
            self._toolsets[key] = known
        return known


def _schema_key(schema: Any) -> Any:
    if isinstance(schema, type):
        return schema
    if isinstance(schema, dict):
        try:
            return orjson.dumps(schema)
        except TypeError:
            return None
    return None


def _bound(known: dict[Any, Any]) -> None:
    if len(known) >= _MOST:
        known.clear()
