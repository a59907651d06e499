"""Token counts of a model call, and the rules they must keep."""

from __future__ import annotations

from rulvar.contracts.messages import Wire

__all__ = ["ZERO_USAGE", "Usage", "add_usage"]


class Usage(Wire, frozen=True, kw_only=True):
    """Tokens of one call or a sum of calls.

    ``input_tokens`` is the full prompt, cache reads and writes included. The 5 minute and 1 hour
    split, when present, sums to ``cache_write_tokens``.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int | None = None
    cache_write5m_tokens: int | None = None
    cache_write1h_tokens: int | None = None


ZERO_USAGE = Usage(input_tokens=0, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0)


def add_usage(left: Usage, right: Usage) -> Usage:
    """Return the field-wise sum; an optional field is present when either side has it."""
    return Usage(
        input_tokens=left.input_tokens + right.input_tokens,
        output_tokens=left.output_tokens + right.output_tokens,
        cache_read_tokens=left.cache_read_tokens + right.cache_read_tokens,
        cache_write_tokens=left.cache_write_tokens + right.cache_write_tokens,
        reasoning_tokens=_sum(left.reasoning_tokens, right.reasoning_tokens),
        cache_write5m_tokens=_sum(left.cache_write5m_tokens, right.cache_write5m_tokens),
        cache_write1h_tokens=_sum(left.cache_write1h_tokens, right.cache_write1h_tokens),
    )


def _sum(left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    return left if right is None else left + right
