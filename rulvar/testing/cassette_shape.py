"""What the lines of a cassette must look like, checked exactly: the first wrong field is named.

Values are JSON values as ECMAScript reads them, so ``10.0`` is an integer. Unknown extra fields are
fine everywhere; an unknown event type is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rulvar.contracts.canonical import MAX_SAFE_INTEGER
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.redaction import default_redact
from rulvar.contracts.stream import ChatEvent, FinishInfo
from rulvar.contracts.usage import is_token_count, usage_violations

__all__ = [
    "FORMAT_VERSION",
    "KIND",
    "WrongField",
    "caps_from_wire",
    "check_caps",
    "check_event",
    "check_header",
    "check_row",
    "event_from_wire",
    "is_terminal",
    "with_integers",
]

KIND = "rulvar-vcr"
FORMAT_VERSION = 1

_STRUCTURED_OUTPUT = ("native", "forced-tool", "prompt")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_REASONS = ("stop", "tool-calls", "max-tokens", "context-window-exceeded", "refusal")
_PARTIAL_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_SPLIT = ("cacheWrite5mTokens", "cacheWrite1hTokens")
_PRICES = ("inputUsdPerMTok", "outputUsdPerMTok")
_OPTIONAL_PRICES = ("cacheReadUsdPerMTok", "cacheWriteUsdPerMTok", "cacheWrite1hUsdPerMTok")
_ISO_DATE = re.compile(
    r"(?:\d{4}|[+-]\d{6})(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?"
    r"(?:[T ](?:24:00(?::00(?:[.,]0{1,12})?)?|(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,12})?)?)"
    r"(?: ?Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_MAIL_DATE = re.compile(
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? )?(?:0?[1-9]|[12]\d|3[01])[ -]"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[ -]\d{2,4}"
    r"(?: (?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?: (?:[A-Z]{1,4}|[+-]\d{4}))?(?: \([^()]{0,40}\))?)?",
    re.ASCII | re.IGNORECASE,
)
_MISSING = object()


class WrongField(Exception):
    """A field of a line is wrong: its path in the line, and what was expected."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def check_header(header: Any) -> None:
    """Check the first line of a cassette.

    Raises:
        WrongField: the line is no header of a cassette of this format.
    """
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise WrongField("kind", f'expected "{KIND}": this file is not a cassette; record to a new file')
    version = header.get("v", _MISSING)
    if isinstance(version, bool) or version != FORMAT_VERSION:
        problem = f"expected format v {FORMAT_VERSION}, got {_show(version)}: another version of rulvar wrote this file"
        raise WrongField("v", f"{problem}; record it again with this one")
    _expect(_is_integer(header.get("hashVersion")), header, "", "hashVersion", "an integer")
    recorded = header.get("recordedAt")
    is_date = isinstance(recorded, str) and (_ISO_DATE.fullmatch(recorded) or _MAIL_DATE.fullmatch(recorded))
    _expect(is_date, header, "", "recordedAt", "an ISO 8601 or RFC 2822 date")


def check_row(row: Any) -> None:
    """Check one row of a cassette in depth, stream rules excepted.

    Raises:
        WrongField: the first field that is wrong.
    """
    if not isinstance(row, dict):
        raise WrongField("row", f"expected an object, got {_show(row)}")
    if row.get("kind") == KIND and "adapterId" not in row:
        raise WrongField(
            "adapterId", "this is another header: put cassettes together with rulvar cassette merge"
        )
    for name in ("adapterId", "requestHash", "model"):
        _expect_text(row, "", name, nonempty=True)
    if "provider" in row:
        _expect_text(row, "", "provider")
    if "usageSemantics" in row:
        _expect_text(row, "", "usageSemantics", nonempty=True)
    if "occurrence" in row:
        _expect(is_token_count(row["occurrence"]), row, "", "occurrence", "an integer from 0 to 2^53-1")
    _expect_object(row, "", "request")
    if not isinstance(row.get("caps"), dict):
        raise WrongField(
            "caps", f"expected the capabilities of the model, got {_show(row.get('caps', _MISSING))}"
        )
    check_caps(row["caps"])
    events = row.get("events", _MISSING)
    if not isinstance(events, list):
        raise WrongField("events", f"expected an array of chat events, got {_show(events)}")
    for index, event in enumerate(events):
        check_event(event, f"events[{index}]")


