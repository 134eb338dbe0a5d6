"""One state of an index's pages on the server: reading them, and writing the next state."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolindex import empty_pages

from toolindex_postgres._page_cache import CACHED

if TYPE_CHECKING:
    from collections.abc import Collection

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._page_cache import PageCache
    from toolindex_postgres._tree import State

_AHEAD = 32
_PORTION = 64
_STATES = 200
# A change to more pages than this only records that any page may have changed.
_LISTED = 20_000
_LARGEST_STEP = 1 << 19
# SQLite may write a later page before an earlier one, which is then read as zeros, as in a file.
_ZEROS = bytes(len(empty_pages()[0]))


@dataclass(slots=True)
class PageView:
    """One state of the pages.

    Attributes:
        connection: A connection to the server, in a transaction.
        tree: The state of the tree in it.
        state: The state of the pages; 0 if there are none yet.
        follows: The state of the tree that they represent.
        is_written: Whether this is the one view that can be written.
    """

    connection: Connection
    tree: State
    state: int
    follows: int
    is_written: bool
    _cache: PageCache
    _size: int
    _dirty: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _written: set[int] = field(default_factory=set[int])
    _own: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _next: int = 0
    _soon: dict[int, int] = field(default_factory=dict[int, int])
    _ahead: int = 1
    _followed: int = field(init=False)

    def __post_init__(self) -> None:
        self._followed = self.follows

    @property
    def is_behind(self) -> bool:
        """Whether the tree has changed since the pages were written."""
        return self.follows != self.tree.generation

    def size(self) -> int:
        """Return how many pages there are."""
        return self._size

    def read(self, number: int) -> bytes:
        """Return a page, by its number from 0."""
        if (page := self._dirty.get(number)) is not None:
            return page
        if not self.state and not self._written:
            first = empty_pages()
            return first[number] if number < len(first) else _ZEROS
        page = self._known(number)
        return self._fetch(number) if page is None else page

    def holds(self, number: int) -> bool:
        """Return whether a page can be read without fetching it."""
        return number in self._dirty or not self.state or self._known(number) is not None

    def fetch(self, numbers: Collection[int]) -> None:
        """Fetch pages before they are read, up to 64 at a time."""
        wanted = sorted(numbers)
        for start in range(0, len(wanted), _PORTION):
            self._get(wanted[start : start + _PORTION])

    def write(self, number: int, page: bytes) -> None:
        """Replace a page, or add one."""
        self._begin()
        self._dirty[number] = page
        self._size = max(self._size, number + 1)
        if len(self._dirty) >= CACHED:
            self.flush()

    def cut(self, size: int) -> None:
        """Truncate to a number of pages."""
        self._begin()
        for number in range(size, self._size):
            self._dirty.pop(number, None)
            self._own.pop(number, None)
        # If pages with these numbers are added later, the old contents must not reappear.
        self._written.update(range(size, self._size))
        self.connection.execute(
            "DELETE FROM toolindex.page WHERE tree_id = %s AND n >= %s", (self.tree.tree, size)
        )
        self._size = size

    def flush(self) -> None:
        """Send the written pages to the server, inside the transaction."""
        numbers = sorted(self._dirty)
        for start in range(0, len(numbers), _PORTION):
            part = numbers[start : start + _PORTION]
            self.connection.execute(
                "INSERT INTO toolindex.page SELECT %s, given.n, given.data "
                "FROM unnest(%s::int[], %b::bytea[]) AS given (n, data) "
                "ON CONFLICT (tree_id, n) DO UPDATE SET data = excluded.data",
                (self.tree.tree, part, [self._dirty[it] for it in part]),
            )
        self._written.update(numbers)
        for number in numbers:
            self._keep(number, self._dirty[number])
        self._dirty.clear()

    def finish(self) -> None:
        """Turn the written pages into a new state, inside the transaction."""
        if self.follows != self._followed:
            # A new state is needed even if no page has changed, because the pages would otherwise
            # count as older than the tree.
            self._begin()
        elif not self._dirty and not self._written:
            return
        self.flush()
        changed = sorted(self._written) if len(self._written) <= _LISTED else None
        # The step is random, as for the state of the tree.
        self._next = state = self.state + 1 + secrets.randbelow(_LARGEST_STEP)
        self.connection.execute(
            "INSERT INTO toolindex.image (tree_id, generation, follows, size, changed) "
            "VALUES (%s, %s, %s, %s, %s)",
            (self.tree.tree, state, self.follows, self._size, changed),
        )
        self.connection.execute(
            "DELETE FROM toolindex.image WHERE tree_id = %(tree)s AND generation < "
            "(SELECT min(generation) FROM (SELECT generation FROM toolindex.image "
            "WHERE tree_id = %(tree)s ORDER BY generation DESC LIMIT %(states)s) AS last)",
            {"tree": self.tree.tree, "states": _STATES},
        )

    def publish(self) -> None:
        """Cache the written pages, which have been committed."""
        if self._next:
            self._cache.replace(self.state, self._next, self._written, self._own)

    def _begin(self) -> None:
        if not self.state and not self._written and not self._dirty:
            self._dirty.update(enumerate(empty_pages()))

    def _fetch(self, number: int) -> bytes:
        # Tables and posting lists are read in order, so each fetch is twice as large as the
        # previous one.
        before = self._soon.get(number, 0)
        self._ahead = min(max(2 * before, 1), _AHEAD)
        run = self._cache.run(number, 3 * self._ahead)
        # Several runs are read at the same time, because parts of a posting list are merged.
        self._soon.update(dict.fromkeys(run[self._ahead :], self._ahead))
        return self._get(run[: self._ahead]).get(number, _ZEROS)

    def _get(self, numbers: list[int]) -> dict[int, bytes]:
        pages: dict[int, bytes] = dict(
            self.connection.execute(
                "SELECT n, data FROM toolindex.page WHERE tree_id = %s AND n = ANY (%s)",
                (self.tree.tree, numbers),
                binary=True,
            ).fetchall()
        )
        for number, page in pages.items():
            self._cache.learn(page)
            if number in self._written:
                self._keep(number, page)
            else:
                self._cache.put(number, self.state, page)
        return pages

    def _known(self, number: int) -> bytes | None:
        if number in self._written:
            return self._own.get(number)
        return self._cache.get(number, self.state)

    def _keep(self, number: int, page: bytes) -> None:
        # Pages that were sent last are likely to be read first.
        self._own.pop(number, None)
        self._own[number] = page
        if len(self._own) > CACHED:
            del self._own[next(iter(self._own))]
