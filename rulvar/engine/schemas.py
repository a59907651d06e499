"""Schemas that an engine has read: each type once, each hash once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulvar.contracts.schema import SchemaContract, schema_contract

__all__ = ["Schemas"]

KEPT_HASHES = 1024


class Schemas:
    """Contracts by type, and hashes by contract."""

    __slots__ = ("_contracts", "_hashes")

    def __init__(self) -> None:
        self._contracts: dict[type, SchemaContract] = {}
        self._hashes: dict[int, tuple[SchemaContract, str]] = {}

    def contract(self, schema: Any, what: str) -> SchemaContract:
        """Return the contract of a schema.

        Args:
            what: names the option in messages.
        """
        if not isinstance(schema, type):
            return schema_contract(schema, what)
        contract = self._contracts.get(schema)
        if contract is None:
            contract = self._contracts[schema] = schema_contract(schema, what)
        return contract

    def hash_of(self, contract: SchemaContract, compute: Callable[[Any], str]) -> str:
        """Return the hash of a contract's schema."""
        known = self._hashes.get(id(contract))
        if known is not None and known[0] is contract:
            return known[1]
        hashed = compute(contract.json)
        if len(self._hashes) > KEPT_HASHES:
            self._hashes.clear()
        self._hashes[id(contract)] = (contract, hashed)
        return hashed
