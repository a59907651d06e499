"""Rule codes that were mistyped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LOOK_ALIKES: Final = str.maketrans("OILS", "0115")


def nearest(code: str, known: Iterable[str]) -> str | None:
    """The rule that a mistyped code was probably meant to be."""
    codes = sorted(known)
    wanted = code.upper()
    digits = wanted[:3] + wanted[3:].translate(_LOOK_ALIKES)
    if digits in codes:
        return digits
    from difflib import get_close_matches

    close = get_close_matches(digits, codes, 5, 0.5)
    return max(close, key=lambda other: _shared(other, digits), default=None)


def _shared(left: str, right: str) -> int:
    """How many characters two texts begin with in common."""
    size = min(len(left), len(right))
    return next((at for at in range(size) if left[at] != right[at]), size)
