"""What an agent's entry cost: each of its exchanges at its own price, where the entry tells them all.

A tier re-prices a request by that request's input. An entry adds the tokens of all its exchanges up, so that the
sum may cross a threshold which none of them did; its records of the exchanges say better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rulvar.contracts.usage import Usage, recorded_usage

__all__ = ["Bill", "BilledUnit", "bill_entry"]

Price = Callable[[str, Usage], float | None]
"""Returns the cost of a usage at a model's price in USD, None when the model has none."""


class BilledUnit(msgspec.Struct, frozen=True):
    """One priced part of an entry: an exchange, or all that a model served in a role.

    Attributes:
        role: the role that paid, None when the entry does not say.
        is_exchange: whether it is one exchange.
    """

    model: str
    usd: float
    role: str | None
    is_exchange: bool


class Bill(msgspec.Struct, frozen=True):
    """What an entry cost.

    Attributes:
        units: its priced parts, in the order in which they are added up.
        usd: their sum.
        unpriced: models that served it and have no price.
        per_call: whether every part is an exchange.
        usage: all tokens that the entry tells of; None when it tells of none.
    """

    units: tuple[BilledUnit, ...]
    usd: float
    unpriced: tuple[str, ...]
    per_call: bool
    usage: Usage | None

    @property
    def cost_usd(self) -> float | None:
        """The sum; None when no model that served it has a price."""
        return None if self.unpriced and not self.units else self.usd


def bill_entry(entry: Mapping[str, Any], price: Price) -> Bill:
    """Return what the terminal entry of an agent cost.

    Of a model whose exchanges sum to the tokens that the entry has for it, every exchange is priced by itself; of any
    other, what it served is priced as a whole.

    Raises:
        ConfigError: a usage in it is no object; names the entry.
    """
    if (bill := _bill_of_one_model(entry, price)) is not None:
        return bill
    slices = _slices(entry)
    calls = _calls(entry)
    covered = _covered(slices, calls)
    parts = [(*call, True) for call in calls if call[0] in covered]
    parts += [(*part, False) for part in slices if part[0] not in covered]
    units: list[BilledUnit] = []
    unpriced: dict[str, None] = {}
    total = 0.0
    for model, usage, role, is_exchange in parts:
        cost = price(model, usage)
        if cost is None:
            unpriced[model] = None
            continue
        total += cost
        units.append(BilledUnit(model, cost, role, is_exchange))
    served = {model for model, _, _ in slices}
    per_call = bool(slices) and covered == served and all(model in served for model, _, _ in calls)
    return Bill(tuple(units), total, tuple(unpriced), per_call, recorded_usage(entry))


def _bill_of_one_model(entry: Mapping[str, Any], price: Price) -> Bill | None:
    """Return the bill of an entry that one model has served, exchange by exchange: most are, and need no sums by model.

    None where they do.
    """
    calls, model, told = entry.get("providerCalls"), entry.get("servedBy"), entry.get("usage")
    if type(calls) is not list or not calls or type(model) is not str or entry.get("usageByModel"):
        return None
    usage = recorded_usage(entry)
    if usage is None:
        return None
    given, written, read, stored, reasoned = _counts(usage)
    total = 0.0
    units: list[BilledUnit] = []
    for call in calls:
        used = call.get("usage") if type(call) is dict and call.get("servedBy") == model else None
        if type(used) is not dict or not used:
            return None
        one = usage if used == told else recorded_usage(call)
        assert one is not None
        given, written = given - one.input_tokens, written - one.output_tokens
        read, stored = read - one.cache_read_tokens, stored - one.cache_write_tokens
        reasoned -= one.reasoning_tokens or 0
        cost = price(model, one)
        if cost is not None:
            role = call.get("role")
            total += cost
            units.append(BilledUnit(model, cost, role if type(role) is str else None, True))
    if given or written or read or stored or reasoned or (units and len(units) < len(calls)):
        return None
    return Bill(tuple(units), total, () if units else (model,), True, usage)


Part = tuple[str, Usage, str | None]
"""A model, what it used, and the role that paid."""


def _slices(entry: Mapping[str, Any]) -> list[Part]:
    listed = entry.get("usageByModel")
    if isinstance(listed, list) and listed:
        return _parts(listed, entry)
    usage = recorded_usage(entry)
    model = entry.get("servedBy")
    return [] if usage is None or not isinstance(model, str) else [(model, usage, None)]


def _calls(entry: Mapping[str, Any]) -> list[Part]:
    listed = entry.get("providerCalls")
    return _parts(listed, entry) if isinstance(listed, list) else []


def _parts(listed: Sequence[Any], entry: Mapping[str, Any]) -> list[Part]:
    parts: list[Part] = []
    for item in listed:
        model = item.get("servedBy") if isinstance(item, Mapping) else None
        if not isinstance(model, str):
            continue
        usage = recorded_usage({"seq": entry.get("seq"), "usage": item.get("usage")})
        if usage is not None:
            role = item.get("role")
            parts.append((model, usage, role if isinstance(role, str) else None))
    return parts


def _covered(slices: Sequence[Part], calls: Sequence[Part]) -> set[str]:
    """Return the models whose exchanges sum to what they served, count by count."""
    served, told = _sums(slices), _sums(calls)
    return {model for model, counts in served.items() if told.get(model) == counts}


def _sums(parts: Sequence[Part]) -> dict[str, tuple[int, ...]]:
    sums: dict[str, tuple[int, ...]] = {}
    for model, usage, _ in parts:
        counts = _counts(usage)
        before = sums.get(model)
        sums[model] = (
            counts
            if before is None
            else tuple(left + right for left, right in zip(before, counts, strict=True))
        )
    return sums


def _counts(usage: Usage) -> tuple[int, int, int, int, int]:
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens or 0,
    )
