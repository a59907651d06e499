"""When a failed exchange is tried again: a policy as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rulvar.contracts.stream import WireError
from rulvar.errors import ConfigError

__all__ = ["Backoff", "RetryPolicy", "retry_delay_s"]


RetryClass = Literal["transport", "rate-limit", "overloaded"]
_CLASSES = get_args(RetryClass)
_LONGEST_MS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays between attempts, in milliseconds.

    Attributes:
        initial_ms, factor, max_ms: the first delay, what each further one is multiplied by, the longest.
        jitter: whether half of each delay is left to chance.
    """

    initial_ms: float = 500
    factor: float = 2
    max_ms: float = 8_000
    jitter: bool = False

    def __post_init__(self) -> None:
        for name in ("initial_ms", "factor", "max_ms"):
            value = getattr(self, name)
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not good or not 0 <= value < float("inf") or (name == "factor" and not value):
                where = f"retry.backoff.{name}"
                least = "above 0" if name == "factor" else "from 0 up"
                raise ConfigError(f"{where}: expected a number {least}, got {value!r}", data={"field": where})
        if not isinstance(self.jitter, bool):
            raise ConfigError(
                f"retry.backoff.jitter: expected True or False, got {self.jitter!r}",
                data={"field": "retry.backoff.jitter"},
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often one model turn is tried; only errors that say they are retryable are.

    Attributes:
        attempts: tries of one turn, the first one included.
        backoff: the delays between them, where the provider does not say how long to wait.
        retry_on: the kinds of errors that are tried again.
    """

    attempts: int = 3
    backoff: Backoff = Backoff(jitter=True)
    retry_on: tuple[RetryClass, ...] = _CLASSES

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool) or self.attempts < 1:
            raise ConfigError(
                f"retry.attempts: expected an integer from 1 up, got {self.attempts!r}",
                data={"field": "retry.attempts"},
            )
        if not isinstance(self.backoff, Backoff):
            raise ConfigError(
                f"retry.backoff: expected a Backoff, got {type(self.backoff).__name__}",
                data={"field": "retry.backoff"},
            )
        kinds = self.retry_on
        if isinstance(kinds, str) or not isinstance(kinds, Iterable) or not set(kinds) <= set(_CLASSES):
            raise ConfigError(
                f"retry.retry_on: expected a list of {', '.join(_CLASSES)}, got {kinds!r}",
                data={"field": "retry.retry_on"},
            )
        object.__setattr__(self, "retry_on", tuple(kinds))

    @classmethod
    def of(cls, policy: RetryPolicy | Mapping[str, Any] | None, what: str = "retry") -> RetryPolicy:
        """Return a policy from a mapping ``{attempts, backoff: {initial_ms, factor, max_ms, jitter}, retry_on}``.

        Raises:
            ConfigError: an unknown field, or a value out of range.
        """
        if policy is None:
            return cls()
        if isinstance(policy, RetryPolicy):
            return policy
        if not isinstance(policy, Mapping) or set(policy) - {"attempts", "backoff", "retry_on"}:
            raise ConfigError(f"{what}: use the fields attempts, backoff and retry_on", data={"field": what})
        attempts = policy.get("attempts", 3)
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise ConfigError(
                f"{what}.attempts: expected an integer from 1 up", data={"field": f"{what}.attempts"}
            )
        given = dict(policy)
        backoff = given.get("backoff")
        if isinstance(backoff, Mapping):
            unknown = set(backoff) - {"initial_ms", "factor", "max_ms", "jitter"}
            if unknown:
                name = sorted(unknown)[0]
                raise ConfigError(
                    f"{what}.backoff.{name}: unknown field", data={"field": f"{what}.backoff.{name}"}
                )
            given["backoff"] = Backoff(**backoff)
        return cls(**given)


def retry_delay_s(policy: RetryPolicy, attempt: int, error: WireError, chance: float) -> float | None:
    """Return how long to wait before the next attempt, in seconds; None when there is none.

    A delay that the provider asks for stands for the policy's own.

    Args:
        attempt: the attempt that failed, from 1.
        chance: a number in [0, 1) that jitter is drawn with.
    """
    if not error.retryable or attempt >= policy.attempts or _class_of(error) not in policy.retry_on:
        return None
    asked = (error.data or {}).get("retryAfterMs")
    if isinstance(asked, (int, float)) and not isinstance(asked, bool) and 0 <= asked < float("inf"):
        delay_ms = float(asked)
    else:
        backoff = policy.backoff
        try:
            grown = backoff.initial_ms * float(backoff.factor) ** (attempt - 1)
        except OverflowError:
            grown = float("inf") if backoff.initial_ms else 0.0
        delay_ms = min(backoff.max_ms, grown)
        if backoff.jitter:
            delay_ms *= 0.5 + chance / 2
    return min(delay_ms, _LONGEST_MS) / 1000


def _class_of(error: WireError) -> RetryClass:
    kind = (error.data or {}).get("kind")
    if kind == "rate-limit" or error.code == "rate-limit":
        return "rate-limit"
    return "overloaded" if kind == "overloaded" else "transport"
