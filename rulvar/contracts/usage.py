"""Token counts of a model call, and the rules they must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rulvar.contracts.canonical import MAX_SAFE_INTEGER, format_number
from rulvar.contracts.messages import Wire
from rulvar.errors import ConfigError

__all__ = ["ZERO_USAGE", "Usage", "add_usage", "recorded_usage", "sanitize_usage", "usage_violations"]


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

    def to_wire(self) -> dict[str, Any]:
        """Return the plain JSON object; absent optional fields are left out."""
        if self.reasoning_tokens is self.cache_write5m_tokens is self.cache_write1h_tokens is None:
            return {
                "inputTokens": self.input_tokens,
                "outputTokens": self.output_tokens,
                "cacheReadTokens": self.cache_read_tokens,
                "cacheWriteTokens": self.cache_write_tokens,
            }
        return self.to_plain()  # there is no array in it


ZERO_USAGE = Usage(input_tokens=0, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0)

_REQUIRED = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_OPTIONAL = ("reasoningTokens", "cacheWrite5mTokens", "cacheWrite1hTokens")
_ABSENT = object()


def add_usage(left: Usage, right: Usage) -> Usage:
    """Return the field-wise sum.

    Reasoning tokens are there when there are any. When either side tells how long its cache writes last, the sum does:
    writes of which that is not known count as 5 minute ones, which cost the same.
    """
    reasoning = (left.reasoning_tokens or 0) + (right.reasoning_tokens or 0)
    five_minutes: int | None = None
    one_hour: int | None = None
    if not (
        left.cache_write5m_tokens is left.cache_write1h_tokens is None
        and right.cache_write5m_tokens is right.cache_write1h_tokens is None
    ):
        one_hour = (left.cache_write1h_tokens or 0) + (right.cache_write1h_tokens or 0)
        five_minutes = _five_minutes(left) + _five_minutes(right)
    return Usage(
        input_tokens=left.input_tokens + right.input_tokens,
        output_tokens=left.output_tokens + right.output_tokens,
        cache_read_tokens=left.cache_read_tokens + right.cache_read_tokens,
        cache_write_tokens=left.cache_write_tokens + right.cache_write_tokens,
        reasoning_tokens=reasoning if reasoning > 0 else None,
        cache_write5m_tokens=five_minutes,
        cache_write1h_tokens=one_hour,
    )


def usage_violations(usage: Usage | Mapping[str, Any]) -> list[str]:
    """Return the sorted names of the fields that break a rule; an empty list is a valid usage.

    Args:
        usage: a :class:`Usage`, or its plain JSON object with any values.

    Every count is a non-negative integer of at most 2^53-1, the input covers cache reads and
    writes, and a 5 minute and 1 hour split sums to the cache writes.
    """
    fields = _fields(usage)
    broken = {name for name in _REQUIRED if not is_token_count(fields.get(name, _ABSENT))}
    broken.update(name for name in _OPTIONAL if name in fields and not is_token_count(fields[name]))
    cached = _plus(fields.get("cacheReadTokens", _ABSENT), fields.get("cacheWriteTokens", _ABSENT))
    if not _covers(fields.get("inputTokens", _ABSENT), cached):
        broken.add("inputTokens")
    if _has_split(fields):
        split = _plus(*(_or_zero(fields, name) for name in ("cacheWrite5mTokens", "cacheWrite1hTokens")))
        if not _same_number(split, fields.get("cacheWriteTokens", _ABSENT)):
            broken.add("cacheWrite5mTokens")
    return sorted(broken)


def sanitize_usage(usage: Usage | Mapping[str, Any]) -> Usage:
    """Return a valid usage to account with: counts are rounded up, clamped, never made a credit.

    A count that is no number is 0. Cache reads and writes are cut to what the input covers; a split
    that does not add up keeps its 1 hour share and gives the rest to the 5 minute share.
    """
    fields = _fields(usage)
    input_tokens = _clamp(fields.get("inputTokens"))
    cache_read = min(_clamp(fields.get("cacheReadTokens")), input_tokens)
    cache_write = min(_clamp(fields.get("cacheWriteTokens")), input_tokens - cache_read)
    five_minutes: int | None = None
    one_hour: int | None = None
    if _is_sound_split(fields, cache_write):
        five_minutes = _clamp_present(fields, "cacheWrite5mTokens")
        one_hour = _clamp_present(fields, "cacheWrite1hTokens")
    elif _has_split(fields):
        one_hour = min(_clamp(fields.get("cacheWrite1hTokens")), cache_write)
        five_minutes = cache_write - one_hour
    return Usage(
        input_tokens=input_tokens,
        output_tokens=_clamp(fields.get("outputTokens")),
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        reasoning_tokens=_clamp_present(fields, "reasoningTokens"),
        cache_write5m_tokens=five_minutes,
        cache_write1h_tokens=one_hour,
    )


def recorded_usage(entry: Mapping[str, Any]) -> Usage | None:
    """Return the usage that a journal entry tells, repaired where it breaks a rule; None when it tells none.

    Raises:
        ConfigError: what stands there is no object; names the entry.
    """
    plain = entry.get("usage")
    if not plain:
        return None
    if type(plain) is not dict and not isinstance(plain, Mapping):
        raise ConfigError(
            f"entry {entry.get('seq')} of the journal: usage: expected an object, got {type(plain).__name__}; restore "
            "the journal from a copy",
            data={"field": "usage", "entrySeq": entry.get("seq")},
        )
    try:
        usage = Usage.from_wire(plain)
    except ConfigError:
        return sanitize_usage(plain)
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    least = min(usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    return usage if least >= 0 and usage.input_tokens >= cached else sanitize_usage(plain)


def is_token_count(value: Any) -> bool:
    """Whether a JSON value is a non-negative integer of at most 2^53-1; ``3.0`` is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if isinstance(value, float) and not value.is_integer():
        return False
    return 0 <= value <= MAX_SAFE_INTEGER