def check_caps(caps: dict[str, Any]) -> None:
    """Check a capabilities snapshot; the paths in errors start with ``caps``."""
    choices = " or ".join(_STRUCTURED_OUTPUT)
    _expect(caps.get("structuredOutput") in _STRUCTURED_OUTPUT, caps, "caps", "structuredOutput", choices)
    for name in ("supportsTemperature", "supportsParallelTools"):
        _expect(isinstance(caps.get(name), bool), caps, "caps", name, "true or false")
    efforts = caps.get("reasoningEfforts")
    known = isinstance(efforts, list) and all(isinstance(e, str) and e in _EFFORTS for e in efforts)
    _expect(known, caps, "caps", "reasoningEfforts", f"an array of {', '.join(_EFFORTS)}")
    for name in ("contextWindow", "maxOutputTokens"):
        size = caps.get(name)
        _expect(is_token_count(size) and size != 0, caps, "caps", name, "a positive integer")
    if "pricing" in caps:
        _expect_object(caps, "caps", "pricing")
        _check_pricing(caps["pricing"])


def event_from_wire(event: dict[str, Any]) -> ChatEvent:
    """Build a chat event from its checked JSON object; parts that no rule checks are dropped when unfit."""
    wire = dict(event)
    kind = wire["type"]
    if kind in ("usage", "finish"):
        usage = with_integers(wire["usage"])
        wire["usage"] = {k: v for k, v in usage.items() if k not in _SPLIT or is_token_count(v)}
    if kind == "finish" and wire["finish"]["reason"] != "refusal":
        try:
            msgspec.convert(wire["finish"], FinishInfo)
        except msgspec.ValidationError:
            wire["finish"] = {"reason": wire["finish"]["reason"]}
    if kind == "error":
        error = wire["error"]
        if not isinstance(error.get("data", {}), dict):
            wire["error"] = {key: item for key, item in error.items() if key != "data"}
        if not isinstance(wire.get("providerMetadata", {}), dict):
            del wire["providerMetadata"]
    built: ChatEvent = msgspec.convert(wire, ChatEvent)
    return built


def caps_from_wire(caps: dict[str, Any]) -> ModelCaps:
    """Build capabilities from a checked snapshot; optional fields that are unfit are dropped."""
    wire = {key: with_integers(item) for key, item in caps.items()}
    for name in ("minOutputTokensPerTurn", "promptCaching"):
        try:
            msgspec.convert({**_SOME_CAPS, name: wire.get(name)}, ModelCaps)
        except msgspec.ValidationError:
            del wire[name]
    built: ModelCaps = msgspec.convert(wire, ModelCaps)
    return built


def is_terminal(event: Mapping[str, Any]) -> bool:
    """Whether a chat event (a JSON object) ends its stream."""
    return event.get("type") in ("finish", "error")


_SOME_CAPS = {
    "structuredOutput": "prompt",
    "supportsTemperature": False,
    "supportsParallelTools": False,
    "reasoningEfforts": [],
    "contextWindow": 1,
    "maxOutputTokens": 1,
}


def _check_pricing(pricing: dict[str, Any]) -> None:
    for name in (*_PRICES, *_OPTIONAL_PRICES):
        if name in pricing or name in _PRICES:
            price = _finite(pricing.get(name))
            _expect(price is not None and price >= 0, pricing, "caps.pricing", name, "a finite number from 0")
    if "tiers" not in pricing:
        return
    tiers = pricing["tiers"]
    _expect(isinstance(tiers, list), pricing, "caps.pricing", "tiers", "an array of tiers")
    for index, tier in enumerate(tiers):
        path = f"caps.pricing.tiers[{index}]"
        if not isinstance(tier, dict):
            raise WrongField(path, f"expected an object, got {_show(tier)}")
        above = tier.get("aboveInputTokens")
        _expect(is_token_count(above), tier, path, "aboveInputTokens", "an integer from 0")
        for name in ("inputMultiplier", "outputMultiplier"):
            factor = _finite(tier.get(name))
            _expect(factor is not None and factor > 0, tier, path, name, "a finite number above 0")


def check_event(event: Any, path: str) -> None:
    """Check the JSON object of a chat event; the path is where it stands."""
    if not isinstance(event, dict):
        raise WrongField(path, f"expected a chat event, got {_show(event)}")
    kind = event.get("type", _MISSING)
    check = _EVENT_CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        known = ", ".join(_EVENT_CHECKS)
        raise WrongField(f"{path}.type", f"unknown event type {_show(kind)}; known are {known}")
    check(event, path)


