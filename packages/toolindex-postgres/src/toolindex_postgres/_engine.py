"""The store of a host that has no copy: it reads the pages of the index from the server."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar, cast

from toolindex import DatabaseError

from toolindex_postgres import _tree as tree_
from toolindex_postgres._copy import Copy
from toolindex_postgres._copy_changes import follow
from toolindex_postgres._near import Near, NearReader
from toolindex_postgres._near_build import NearBuilder
from toolindex_postgres._pages import PageConnections, ServerPages
from toolindex_postgres._refresh import Freshness
from toolindex_postgres._store import SharedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence
    from pathlib import Path

    from toolindex import Pages, PruneReport, StoredFiles, StoreReader, SyncReport, ToolStore
    from toolscan import ScanReport

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._pool import Connections
    from toolindex_postgres._tree import State

T = TypeVar("T")

_BEHIND = (
    "the server's pages are older than its tools; any writing host brings them up to date when it "
    "searches with mode=engine"
)

_APPROXIMATE = (
    "this index is large, so searches by meaning are approximate: some of the nearest tools may be "
    "missing"
)


class EngineStore(SharedStore):
    """A tree of tools that many hosts share, searched in the server's pages without a copy.

    The pages are those of an index in SQLite, so results, their order and scores are the same. A
    search fetches the pages that this process does not have; up to 64 MB of them are cached. With
    pgvector on the server, more than 50,000 vectors are searched there, approximately. A host
    that writes changes pages and rows in one transaction. Changes by hosts with copies reach the
    pages when a host that writes next reads. Without the server, searches fail.

    Implements the `toolindex.ToolStore` protocol. File stamps belong to the host that synced last,
    so if several hosts scan in turn, each reads the files again.

    Args:
        index: Opens the store that searches the pages, with files on this host for the usage
            record.
        address: The server: `postgresql://user@host/database`, or any other form that libpq
            accepts.
        tree: The name of the tree. Hosts that give the same name share it.
        read_only: Never write to the server.

    Raises:
        AddressError: The address is invalid.
        UnreachableStoreError: The server cannot be reached.
    """

    def __init__(
        self,
        index: Callable[[Pages], ToolStore],
        address: str,
        *,
        tree: str,
        read_only: bool = False,
    ) -> None:
        connections = PageConnections(address)
        self._pages = ServerPages(connections, tree, read_only=read_only)
        super().__init__(index(self._pages), connections, tree=tree, read_only=read_only)
        self._near = Near()
        self._builder = NearBuilder(connections, tree)
        if not read_only:
            self._pages.catch_up = self._follow_rows

    def freshness(self, *, asks: bool = True) -> Freshness:
        """Return how old answers are.

        Args:
            asks: Whether to ask the server for its state first.
        """
        problem = ""
        if asks:
            try:
                with self._pages.reading(patient=True):
                    pass
            except DatabaseError as error:
                problem = str(error)
        if not problem and self._pages.is_behind:
            problem = _BEHIND
        waiting = self._usage.waiting(sends=asks)
        return Freshness(
            as_of=self._pages.looked_at, problem=problem, waiting=waiting, has_copy=False
        )

    def bind(self, root: str) -> None:
        """Record which tree of files this host has, and check that the server has an index.

        Raises:
            ForeignRootError: This host's files belong to another tree, which still exists.
            SchemaError: The server has no index, or an older one.
            NewerSchemaError: A later version made it.
        """
        self._copy.bind(root)
        with self._connections.reading() as connection:
            self._state(connection)

    def sync(
        self,
        scanned: ScanReport,
        *,
        reader_version: str,
        within: Collection[str] | None = None,
        stored: StoredFiles | None = None,
    ) -> SyncReport:
        """Make the tree equal to a scan, its rows and its pages."""
        self._check_writable()
        with self._writing():
            return super().sync(
                scanned, reader_version=reader_version, within=within, stored=stored
            )

    def annotate(self, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str] = ()) -> int:
        """Set the aliases of tools from a mapping."""
        self._check_writable()
        with self._writing():
            return super().annotate(aliases, keep=keep)

    def set_aside(self) -> Path | None:
        """Do nothing, because no file of this host is damaged."""
        return None

    @contextmanager
    def reading(self) -> Generator[StoreReader]:
        """Read the newest state of the tree."""
        with self._copy.reading() as reader:
            yield cast("StoreReader", NearReader(reader, self._near, self._pages.viewed))
        # Fetch other hosts' outcomes for the next read. This is done after the read, because a
        # pooler, or the role's limit, may allow only one connection at a time.
        with suppress(DatabaseError):
            self._usage.follow(self._pages.looked)

    def vector_notes(self) -> Sequence[str]:
        """Return notes for users on limitations of vector search."""
        notes = super().vector_notes()
        return (*notes, _APPROXIMATE) if self._near.is_used else notes

    def prune(self) -> PruneReport:
        """Delete data that no tool needs, and index the vectors of a large tree on the server.

        Indexing continues in the background.
        """
        report = super().prune()
        if not self.read_only:
            self._builder.start()
        return report

    def close(self) -> None:
        """Release everything, and stop indexing."""
        # In this order: once the connections are closed, indexing begins no other statement.
        super().close()
        self._builder.close()

    def _follow_rows(self) -> None:
        # If this role may not write, or another host is changing the tree or its pages, searches
        # use the pages as they are.
        with suppress(DatabaseError), self._connections.writing() as connection:
            if tree_.try_lock(connection, self.tree):
                self._locked(connection)

    def _opened(self, copy: ToolStore) -> Copy:
        return _Pages(copy, self._connections, self._pages)

    def _refresh(self, *, patient: bool = False) -> None:
        """Do nothing, because every read sees the newest state."""

    def _change(self, push: Callable[[Connection, State], int], apply: Callable[[], T]) -> T:
        with self._writing():
            return super()._change(push, apply)

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Change rows and pages in one transaction, beginning with the newest of both."""
        with self._local.alone(), self._connections.writing() as connection:
            self._refresher.polled = self._locked(connection)
            yield


class _Pages(Copy):
    """The pages on the server, instead of a copy; they are changed by transactions."""

    def __init__(self, store: ToolStore, connections: Connections, pages: ServerPages) -> None:
        super().__init__(store)
        self._connections = connections
        self._pages = pages

    @contextmanager
    def changing(self) -> Generator[None]:
        if self._pages.read_only:
            yield
            return
        with self.alone(), self._connections.writing():
            yield

    def bring_to(self, connection: Connection, now: State) -> None:
        view = self._pages.view_of(connection)
        if view.follows != now.generation:
            follow(self.store, connection, now, since=view.follows or None)
            view.follows = now.generation

    def note(self, now: State, generation: int) -> None:
        with self._pages.writing() as view:
            view.follows = generation
