"""The pages of an index in PostgreSQL: fetched as needed, and written by one host at a time.

Fetched pages are cached up to a limit, with the states for which they are valid. Each read is one
transaction, which fetches the newest state and drops pages written since, so all that it reads is
from that state. A host that writes has locked the tree; its pages and the corresponding rows are
committed together, or not at all.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING

from toolindex import empty_pages

from toolindex_postgres import _tree as tree_
from toolindex_postgres._page_cache import PageCache
from toolindex_postgres._page_view import PageView
from toolindex_postgres._pool import Connections
from toolindex_postgres._texts import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._tree import State

_IMAGE = (
    "SELECT i.generation, i.follows, i.size FROM toolindex.image AS i "
    "JOIN toolindex.tree AS t USING (tree_id) WHERE t.name = %s ORDER BY i.generation DESC LIMIT 1"
)


class ServerPages:
    """The pages of one tree, as `toolindex.Pages`.

    Args:
        connections: The server.
        tree: The tree.
        read_only: Whether nothing is written.

    Attributes:
        catch_up: Called by a read that finds the pages older than the tree, before it reads.
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
        self._thread = local()

    @property
    def read_only(self) -> bool:
        """Whether nothing is written."""
        return self._read_only

    @property
    def epoch(self) -> int:
        """A number that changes when written or read pages were not committed."""
        return self._cache.epoch

    @property
    def viewed(self) -> PageView:
        """The view that this thread last read or wrote."""
        view: PageView = self._thread.view
        return view

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
        if (view := self._connections.view) is not None:
            self._thread.view = view
        else:
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
        self._thread.view = view
        self.looked_at, self.is_behind = time.time(), view.is_behind
        return view


class PageConnections(Connections):
    """Connections on which a thread's transaction lasts until its outermost writing block ends.

    Pages and the corresponding rows are then committed together.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.cache = PageCache()
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
            if self.view is not None:
                self.view.publish()
        except BaseException:
            if self.view is not None:
                self.cache.forget()
            raise
        finally:
            self._thread.written = self._thread.view = None
