"""The pages of an index in PostgreSQL: fetched as needed, and written by one host at a time.

Fetched pages are cached up to a limit, with the states that they are valid for. Each read fetches
the newest state, and drops pages written since. It is one transaction, so everything it reads is
from that state. A host that writes holds the tree's lock; its pages and the corresponding rows are
committed together, or not at all.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from struct import error, unpack_from
from threading import Lock, local
from typing import TYPE_CHECKING

from toolindex import empty_pages

from toolindex_postgres import _tree as tree_
from toolindex_postgres._connection import Connections
from toolindex_postgres._texts import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._tree import State

_CACHED = 4_096
_AHEAD = 32
_PORTION = 256
_STATES = 200
# A change of more pages only records that all may have changed.
_LISTED = 20_000
_LARGEST_STEP = 1 << 19
# What SQLite's pages begin with that list others: those of indexes and those of tables.
_INNER = b"\x02\x05"
_IMAGE = (
    "SELECT i.generation, i.follows, i.size FROM toolindex.image AS i "
    "JOIN toolindex.tree AS t USING (tree_id) WHERE t.name = %s ORDER BY i.generation DESC LIMIT 1"
)
# As in a file, of which SQLite may write a later page first.
_ZEROS = bytes(len(empty_pages()[0]))


class _Cache:
    """Fetched pages, each with a state since which it has not changed.

    Attributes:
        state: The newest state that was read; no page has changed until then.
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
        """Note in which order a table or an index has its pages, if this is a page that says so."""
        # A damaged page is only SQLite's to report.
        with suppress(IndexError, error):
            if page[0] not in _INNER:
                return
            count, last = unpack_from(">3xH3xI", page)
            cells = unpack_from(f">{count}H", page, 12)
            order = [*(unpack_from(">I", page, cell)[0] for cell in cells), last]
            self._after.update((one - 1, next_ - 1) for one, next_ in pairwise(order))

    def run(self, number: int, length: int) -> list[int]:
        """Return which pages are most likely read, beginning with one."""
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
                if len(self._pages) > _CACHED:
                    self._pages.popitem(last=False)

    def move_on(self, connection: Connection, tree: int, state: int, moves: int) -> None:
        """Drop pages that have changed up to a state.

        Args:
            connection: The connection of the read that found it.
            tree: The number of the tree.
            state: The state.
            moves: How often there was a newer state when the read began.
        """
        known = self.state
        if not self._is_news(state, moves):
            return
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
                # The server was replaced by one that lost this state, or it is too long ago.
                self._pages.clear()
                self.epoch += 1
            for numbers in changed:
                for number in numbers or ():
                    self._pages.pop(number, None)
            self.state = state
            self.moves += 1

    def _is_news(self, state: int, moves: int) -> bool:
        # A read that began before another one found a newer state is only late. Otherwise, an older
        # state means that the server has lost states.
        return state > self.state or (state < self.state and moves == self.moves)

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._pages.clear()
            self.epoch += 1


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
    _cache: _Cache
    _size: int
    _dirty: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _written: set[int] = field(default_factory=set[int])
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
        page = None if number in self._written else self._cache.get(number, self.state)
        return self._fetch(number) if page is None else page

    def write(self, number: int, page: bytes) -> None:
        """Replace a page, or add one."""
        self._begin()
        self._dirty[number] = page
        self._size = max(self._size, number + 1)
        if len(self._dirty) >= _CACHED:
            self.flush()

    def cut(self, size: int) -> None:
        """Remove all pages from a number on."""
        self._begin()
        for number in range(size, self._size):
            self._dirty.pop(number, None)
        # If there are such pages again later, their old contents must not reappear anywhere.
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
        self._dirty.clear()

    def finish(self) -> None:
        """Turn the written pages into a new state, inside the transaction."""
        if self.follows != self._followed:
            # Even if no page has changed: otherwise they would look older than the tree for ever.
            self._begin()
        elif not self._dirty and not self._written:
            return
        self.flush()
        changed = sorted(self._written) if len(self._written) <= _LISTED else None
        # By a random step, like the tree's own.
        state = self.state + 1 + secrets.randbelow(_LARGEST_STEP)
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

    def _begin(self) -> None:
        if not self.state and not self._written and not self._dirty:
            self._dirty.update(enumerate(empty_pages()))

    def _fetch(self, number: int) -> bytes:
        # Tables are read in their order, posting lists too: more at once each time. What a look
        # that writes would fetch ahead, it could not keep.
        before = 0 if self.is_written else self._soon.get(number, 0)
        self._ahead = min(max(2 * before, 1), _AHEAD)
        run = self._cache.run(number, 3 * self._ahead)
        # Several at a time: posting lists that are in many parts are merged when they are read.
        self._soon.update(dict.fromkeys(run[self._ahead :], self._ahead))
        rows = self.connection.execute(
            "SELECT n, data FROM toolindex.page WHERE tree_id = %s AND n = ANY (%s)",
            (self.tree.tree, run[: self._ahead]),
            binary=True,
        ).fetchall()
        pages: dict[int, bytes] = dict(rows)
        for each, page in pages.items():
            self._cache.learn(page)
            if not self.is_written:
                self._cache.put(each, self.state, page)
        return pages.get(number, _ZEROS)


