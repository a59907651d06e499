"""What an exception says, whatever its class makes of that."""

from __future__ import annotations

__all__ = ["exception_text"]


def exception_text(error: BaseException) -> str:
    """Return the text of an exception; the name of its class, where it says nothing or cannot say it."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return f"{type(error).__name__} (its text cannot be told)"
