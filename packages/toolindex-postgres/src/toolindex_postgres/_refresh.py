"""Fetching changes from the server, and limiting how long searches wait for them."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING

from toolindex import DatabaseBusyError, DatabaseError

from toolindex_postgres._errors import UnreachableStoreError
from toolindex_postgres._tree import Tree, poll

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from toolindex_postgres._connections import Connections
    from toolindex_postgres._copy import Copy
    from toolindex_postgres._tree import State
    from toolindex_postgres._usage import SharedUsage

# How long a search waits for changes; after that it uses the current copy.
_PATIENCE = 1.5
# How often to record when the copy was last equal to the server.
_NOTE_SECONDS = 10.0
# How many unreadable rows a note names.
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How old a copy is.

    Attributes:
        as_of: When the copy was last known to be equal to the server, in seconds since 1970; None
            if it never was.
        problem: Why it is not known to be equal now, or "".
        waiting: How many searches and outcomes of this host have not been sent yet.
        left_out: The reasons why rows of the server cannot be read, by display name.
    """

    as_of: float | None
    problem: str
    waiting: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def note(self) -> str:
        """A note on answers while the server cannot be reached, or ""."""
        if not self.problem:
            return ""
        when = "from this host's copy, which is as old as the last contact with the server"
        if self.as_of is not None:
            from datetime import UTC, datetime

            when = f"as of {datetime.fromtimestamp(self.as_of, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"this answer is {when}: {self.problem}"

    @property
    def left_out_note(self) -> str:
        """A note on rows that cannot be read, or ""."""
        if not (reasons := self.left_out):
            return ""
        first = "; ".join(f"{name}: {reasons[name]}" for name in sorted(reasons)[:_SHOWN])
        more = "; …" if len(reasons) > _SHOWN else ""
        rows = "1 row" if len(reasons) == 1 else f"{len(reasons)} rows"
        return (
            f"left out {rows} of the shared index that cannot be read ({first}{more}); run "
            "pytools-hybrid index --check on a host that has the tools"
        )


class Refresher:
    """Keeps a copy up to date with the server, without delaying searches for long.

    The server may be slow or unreachable, another host may change the tree for minutes, and a
    thousand tools may be new: longer work continues in a thread.

    The usage record is updated with other hosts' outcomes at the same time.

    Attributes:
        polled: The state of the tree when the server was last asked.
        problem: Why the copy is not known to be equal to the server, or "".
        as_of: When it was last known to be equal.
    """

    def __init__(self, copy: Copy, connections: Connections, tree: str, usage: SharedUsage) -> None:
        self.polled: State | None = None
        self.problem: str = ""
        self.as_of: float | None = None
        self._copy = copy
        self._connections = connections
        self._tree = tree
        self._usage = usage
        self._is_unreachable = False
        self._noted_at = -math.inf
        self._lock = Lock()
        self._running: tuple[Thread, Future[None]] | None = None
        self._given_up: Future[None] | None = None

    def refresh(self, *, patient: bool = False) -> None:
        """Bring the copy up to date if the server can be reached; otherwise record why not.

        Args:
            patient: Whether to wait for it, and to try at once even if the server could not be
                reached a moment ago.
        """
        store = self._copy.store
        if store.read_only:
            self.problem = f"{store.where} cannot be written"
            return
        try:
            if patient or not self._has_copy():
                self._update(None, patient=patient)
            elif not self._is_unreachable:
                self._update_within_patience()
            elif not self._connections.is_resting:
                # Do not wait for a server that was unreachable the last time.
                self._start(None)
        except DatabaseError as error:
            self._fail(error)

    def close(self) -> bool:
        """Record the time, and wait briefly for a fetch; return whether it has ended."""
        if not self.problem and not self._copy.store.read_only:
            self._note_time()
        self._connections.close()
        if self._running is not None:
            self._running[0].join(_PATIENCE)
        return self._running is None or not self._running[0].is_alive()

    def _has_copy(self) -> bool:
        if self.as_of is None:
            self.as_of = self._copy.notes.get("as_of")
        return self.as_of is not None

    def _update_within_patience(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        now: State | None = None
        # Connecting may take long, so without a connection the thread does it.
        if self._connections.is_connected:
            asked = time.time()
            now = poll(self._connections, self._tree)
            if self._copy.is_at(now):
                self._succeed(now, asked)
                if self._usage.is_behind(now):
                    # This read does not wait for it.
                    self._start(now)
                return
        while True:
            work, is_new = self._start(now)
            patience = 0.0 if work is self._given_up else deadline - time.monotonic()
            try:
                work.result(max(0.0, patience))
            except TimeoutError:
                self._given_up = work
                raise DatabaseError(
                    self._connections.where, "changes are still being fetched"
                ) from None
            # A fetch that another thread started may have begun before the last change.
            if is_new or (now is not None and self._copy.is_at(now)):
                return

    def _update(self, polled: State | None, *, patient: bool = False) -> None:
        """Bring the copy to the newest state; the server's answer is given if there is one."""
        asked = time.time()
        now = polled or poll(self._connections, self._tree, patient=patient)
        if not self._copy.is_at(now):
            with self._copy.exclusive(), self._connections.reading(copies=True) as connection:
                tree = Tree(connection, self._tree, self._connections.where)
                self._copy.bring_to(tree)
                now = tree.state
        self._succeed(now, asked)
        with suppress(DatabaseError):
            self._usage.follow(now)

    def _succeed(self, now: State, asked: float) -> None:
        self.polled, self.as_of, self.problem, self._is_unreachable = now, asked, "", False
        if time.monotonic() > self._noted_at + _NOTE_SECONDS:
            self._note_time()

    def _fail(self, error: DatabaseError) -> None:
        is_of_copy = error.where != self._connections.where
        if self._connections.closed or (is_of_copy and not isinstance(error, DatabaseBusyError)):
            raise error
        self._is_unreachable = isinstance(error, UnreachableStoreError)
        self.problem = str(error)
        self._has_copy()

    def _note_time(self) -> None:
        self._noted_at = time.monotonic()
        if self.as_of is not None:
            with suppress(DatabaseError):
                self._copy.notes.put("as_of", self.as_of)

    def _start(self, now: State | None) -> tuple[Future[None], bool]:
        """Return the fetch that is running in a thread, and whether it was just started."""
        # It takes long to import.
        from concurrent.futures import Future

        with self._lock:
            if self._running is not None:
                thread, work = self._running
                # A forked process has no such thread, and one that is done does not poll again.
                if thread.is_alive() and not work.done():
                    return work, False
            work = Future[None]()
            thread = Thread(target=self._work, args=(work, now), name="toolindex", daemon=True)
            self._running = thread, work
            thread.start()
            return work, True

    def _work(self, work: Future[None], now: State | None) -> None:
        try:
            try:
                self._update(now)
            except DatabaseError as error:
                # Record it even if nobody is waiting for the result.
                self._fail(error)
                raise
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            work.set_exception(error)
        else:
            work.set_result(None)