class ServerPages:
    """The pages of one tree, as `toolindex.Pages`.

    Args:
        connections: The server.
        tree: The tree.
        read_only: Whether nothing is written.

    Attributes:
        catch_up: Called first by a read that finds the pages older than the tree.
        looked: The state of the tree at the last read.
        looked_at: When that was, in seconds since 1970; None before the first.
        is_behind: Whether the pages were older than the tree then.
    """

    def __init__(self, connections: PageConnections, tree: str, *, read_only: bool) -> None:
        self.catch_up: Callable[[], None] | None = None
        self.looked: State = tree_.State(database="")
        self.looked_at: float | None = None
        self.is_behind: bool = False
        self._connections = connections
        self._tree = tree
        self._read_only = read_only
        self._cache = connections.cache

    @property
    def read_only(self) -> bool:
        """Whether nothing is written."""
        return self._read_only

    @property
    def epoch(self) -> int:
        """A number that changes when written or read pages were not committed."""
        return self._cache.epoch

    @contextmanager
    def reading(self, *, patient: bool = False) -> Generator[PageView]:
        """Read the newest state, or, while this thread is writing, its own changes.

        Args:
            patient: As for `Connections.reading`.
        """
        if (written := self._connections.written) is not None:
            yield self.view_of(written)
            return
        if self.catch_up is not None:
            with self._looking(patient) as view:
                if not view.is_behind:
                    yield view
                    return
            self.catch_up()
        with self._looking(patient) as view:
            yield view

    @contextmanager
    def writing(self) -> Generator[PageView]:
        """Become the only writer of the pages, committed with the thread's transaction."""
        with self._connections.writing() as connection:
            yield self.view_of(connection)

    def view_of(self, connection: Connection) -> PageView:
        """Return the view that a connection inside `PageConnections.writing` writes."""
        if (view := self._connections.view) is None:
            tree_.lock(connection, self._tree, self._connections.where)
            tree = tree_.state(connection, self._tree, self._connections.where)
            image = connection.execute(_IMAGE, (encoded(self._tree),)).fetchone()
            view = self._connections.view = self._view(
                connection, tree, image, self._cache.moves, is_written=True
            )
        return view

    @contextmanager
    def _looking(self, patient: bool) -> Generator[PageView]:
        moves, name = self._cache.moves, encoded(self._tree)
        look = f"{tree_.STATE}; {_IMAGE}"
        with self._connections.looking(look, (name, name), patient=patient) as (connection, rows):
            tree = tree_.state_of(rows[0], self._connections.where)
            yield self._view(connection, tree, rows[1], moves, is_written=False)

    def _view(
        self,
        connection: Connection,
        tree: State,
        image: tuple[int, int, int] | None,
        moves: int,
        *,
        is_written: bool,
    ) -> PageView:
        self.looked = tree
        state, follows, size = image or (0, 0, len(empty_pages()))
        if image is not None:
            self._cache.move_on(connection, tree.tree, state, moves)
        view = PageView(connection, tree, state, follows, is_written, self._cache, size)
        self.looked_at, self.is_behind = time.time(), view.is_behind
        return view


class PageConnections(Connections):
    """Connections on which a thread's transaction lasts until its outermost writing block ends.

    Pages and the corresponding rows are then committed together.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.cache = _Cache()
        self._thread = local()

    @property
    def written(self) -> Connection | None:
        """The connection on which this thread is writing, if any."""
        return getattr(self._thread, "written", None)

    @property
    def view(self) -> PageView | None:
        """The pages that this thread is writing, if any."""
        return getattr(self._thread, "view", None)

    @view.setter
    def view(self, view: PageView) -> None:
        self._thread.view = view

    @contextmanager
    def writing(self, *, patient: bool = True) -> Generator[Connection]:
        """Lend the connection of this thread's transaction, which the outermost block commits.

        Raises:
            UnreachableStoreError: The server cannot be reached; nothing is kept.
            DatabaseError: It refuses; nothing is kept.
        """
        if self.written is not None:
            yield self.written
            return
        try:
            with super().writing(patient=patient) as connection:
                self._thread.written = connection
                yield connection
                if self.view is not None:
                    self.view.finish()
        except BaseException:
            if self.view is not None:
                self.cache.forget()
            raise
        finally:
            self._thread.written = self._thread.view = None
