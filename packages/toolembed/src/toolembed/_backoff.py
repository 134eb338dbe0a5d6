"""Retry delays, and the circuit breaker, which prevents immediate retries after a failure."""

from __future__ import annotations

import time
from dataclasses import dataclass

# 2¹⁰⁰⁰ is about the largest power that a float holds.
_MOST_DOUBLINGS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Retry delays with exponential backoff: twice as long after each failure.

    Attributes:
        first: Seconds to wait after the first failure.
        longest: The maximum number of seconds to wait.
        jitter: Whether each delay is chosen at random between 0 and that length ("full jitter"),
            so that clients which failed together do not retry together.
        tries: The maximum number of attempts, including the first.
        patience: How many seconds all delays together may take.
    """

    first: float = 1.0
    longest: float = 60.0
    jitter: bool = False
    tries: int = 4
    patience: float = 30.0

    def delay(self, failures: int, retry_after: float | None = None) -> float:
        """Return the seconds to wait after a number of failures in a row.

        Args:
            failures: How many there were, at least 1.
            retry_after: The seconds that a provider asked for; the delay is never shorter.
        """
        from random import uniform

        longest = min(self.longest, self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        chosen = uniform(0, longest) if self.jitter else longest  # noqa: S311 - no secret
        return max(chosen, retry_after or 0.0)

    def breaker(self) -> CircuitBreaker:
        """Return a new circuit breaker with these delays.

        It has `.failed(retry_after)` and `.succeeded()` to record outcomes, `.remaining`, the
        seconds until the next try, and `.failures`, their number since the last success.
        """
        return CircuitBreaker(self)


class CircuitBreaker:
    """Tracks whether it is time to retry something that failed."""

    def __init__(self, backoff: Backoff) -> None:
        self.failures: int = 0
        self._backoff = backoff
        self._until = 0.0

    @property
    def remaining(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def failed(self, retry_after: float | None = None) -> None:
        """Record a failure; attempts that fail at the same time count as one."""
        if not self.remaining:
            self.failures += 1
            self._until = time.monotonic() + self._backoff.delay(self.failures)
        self._until = max(self._until, time.monotonic() + (retry_after or 0.0))

    def succeeded(self) -> None:
        self.failures = 0
        self._until = 0.0
