"""Fetched pages of an index, and which of them are still valid."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from itertools import pairwise
from struct import error, unpack_from
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from toolindex_postgres._connection import Connection

CACHED = 4_096
"""How many pages are cached, and how many a writer holds before it sends them."""
# The first byte of SQLite's interior pages, which list other pages: of indexes and of tables.
_INNER = b"\x02\x05"


class PageCache:
    """Fetched pages, each with the state in which it was fetched or written.

    Attributes:
        state: The newest state that was read, for which all cached pages are valid.
        moves: Counts how often a different state was found.
        epoch: Counts how often the server had lost states, or rejected one.
    """

    def __init__(self) -> None:
        self.state = 0
        self.moves = 0
        self.epoch = 0
        self._pages: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._lock = Lock()
        self._after: dict[int, int] = {}

    def learn(self, page: bytes) -> None:
        """Learn the order of the pages of a table or an index, if this page lists them."""
        # A damaged page is ignored here, because SQLite reports it.
        with suppress(IndexError, error):
            if page[0] not in _INNER:
                return
            count, last = unpack_from(">3xH3xI", page)
            cells = unpack_from(f">{count}H", page, 12)
            order = [*(unpack_from(">I", page, cell)[0] for cell in cells), last]
            self._after.update((one - 1, next_ - 1) for one, next_ in pairwise(order))

    def run(self, number: int, length: int) -> list[int]:
        """Return the pages that are most likely to be read next, starting with `number`."""
        pages = [number]
        while len(pages) < length:
            pages.append(self._after.get(pages[-1], pages[-1] + 1))
        return pages

    def get(self, number: int, state: int) -> bytes | None:
        """Return a page in a state, if it is cached."""
        with self._lock:
            since, page = self._pages.get(number, (state + 1, b""))
            if not since <= state <= self.state:
                return None
            self._pages.move_to_end(number)
            return page

    def put(self, number: int, state: int, page: bytes) -> None:
        """Cache a page of the newest state."""
        with self._lock:
            if state == self.state:
                self._pages[number] = state, page
                if len(self._pages) > CACHED:
                    self._pages.popitem(last=False)

    def move_on(self, connection: Connection, tree: int, state: int, moves: int) -> None:
        """Drop pages that have changed up to a state.

        Args:
            connection: The connection of the read that found it.
            tree: The number of the tree.
            state: The state that the read found.
            moves: The value of `moves` when the read began.
        """
        known = self.state
        if not self._is_news(state, moves):
            return
        rows: list[tuple[int, list[int] | None]] = []
        # A process that has just started has no page that could have changed.
        if known:
            rows = connection.execute(
                "SELECT generation, changed FROM toolindex.image "
                "WHERE tree_id = %s AND generation >= %s",
                (tree, known),
            ).fetchall()
        changed = [numbers for generation, numbers in rows if generation > known]
        with self._lock:
            if not self._is_news(state, moves):
                # Another read was faster.
                return
            if None in changed or not any(generation == known for generation, _ in rows):
                # The server was replaced by one that lacks the known state, or that state is too
                # old.
                self._pages.clear()
                self.epoch += 1
            for numbers in changed:
                for number in numbers or ():
                    self._pages.pop(number, None)
            self.state = state
            self.moves += 1

    def replace(
        self, state: int, by: int, written: Collection[int], pages: Mapping[int, bytes]
    ) -> None:
        """Take over a state that this process has committed.

        Args:
            state: The previous state.
            by: The committed state.
            written: The pages that have changed.
            pages: Contents of some of them.
        """
        with self._lock:
            if state != self.state:
                return
            for number in written:
                self._pages.pop(number, None)
            for number, page in pages.items():
                self._pages[number] = by, page
            while len(self._pages) > CACHED:
                self._pages.popitem(last=False)
            self.state = by
            self.moves += 1

    def _is_news(self, state: int, moves: int) -> bool:
        # An older state means that the server has lost states, unless another read has found a
        # newer one since this read began.
        return state > self.state or (state < self.state and moves == self.moves)

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._pages.clear()
            self.epoch += 1
