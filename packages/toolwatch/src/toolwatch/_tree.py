"""Following everything below one root: hints say where to look, slow full scans find the rest."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from toolwatch._content import Content, join, parent_of
from toolwatch._listener import Listener
from toolwatch.errors import WatchUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CHECK_SECONDS = 0.1
"""How often to check the targets of the root and the links, which are never reported."""

_AGAIN_SECONDS = 0.1
"""When a hinted folder is checked again: hints are lost while a batch is delivered."""

_AGED_SECONDS = 2.6
"""When a folder with a file whose next change might go unnoticed is checked again."""

_SHORT_SECONDS = 0.3
_LONG_SECONDS = 5.0
"""Seconds between two full scans: if hints are missing, and if they are complete."""

_GROWTH = 1.05
"""How much the interval grows with each scan that finds nothing."""

_PROOF_SECONDS = 2.0
"""How late a hint may arrive before a change found by a scan counts as unreported."""

_RETRY_SECONDS = 30.0
"""When watchfiles is retried after it could not listen."""

_MOST_HINTS = 1000
"""With more paths at once, the system's queue may have overflowed."""


class Changes(NamedTuple):
    """The changes that were found.

    Attributes:
        paths: Relative to the root, with `/`; the root itself is the empty string.
        everything: Whether anything else may have changed too.
    """

    paths: set[str]
    everything: bool = False


class _Cost:
    """How long a repeated task takes, in seconds: the shorter of its last two runs.

    If the machine stalls during a run, that must not delay the next one by minutes.
    """

    def __init__(self) -> None:
        self.seconds = self._last = 0.0

    def note(self, seconds: float) -> None:
        """Record how long it took this time."""
        self.seconds, self._last = min(seconds, self._last), seconds


class RootLostError(Exception):
    """The followed folder is no longer the root."""