def _check_text_delta(event: dict[str, Any], path: str) -> None:
    _expect_text(event, path, "text")


def _check_call_start(event: dict[str, Any], path: str) -> None:
    _expect_text(event, path, "id", nonempty=True)
    _expect_text(event, path, "name", nonempty=True)


def _check_call_delta(event: dict[str, Any], path: str) -> None:
    _expect_text(event, path, "id", nonempty=True)
    _expect_text(event, path, "argsTextDelta")


def _check_call_end(event: dict[str, Any], path: str) -> None:
    _expect_text(event, path, "id", nonempty=True)
    _expect("args" in event, event, path, "args", "a JSON value")


def _check_usage_update(event: dict[str, Any], path: str) -> None:
    _expect_object(event, path, "usage")
    usage = event["usage"]
    for name in _PARTIAL_USAGE:
        if name in usage:
            _expect(is_token_count(usage[name]), usage, f"{path}.usage", name, "an integer from 0 to 2^53-1")


def _check_finish(event: dict[str, Any], path: str) -> None:
    _expect_object(event, path, "finish")
    finish = event["finish"]
    _expect(finish.get("reason") in _REASONS, finish, f"{path}.finish", "reason", ", ".join(_REASONS))
    if finish["reason"] == "refusal":
        _check_refusal(finish.get("refusal", _MISSING), f"{path}.finish.refusal")
    if "providerMetadata" in event:
        _expect_object(event, path, "providerMetadata")
    _expect_object(event, path, "usage")
    violations = usage_violations(event["usage"])
    if violations:
        raise WrongField(f"{path}.usage", f"breaks the rules of token counts at {', '.join(violations)}")


def _check_refusal(refusal: Any, path: str) -> None:
    if not isinstance(refusal, dict) or not isinstance(refusal.get("provider"), str):
        raise WrongField(f"{path}.provider", "a refusal names its provider, a text")
    if "stopDetails" not in refusal:
        return
    _expect_object(refusal, path, "stopDetails")
    for name in ("type", "category", "explanation"):
        if name in refusal["stopDetails"]:
            _expect_text(refusal["stopDetails"], f"{path}.stopDetails", name)


def _check_error(event: dict[str, Any], path: str) -> None:
    _expect_object(event, path, "error")
    error = event["error"]
    _expect_text(error, f"{path}.error", "code", nonempty=True)
    _expect_text(error, f"{path}.error", "message")
    _expect(isinstance(error.get("retryable"), bool), error, f"{path}.error", "retryable", "true or false")


_EVENT_CHECKS: Mapping[str, Callable[[dict[str, Any], str], None]] = {
    "text-delta": _check_text_delta,
    "reasoning-delta": _check_text_delta,
    "tool-call-start": _check_call_start,
    "tool-call-delta": _check_call_delta,
    "tool-call-end": _check_call_end,
    "usage": _check_usage_update,
    "finish": _check_finish,
    "error": _check_error,
}


def _expect(holds: Any, owner: Mapping[str, Any], path: str, name: str, what: str) -> None:
    if not holds:
        field = f"{path}.{name}" if path else name
        raise WrongField(field, f"expected {what}, got {_show(owner.get(name, _MISSING))}")


def _expect_text(owner: Mapping[str, Any], path: str, name: str, *, nonempty: bool = False) -> None:
    value = owner.get(name, _MISSING)
    fits = isinstance(value, str) and (value != "" or not nonempty)
    _expect(fits, owner, path, name, "a nonempty text" if nonempty else "a text")


def _expect_object(owner: Mapping[str, Any], path: str, name: str) -> None:
    _expect(isinstance(owner.get(name), dict), owner, path, name, "an object")


def _finite(value: Any) -> float | None:
    """Return a finite number as it is, and None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if value - value == 0 else None


def _is_integer(value: Any) -> bool:
    number = _finite(value)
    return number is not None and number == int(number) and abs(number) <= MAX_SAFE_INTEGER


def with_integers(value: Any) -> Any:
    """Return a JSON value with its integral doubles as integers (``10.0`` is 10 to ECMAScript)."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_SAFE_INTEGER:
        return int(value)
    if isinstance(value, dict):
        return {key: with_integers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_integers(item) for item in value]
    return value


def _show(value: Any) -> str:
    if value is _MISSING:
        return "nothing (it is missing)"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        text = default_redact(value)
        return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
