"""A circuit breaker: what failed a moment ago is not tried again at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolembed._backoff import Backoff


class CircuitBreaker:
    """Keeps track of whether something that failed may be tried again yet.

    Args:
        backoff: How long to wait after each failure in a row.

    Attributes:
        failures: The number of failures since the last success.
    """

    def __init__(self, backoff: Backoff) -> None:
        self.failures: int = 0
        self._backoff = backoff
        self._until = 0.0

    @property
    def remaining(self) -> float:
        """The seconds until the next try; 0 if it may be tried now."""
        return max(0.0, self._until - time.monotonic())

    def failed(self, retry_after: float | None = None) -> None:
        """Record a failure; attempts that fail at the same time count as one.

        Args:
            retry_after: The seconds that the provider asked to wait.
        """
        if not self.remaining:
            self.failures += 1
            self._until = time.monotonic() + self._backoff.delay(self.failures)
        self._until = max(self._until, time.monotonic() + (retry_after or 0.0))

    def succeeded(self) -> None:
        """Record a success."""
        self.failures = 0
        self._until = 0.0