def _fields(usage: Usage | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(usage, Usage):
        return usage.to_wire()
    return usage if isinstance(usage, Mapping) else {}


def _has_split(fields: Mapping[str, Any]) -> bool:
    return "cacheWrite5mTokens" in fields or "cacheWrite1hTokens" in fields


def _is_sound_split(fields: Mapping[str, Any], cache_write: int) -> bool:
    """Whether the shares that are told are counts, and sum to the cache writes."""
    shares = [fields[name] for name in ("cacheWrite5mTokens", "cacheWrite1hTokens") if name in fields]
    return all(map(is_token_count, shares)) and sum(shares) == cache_write


def _five_minutes(usage: Usage) -> int:
    if usage.cache_write5m_tokens is not None:
        return usage.cache_write5m_tokens
    return max(0, usage.cache_write_tokens - (usage.cache_write1h_tokens or 0))


def _or_zero(fields: Mapping[str, Any], name: str) -> Any:
    share = fields.get(name)
    return 0 if share is None else share


def _clamp(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(_number(value)):
        return 0
    return max(0, min(math.ceil(value), MAX_SAFE_INTEGER))


def _clamp_present(fields: Mapping[str, Any], name: str) -> int | None:
    return _clamp(fields[name]) if name in fields else None


# A usage of any JSON values is judged as the original judges it, and the original adds and compares
# with ECMAScript's operators: text concatenates, null counts 0, an absent field is not a number.


def _plus(left: Any, right: Any) -> float | str:
    left, right = _primitive(left), _primitive(right)
    if isinstance(left, str) or isinstance(right, str):
        return _text(left) + _text(right)
    return _number(left) + _number(right)


def _covers(left: Any, right: float | str) -> bool:
    """Whether the left is at least the right; nothing covers what is not a number."""
    left = _primitive(left)
    if isinstance(left, str) and isinstance(right, str):
        return left.encode("utf-16-be", "surrogatepass") >= right.encode("utf-16-be", "surrogatepass")
    return _number(left) >= _number(right)


def _same_number(left: float | str, right: Any) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and left == right
    return not isinstance(right, bool) and isinstance(right, (int, float)) and left == _number(right)


def _primitive(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "[object Object]"
    if isinstance(value, (list, tuple)):
        return ",".join("" if item is None else _text(_primitive(item)) for item in value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is _ABSENT:
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _number(value)
    if number - number != 0:
        return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")
    return format_number(number)


def _number(value: Any) -> float:
    if value is _ABSENT:
        return math.nan
    if value is None:
        return 0.0
    try:
        return _parse_number(value) if isinstance(value, str) else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _parse_number(text: str) -> float:
    text = text.strip()
    if not text:
        return 0.0
    base = {"0x": 16, "0o": 8, "0b": 2}.get(text[:2].lower())
    try:
        if "_" in text:
            return math.nan
        if base is not None:
            return float(int(text[2:], base))
        return float(text) if text[-1].isdigit() or text[-1] == "." else _infinity(text)
    except ValueError:
        return math.nan


def _infinity(text: str) -> float:
    return {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}.get(text, math.nan)
