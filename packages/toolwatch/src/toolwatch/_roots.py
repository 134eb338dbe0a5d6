"""One root, which may be missing, removed or restored."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from toolwatch._batch import ChangeBatch
from toolwatch._tree import Changes, RootLostError, Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolwatch._debounce import Pace

_log = logging.getLogger("toolwatch")
_ABSENCE_SECONDS = 0.1
"""How often to look for a missing root, which costs one `stat`."""

_MOST_PATHS = 1000
"""With more paths than this, a full rescan is cheaper for the consumer."""


class WatchedRoot:
    """Collects the changes below one root, even if the root itself is moved or replaced.

    Attributes:
        path: The absolute path of the root.
        is_file: Whether the path is something other than a folder.
    """

    def __init__(self, path: Path, *, follow: Callable[[str], Tree], pace: Pace) -> None:
        """Create without reading anything; the first `look` does that."""
        self.path = path
        self.is_file = False
        self._follow = follow
        self._pace = pace
        self._tree: Tree | None = None
        self._next_try = 0.0
        self._said: str | None = None
        self._paths: set[str] = set()
        self._everything = True
        self._given_once = False
        self._first: float | None = None
        self._last = 0.0

    def look(self, now: float) -> None:
        """Record what has changed so far."""
        if self._tree is None:
            if now >= self._next_try:
                self._arm(now)
            return
        try:
            changes = self._tree.collect(now)
        except (RootLostError, OSError):
            self.close()
            self._note(Changes(set(), everything=True), now)
            self._arm(now)
        else:
            self._note(changes, now)
            self._say_why()

    @property
    def due(self) -> float:
        """Return the time at which `look` or `batch` has to be called next."""
        look = self._next_try if self._tree is None else self._tree.due
        if self._first is not None:
            return min(look, self._pace.due(self._first, self._last))
        return look

    def batch(self, now: float) -> ChangeBatch | None:
        """Return the changes that have settled, once."""
        if self._given_once:
            if self._first is None or now < self._pace.due(self._first, self._last):
                return None
            self._pace.gave(self._first, now)
        self._given_once = True
        rescan = self._everything
        paths, self._paths = self._paths, set()
        self._everything, self._first = False, None
        return ChangeBatch(
            root=self.path,
            paths=frozenset() if rescan else _topmost(paths),
            rescan=rescan,
            polling=self._tree is not None and self._tree.polling,
        )

    def close(self) -> None:
        """Stop watching."""
        if self._tree is not None:
            self._tree.close()
            self._tree = None

    def _note(self, changes: Changes, now: float) -> None:
        if not changes.paths and not changes.everything:
            return
        self._first = now if self._first is None else self._first
        self._last = now
        self._paths.update(map(_sayable, changes.paths))
        if changes.everything or "" in self._paths or len(self._paths) > _MOST_PATHS:
            self._everything = True
            self._paths = set()

    def _arm(self, now: float) -> None:
        """Follow the root if it exists; otherwise look for it again soon."""
        was_file, self.is_file = self.is_file, False
        self._next_try = now + _ABSENCE_SECONDS
        try:
            self.is_file = not stat.S_ISDIR(os.stat(self.path).st_mode)  # noqa: PTH116
            if not self.is_file:
                self._tree = self._follow(str(self.path))
        except OSError:
            return
        if self._tree is not None:
            self._note(Changes(set(), everything=True), now)
            self._say_why()
        elif not was_file:
            _log.warning("%s is not a folder; it is watched once it is one", self.path)

    def _say_why(self) -> None:
        reason = self._tree.reason if self._tree is not None else None
        if reason is not None and reason != self._said:
            self._said = reason
            _log.warning("%s is polled: %s", self.path, reason)


def _sayable(path: str) -> str:
    """Return the path, or its nearest UTF-8 folder, because few programs accept other names."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        return path[: error.start].rpartition("/")[0]
    return path


def _topmost(paths: set[str]) -> frozenset[PurePosixPath]:
    """Remove paths inside a listed folder, which includes them."""
    pure = {PurePosixPath(path) for path in paths}
    return frozenset(path for path in pure if pure.isdisjoint(path.parents))
