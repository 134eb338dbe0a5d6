"""How long changes are gathered before they are handed over as one batch."""

from __future__ import annotations

DEBOUNCE_MS = 50
"""How long changes that follow each other are gathered, unless the caller says otherwise."""

STEP_MS = 10
"""How long without a change ends a batch, unless the caller says otherwise."""

# This many batches in a row come immediately; later ones come further apart.
_PROMPT_BATCHES = 4
_LONGEST_HOLD = 0.25


class Pace:
    """Decides how long changes are gathered: briefly, or longer if they never end.

    A save becomes a batch after a moment without changes. If batches follow each other, as for a
    file that is written all the time, they come further apart after the first few, down to four
    a second.
    """

    def __init__(self, *, debounce: float, step: float) -> None:
        """Take the times to wait, in seconds.

        Args:
            debounce: How long changes are gathered at most.
            step: How long without changes until a batch ends.
        """
        self._debounce = debounce
        self._step = step
        self._streak = 0
        self._gave = float("-inf")

    def due(self, first: float, last: float) -> float:
        """Return the time at which changes between these two times are a batch."""
        hold = self._hold(first)
        longest = first + max(self._debounce, hold)
        return max(min(last + self._step, longest), first + hold)

    def gave(self, first: float, now: float) -> None:
        """Note that a batch, whose first change was then, is given now."""
        self._streak = self._streak + 1 if self._follows(first) else 0
        self._gave = now

    def _hold(self, first: float) -> float:
        beyond = self._streak + 1 - _PROMPT_BATCHES if self._follows(first) else -1
        if beyond < 0:
            return 0.0
        return min(self._debounce * 2.0 ** min(beyond, 16), max(_LONGEST_HOLD, self._debounce))

    def _follows(self, first: float) -> bool:
        return first - self._gave <= _LONGEST_HOLD
