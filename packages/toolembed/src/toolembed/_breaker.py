"""Leaving alone what failed a moment ago, so that nobody waits for it in vain."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolembed._backoff import Backoff


class CircuitBreaker:
    """Keeps track of whether something that failed may be tried again yet.

    Args:
        backoff: For how long it is left alone after each failure in a row.

    Attributes:
        failures: How many there were since it last worked.
    """

    def __init__(self, backoff: Backoff) -> None:
        self.failures: int = 0
        self._backoff = backoff
        self._until = 0.0

    @property
    def remaining(self) -> float:
        """For how many seconds it is left alone; 0 where it may be tried."""
        return max(0.0, self._until - time.monotonic())

    def failed(self, retry_after: float | None = None) -> None:
        """Leave it alone for a while; attempts that fail at the same time count as one failure.

        Args:
            retry_after: For how many seconds it asked to be left alone.
        """
        if not self.remaining:
            self.failures += 1
            self._until = time.monotonic() + self._backoff.delay(self.failures)
        self._until = max(self._until, time.monotonic() + (retry_after or 0.0))

    def succeeded(self) -> None:
        """Note that it works."""
        self.failures = 0
        self._until = 0.0