class Tree:
    """Follows everything below a root, including symbolic links to folders.

    Only folders that watchfiles reports are read. Every few seconds a full scan reads everything.
    If it finds a change that was not reported, as on a network file system, full scans follow
    each other quickly, and more slowly again once they find nothing.
    """

    def __init__(self, root: str, wake: Callable[[], None], *, polling: bool | None = None) -> None:
        """Scan the root for the first time, and begin to listen.

        Args:
            root: Its absolute path.
            wake: Called from another thread when there is something to collect.
            polling: True to use no hints, False to rely on them whenever they are available.

        Raises:
            OSError: The root is not a folder.
            WatchUnavailableError: No more files can be opened.
        """
        self._root = root
        self._wake = wake
        self._by_choice = polling
        now = time.monotonic()
        self._top = _identity(root)
        self._content = Content(root)
        error = self._content.troubled.get("")
        if error is not None and error.errno in {errno.EMFILE, errno.ENFILE}:
            raise WatchUnavailableError(error.strerror or str(error))
        self._listener: Listener | None = None
        self._failure: str | None = None
        self._interval = _LONG_SECONDS
        self._again: dict[str, tuple[float, bool]] = {}
        self._suspects: set[str] = set()
        self._verdict_at = self._hear_at = self._listen_at = self._check_at = 0.0
        self._is_stale = self._is_proven = False
        self._scan_cost, self._check_cost = _Cost(), _Cost()
        self._scan_cost.note(time.monotonic() - now)
        if polling is not True:
            self._listen()
        self._due = self._next_round()

    @property
    def reason(self) -> str | None:
        """Why the root is polled, if that was not requested."""
        if self._by_choice or self._failure is not None:
            return self._failure
        for path, error in self._content.troubled.items():
            return f"{os.path.join(self._root, path)} cannot be read ({error.strerror})"  # noqa: PTH118
        if self._interval < _LONG_SECONDS:
            return "the system does not report every change"
        return None

    @property
    def polling(self) -> bool:
        """Whether the root is polled."""
        return self._by_choice is True or self.reason is not None

    @property
    def due(self) -> float:
        """The latest time to call `collect` (`time.monotonic`)."""
        times = [self._due, *(due for due, _ in self._again.values())]
        if self._suspects:
            times.append(self._verdict_at)
        if self._is_stale:
            times.append(self._listen_at)
        if self._listener is not None:
            times.append(self._hear_at if self._listener.waiting else self._check_at)
        return min(times)

    def collect(self, now: float) -> Changes:
        """Return what has changed since the last call.

        Raises:
            RootLostError: The root was removed or replaced; start over with a new tree.
        """
        content, listener = self._content, self._listener
        crowded, troubled = content.crowded, set(content.troubled)
        changed = self._look_where_hinted(now)
        if now >= self._due:
            changed |= self._look_through(now)
        if self._suspects and now >= self._verdict_at + _PROOF_SECONDS:
            # This thread has been stalled, and perhaps the one that brings hints too.
            self._verdict_at = now + _PROOF_SECONDS
        if self._suspects and now >= self._verdict_at:
            self._suspects = set()
            self._is_stale = True
            if self._by_choice is None:
                self._interval = _SHORT_SECONDS
        if changed and listener is not None:
            # Unreadable folders, and targets of new links, were not listened to.
            self._is_stale |= not troubled.issubset(content.troubled)
            self._is_stale |= content.crowded or content.targets() != listener.folders
        if listener is not None and listener.error is not None:
            self._failure = str(listener.error)
            self._is_stale = True
        if self._is_stale and now >= self._listen_at:
            self._listen()
        return Changes(changed, everything=bool(changed) and (crowded or content.crowded))

    def close(self) -> None:
        """End the thread that listens."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _look_where_hinted(self, now: float) -> set[str]:
        changed: set[str] = set()
        for path, (due, deep) in tuple(self._again.items()):
            if due <= now:
                del self._again[path]
                changed |= self._content.look([path], deep=deep)
        if self._listener is None:
            return changed
        if now >= self._check_at:
            changed |= self._check(now)
        if now >= self._hear_at and (paths := self._listener.take()):
            changed |= self._follow(paths, self._listener.folders, now)
        return changed

    def _follow(self, paths: set[str], tops: frozenset[str], now: float) -> set[str]:
        """Check the folders that hints name; `tops` are those being listened to."""
        if not paths.isdisjoint(tops):
            if os.path.realpath(self._root) in paths:
                raise RootLostError
            self._is_stale = True
        if len(paths) > _MOST_HINTS:
            self._due, self._is_proven, self._suspects = now, False, set()
            return set()
        folders: set[str] = set()
        known: dict[str, Iterable[str]] = {}
        for path in paths:
            above, name = os.path.split(path)
            if above not in known:
                known[above] = self._names_of_nearest(above)
            folders.update(known[above])
            # watchfiles may be listening to a link's former target.
            children = (join(folder, name) for folder in known[above])
            self._is_stale |= any(child in self._content.links for child in children)
        began = time.thread_time()
        # A named folder may have been another one for a while, or be new.
        named = {name for path in paths for name in self._content.names_of(path)}
        changed = self._content.look(named, deep=True) | self._content.look(folders - named)
        named |= {name for path in paths for name in self._content.names_of(path)}
        # Endless saves in a large folder take at most a third of the time.
        self._hear_at = now + 3 * (time.thread_time() - began)
        for path in folders | named:
            self._again[path] = now + _AGAIN_SECONDS, path in named
        self._suspects = {p for p in self._suspects if parent_of(p) not in folders | named}
        self._expect_age(now)
        return changed

    def _names_of_nearest(self, folder: str) -> tuple[str, ...]:
        """Return the names of a folder or, if it is gone, of the nearest one above it."""
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):  # noqa: PTH112, PTH120
            folder = os.path.dirname(folder)  # noqa: PTH120
        return tuple(self._content.names_of(folder))

    def _look_through(self, now: float) -> set[str]:
        began = time.monotonic()
        try:
            found = self._content.look_through()
        except OSError as error:
            raise RootLostError from error
        self._scan_cost.note(time.monotonic() - began)
        if self._is_proven and self._listener is not None:
            # A folder stands for everything in it; a hint for another change there may still
            # arrive.
            suspects = {path for path in found if parent_of(path) not in {*found, *self._again}}
            if suspects and not self._suspects:
                self._verdict_at = now + _PROOF_SECONDS
            self._suspects |= suspects
        self._is_proven = True
        if not found:
            self._interval = min(self._interval * _GROWTH, _LONG_SECONDS)
        self._expect_age(now)
        self._due = self._next_round()
        return found

    def _next_round(self) -> float:
        hurried = self._listener is None or self._is_stale or self._content.troubled
        wait = _SHORT_SECONDS if hurried else self._interval
        cost = self._scan_cost.seconds
        share = min(20 * cost, 10.0) if wait < _LONG_SECONDS else 100 * cost
        return time.monotonic() + max(wait, share)

    def _expect_age(self, now: float) -> None:
        for path in self._content.young:
            self._again.setdefault(path, (now + _AGED_SECONDS, False))

    def _check(self, now: float) -> set[str]:
        """Check the targets of the root and the links, which are never reported."""
        began = time.monotonic()
        if _identity(self._root) != self._top:
            raise RootLostError
        changed = self._content.look(self._content.turned())
        self._check_cost.note(time.monotonic() - began)
        self._check_at = now + max(_CHECK_SECONDS, 50 * self._check_cost.seconds)
        return changed

    def _listen(self) -> None:
        """Listen to the current folders of the root, then scan it again."""
        began, old = time.monotonic(), self._listener
        self._listener = self._failure = None
        if self._content.crowded:
            # watchfiles would follow every one of them.
            self._failure = "links to each other give its folders too many names"
        else:
            try:
                self._listener = Listener(self._content.targets(), self._wake)
            except (OSError, RuntimeError, ValueError) as error:
                self._failure = str(error)
        if old is not None:
            old.close()
        ended = time.monotonic()
        rest = 20 * (ended - began) if self._failure is None else _RETRY_SECONDS
        self._listen_at = ended + rest
        self._is_stale = self._failure is not None
        self._is_proven = False
        self._due = ended


def _identity(root: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(root)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mode
