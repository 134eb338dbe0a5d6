"""How long changes are collected into one batch."""

from __future__ import annotations

DEBOUNCE_MS = 50
"""The default limit for collecting consecutive changes."""

STEP_MS = 10
"""The default silence that ends a batch."""

# This many batches in a row are delivered immediately; later ones less frequently.
_PROMPT_BATCHES = 4
_LONGEST_HOLD = 0.25


class Pace:
    """Decides how long changes are collected: briefly, or longer if they never end.

    A save becomes a batch after a moment without changes. If batches follow each other, for example
    because a file is written constantly, they become less frequent after the first few, down to
    four per second.
    """

    def __init__(self, *, debounce: float, step: float) -> None:
        """Set the times that `awatch_tools` describes, in seconds."""
        self._debounce = debounce
        self._step = step
        self._streak = 0
        self._gave = float("-inf")

    def due(self, first: float, last: float) -> float:
        """Return the time at which changes between these two times become a batch."""
        hold = self._hold(first)
        longest = first + max(self._debounce, hold)
        return max(min(last + self._step, longest), first + hold)

    def gave(self, first: float, now: float) -> None:
        """Record that a batch with this first change is delivered now."""
        self._streak = self._streak + 1 if self._follows(first) else 0
        self._gave = now

    def _hold(self, first: float) -> float:
        beyond = self._streak + 1 - _PROMPT_BATCHES if self._follows(first) else -1
        if beyond < 0:
            return 0.0
        return min(self._debounce * 2.0 ** min(beyond, 16), max(_LONGEST_HOLD, self._debounce))

    def _follows(self, first: float) -> bool:
        return first - self._gave <= _LONGEST_HOLD
