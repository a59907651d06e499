"""When a failed exchange is tried again: a policy as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.stream import WireError
from rulvar.errors import ConfigError

__all__ = ["Backoff", "RetryPolicy", "retry_delay_s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays between attempts, in milliseconds."""

    initial_ms: float = 500
    factor: float = 2
    max_ms: float = 30_000
    jitter: bool = True

    def __post_init__(self) -> None:
        for name in ("initial_ms", "factor", "max_ms"):
            value = getattr(self, name)
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not good or not 0 <= value < float("inf"):
                where = f"retry.backoff.{name}"
                raise ConfigError(
                    f"{where}: expected a number from 0 up, got {value!r}", data={"field": where}
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often one model turn is tried; only errors that say they are retryable are."""

    attempts: int = 3
    backoff: Backoff = Backoff()

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

    @classmethod
    def of(cls, policy: RetryPolicy | Mapping[str, Any] | None, what: str = "retry") -> RetryPolicy:
        """Return a policy from a mapping ``{attempts, backoff: {initial_ms, factor, max_ms, jitter}}``.

        Raises:
            ConfigError: an unknown field, or a value out of range.
        """
        if policy is None:
            return cls()
        if isinstance(policy, RetryPolicy):
            return policy
        if not isinstance(policy, Mapping) or set(policy) - {"attempts", "backoff"}:
            raise ConfigError(f"{what}: use the fields attempts and backoff", data={"field": what})
        attempts = policy.get("attempts", 3)
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise ConfigError(
                f"{what}.attempts: expected an integer from 1 up", data={"field": f"{what}.attempts"}
            )
        backoff = policy.get("backoff", Backoff())
        if isinstance(backoff, Mapping):
            unknown = set(backoff) - {"initial_ms", "factor", "max_ms", "jitter"}
            if unknown:
                name = sorted(unknown)[0]
                raise ConfigError(
                    f"{what}.backoff.{name}: unknown field", data={"field": f"{what}.backoff.{name}"}
                )
            backoff = Backoff(**backoff)
        return cls(attempts=attempts, backoff=backoff)


def retry_delay_s(policy: RetryPolicy, attempt: int, error: WireError, chance: float) -> float | None:
    """Return how long to wait before the next attempt, in seconds; None when there is none.

    Args:
        attempt: the attempt that failed, from 1.
        chance: a number in [0, 1) that jitter is drawn with.
    """
    if not error.retryable or attempt >= policy.attempts:
        return None
    backoff = policy.backoff
    delay_ms = min(backoff.max_ms, backoff.initial_ms * backoff.factor ** (attempt - 1))
    if backoff.jitter:
        delay_ms *= 0.5 + chance / 2
    asked = (error.data or {}).get("retryAfterMs")
    if isinstance(asked, (int, float)) and not isinstance(asked, bool) and asked > delay_ms:
        delay_ms = asked
    return delay_ms / 1000
