"""Following a root by looking through it at intervals."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from toolwatch._snapshot import compare, take_snapshot
from toolwatch._tree import Changes, RootLostError

if TYPE_CHECKING:
    from toolwatch._snapshot import Snapshot

__all__ = ["PolledTree"]

_SHORTEST = 0.3
_LONGEST = 10.0
_SHARE = 20
"""What looking may cost: one part in so many of the time, until `_LONGEST`."""


class PolledTree:
    """Everything below a root, symbolic links to folders included, by comparing snapshots."""

    polling = True

    def __init__(self, root: str, *, interval: float = _SHORTEST) -> None:
        """Look through the root for the first time.

        Args:
            root: Its absolute path.
            interval: The shortest time between two looks; a large root takes longer.

        Raises:
            OSError: The root is no folder.
        """
        self._root = root
        self._interval = interval
        self._cost = 0.0
        self.due = 0.0
        self.snapshot = self._look()

    def collect(self, now: float) -> Changes:
        """Give what has changed since the last look; nothing, when it is not time for another."""
        if now < self.due:
            return Changes(set())
        before = self.snapshot
        try:
            self.snapshot = self._look()
        except OSError as error:
            raise RootLostError from error
        return compare(before, self.snapshot)

    def hurry(self, now: float) -> None:
        """Look again soon, yet not so soon that looking is all that is done."""
        self.due = min(self.due, now + 2 * self._cost)

    def close(self) -> None:
        """Nothing is lent."""

    def _look(self) -> Snapshot:
        began = time.monotonic()
        snapshot = take_snapshot(self._root)
        ended = time.monotonic()
        self._cost = ended - began
        self.due = ended + max(self._interval, min(_SHARE * self._cost, _LONGEST))
        return snapshot
