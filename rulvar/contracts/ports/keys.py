"""The seam behind which master keys live: a key management service, a vault, a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["KeyProvider", "WrappedKey"]


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key that only its provider can read.

    Attributes:
        key_id: names the master key; at most 255 bytes in UTF-8. Stored in the clear.
        data: the wrapped data key; at most 65,535 bytes.
    """

    key_id: str
    data: bytes


class KeyProvider(Protocol):
    """Wraps data keys with a master key that never leaves it (envelope encryption)."""

    async def wrap(self, data_key: bytes) -> WrappedKey:
        """Wrap a fresh data key of 32 bytes with the current master key."""

    async def unwrap(self, wrapped: WrappedKey) -> bytes:
        """Return a data key, also one that an earlier master key wrapped.

        Raises:
            StoreError: the master key is not known, or does not fit.
        """
