"""The store that hosts share: a copy in a file, kept up to date with a tree on a server."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from toolindex import DatabaseError

from toolindex_postgres._errors import UnreachableStoreError
from toolindex_postgres._refresh import Freshness, Refresher
from toolindex_postgres._rows import checked
from toolindex_postgres._tree import Tree, name_of_vector

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Generator, Mapping, Sequence
    from pathlib import Path

    from toolindex import StoredFiles, StoreReader, SyncReport, ToolStore
    from toolscan import ScanReport, ToolRecord

    from toolindex_postgres._connections import Connection
    from toolindex_postgres._shared import SharedLease, SharedQueryVectors
    from toolindex_postgres._usage import SharedUsage


class SharedStore:
    """A tree of tools that many hosts share, searched in this host's copy of it.

    The server is authoritative. Each read first asks the server whether the tree has changed, which
    takes one round trip, and brings the copy up to date if so. While the server cannot be reached,
    searches use the copy as it is; `freshness` returns how old it is. Syncs and aliases need the
    server, which puts them in order; without it, they raise `UnreachableStoreError`.

    Implements `toolindex.ToolStore`, which documents its methods. File stamps belong to a host and
    stay in its copy. Closing the store closes the copy.

    Args:
        copy: The copy, a store in a file that only this host uses. If it has the tools of another
            tree, it is emptied.
        address: The server: `postgresql://user@host/database`, or any other form that libpq
            accepts.
        tree: The name of the tree. Hosts that give the same name share it.
        read_only: Never write to the server. The copy is still kept up to date.

    Attributes:
        copy: The copy.
        tree: The name of the tree.

    Raises:
        AddressError: The address is invalid.
    """

    def __init__(
        self, copy: ToolStore, address: str, *, tree: str, read_only: bool = False
    ) -> None:
        # Imported here, so that an address can be shown without waiting for the driver.
        from toolindex_postgres._connections import Connections
        from toolindex_postgres._copy import Copy
        from toolindex_postgres._shared import SharedQueryVectors
        from toolindex_postgres._usage import SharedUsage

        self.copy: ToolStore = copy
        self.tree: str = tree
        self._read_only = read_only
        self._connections = Connections(address)
        self._local = Copy(copy)
        self._lengths: dict[str, int] = {}
        self._query_vectors = SharedQueryVectors(
            copy, self._connections, tree=tree, read_only=self.read_only
        )
        self._usage = SharedUsage(self._local, self._connections, tree, prunes=not self.read_only)
        self._refresher = Refresher(self._local, self._connections, tree, self._usage)

    @property
    def read_only(self) -> bool:
        """Whether nothing is written to the server."""
        return self._read_only or self.copy.read_only

    @property
    def where(self) -> str:
        """The address of the server without the password, and the tree."""
        return f"{self._connections.where} ({self.tree})"

    @property
    def damaged(self) -> Path | None:
        return self.copy.damaged

    @property
    def durable_problem(self) -> str:
        return self.copy.durable_problem

    @property
    def usage(self) -> SharedUsage:
        return self._usage

    @property
    def query_vectors(self) -> SharedQueryVectors:
        return self._query_vectors

    def freshness(self, *, asks: bool = True) -> Freshness:
        """Return how old the copy is.

        Args:
            asks: Whether to fetch changes from the server first; otherwise this is as of the last
                read.
        """
        if asks:
            self._refresher.refresh(patient=True)
        waiting = 0 if self.copy.read_only else self._usage.waiting(sends=asks)
        return Freshness(
            as_of=self._refresher.as_of,
            problem=self._refresher.problem,
            waiting=waiting,
            left_out=self._local.left_out(),
        )

    def try_writing(self) -> bool:
        return not self._read_only and self.copy.try_writing()

    def bind(self, root: str) -> None:
        """Bind the copy to one tree of files, and check that the server has an index.

        Raises:
            ForeignDatabaseError: The copy belongs to another tree, which still exists.
            SchemaError: The server has no index, or an older one.
            NewerSchemaError: A later version made it.
        """
        self.copy.bind(root)
        with suppress(UnreachableStoreError), self._connections.reading() as connection:
            self._tree(connection)

    def stored(self, *, reader_version: str, within: Collection[str] | None = None) -> StoredFiles:
        """Return what is stored about the files; stamps are those of this host."""
        self._refresher.refresh()
        return self.copy.stored(reader_version=reader_version, within=within)

    def sync(
        self,
        scanned: ScanReport,
        *,
        reader_version: str,
        within: Collection[str] | None = None,
        stored: StoredFiles | None = None,
    ) -> SyncReport:
        """Make the tree equal to a scan, on the server and in the copy.

        A scan that changes nothing needs no server.
        """
        self._check_writable()
        self._refresher.refresh()
        with self._local.exclusive():
            state = self._refresher.polled
            if self._local.plan(scanned, reader_version, within, state).is_empty:
                return self.copy.sync(
                    scanned, reader_version=reader_version, within=within, stored=stored
                )
            with self._writing() as tree:
                before = tree.state
                plan = self._local.plan(scanned, reader_version, within, before)
                tree.push(plan.changed, plan.removed, plan.moved)
                if plan.is_whole is not None:
                    tree.set_reader(reader_version, is_complete=plan.is_whole)
                vectors = list(tree.vectors_since(before.generation))
            report = self.copy.sync(
                scanned, reader_version=reader_version, within=within, stored=stored
            )
            self._local.put_vectors(vectors)
            self._note(tree, {str(record.id) for record in plan.changed})
            return report

    def annotate(self, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str] = ()) -> int:
        self._check_writable()
        self._refresher.refresh()
        if not self._refresher.problem and not self._local.changes_aliases(aliases, keep):
            return 0
        with self._local.exclusive():
            with self._writing() as tree:
                tree.push_aliases(aliases, keep)
            done = self.copy.annotate(aliases, keep=keep)
            self._note(tree)
            return done

    def pending(
        self, model_id: str, *, limit: int, among: Collection[str] | None = None
    ) -> Mapping[str, str]:
        """Return up to `limit` texts, by hash, that this model has neither embedded nor refused.

        Vectors of other trees are reused first. While the server cannot be reached, no texts are
        returned, because vectors that were paid for could not be stored.
        """
        self._refresher.refresh()
        texts = self.copy.pending(model_id, limit=limit, among=among)
        if self.read_only:
            return texts
        if self._refresher.problem:
            return {}
        with suppress(DatabaseError):
            while texts and (taken := self._reuse(model_id, texts)):
                texts = self.copy.pending(model_id, limit=limit, among=among)
                if not taken.isdisjoint(texts):
                    break
        return texts

    def text_hashes(self, ids: Collection[str]) -> Collection[str]:
        return self.copy.text_hashes(ids)

    def count_pending(self, model_id: str) -> int:
        self._refresher.refresh()
        return self.copy.count_pending(model_id)

    def refuse(self, model_id: str, reasons: Mapping[str, str]) -> None:
        """Store, on this host, why a model returned no vector for some texts, by hash."""
        self._check_writable()
        self.copy.refuse(model_id, reasons)

    def refused(self, model_id: str) -> Mapping[str, str]:
        return self.copy.refused(model_id)

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Store vectors by the hash of their text, on the server and in the copy.

        Raises:
            VectorError: Vectors of several lengths, or one that is not finite or all zeros;
                none has been stored.
        """
        self._check_writable()
        if not vectors:
            return
        floats = checked(model_id, vectors)
        self._put(model_id, floats)
        self._lengths[model_id] = len(next(iter(floats.values())))

    def use_model(self, model_id: str, *, dimensions: int | None = None) -> bool:
        """Make a model's stored vectors searchable in the copy; return whether there are any."""
        if dimensions is not None:
            self._lengths[model_id] = dimensions
        with self._local.changing():
            return self.copy.use_model(model_id, dimensions=dimensions)

    def lease(self, purpose: str) -> SharedLease:
        """Return the lease of one kind of work on this tree, for all hosts together."""
        from toolindex_postgres._shared import SharedLease

        connections = None if self.read_only else self._connections
        return SharedLease(self.copy, connections, tree=self.tree, purpose=purpose)

    def back_up(self) -> bool:
        """Do nothing: what cannot be made again is on the server."""
        return False

    def prune(self) -> int:
        if not self.read_only:
            # If this fails, the next host that prunes will do it.
            with suppress(DatabaseError), self._local.exclusive(), self._writing() as tree:
                tree.prune()
        return self.copy.prune()

    def check(self) -> Sequence[str]:
        """Return inconsistencies, as sentences: the copy's, and rows that cannot be read.

        If the server cannot be reached, only the copy's.
        """
        found = list(self.copy.check())
        if self.copy.read_only:
            return tuple(found)
        with (
            suppress(UnreachableStoreError),
            self._local.exclusive(),
            self._connections.reading(patient=True, copies=True) as connection,
        ):
            tree = self._tree(connection)
            self._local.bring_to(tree)
            rows = list(tree.unreadable())
            found += [f"{it.name} cannot be read: {it.reason}" for it in rows]
            found += self._local.differences(tree, besides={it.name for it in rows})
        return tuple(found)

    def rebuild(self, *, forget: str | None = None) -> None:
        """Rebuild all derived data; delete the vectors of a model, and unreadable rows.

        Every host reads its files again with its next scan, which writes what was deleted. Vectors
        that this host's copy still has are written at once.
        """
        self._check_writable()
        with self._local.exclusive():
            with self._writing() as tree:
                # Other hosts' copies may be wrong, too, so each is compared with the tree.
                rows = list(tree.unreadable())
                tree.discard(rows)
                tree.forget_vectors(forget or "")
                lost = [str(it.key["text_hash"]) for it in rows if it.table == "tree_vector"]
                for model, vectors in self._local.vectors_to_restore(
                    tree, among=lost, besides=forget
                ):
                    tree.push_vectors(model, vectors)
                if tree.state.reader_version is not None:
                    tree.set_reader("", is_complete=tree.state.is_complete)
            self.copy.rebuild(forget=forget)
            self._local.forget()

    def quarantine(self) -> Path | None:
        """Replace a damaged copy with an empty one, which the next read fills."""
        with self._local.exclusive():
            self._local.forget()
            return self.copy.quarantine()

    def vector_notes(self) -> Sequence[str]:
        return self.copy.vector_notes()

    def records(self, ids: Collection[str]) -> Sequence[ToolRecord]:
        """Return the whole records of some tools from the server, for hosts without their files.

        Raises:
            UnreachableStoreError: The server cannot be reached.
            UnreadableRowError: One of the records cannot be read.
        """
        with self._connections.reading() as connection:
            return self._tree(connection).records(ids)

    @contextmanager
    def reading(self) -> Generator[StoreReader]:
        self._refresher.refresh()
        with self.copy.reading() as reader:
            yield reader

    def close(self) -> None:
        # A fetch that is still running uses the copy until the process ends.
        if self._refresher.close():
            self._local.close()

    def _check_writable(self) -> None:
        if self.read_only:
            raise DatabaseError(self.where, "the index is open read-only")

    def _tree(self, connection: Connection, *, locks: bool = False) -> Tree:
        return Tree(connection, self.tree, self._connections.where, locks=locks)

    @contextmanager
    def _writing(self) -> Generator[Tree]:
        """Take the tree's lock for a block, and bring the copy to its state before."""
        with self._connections.writing() as connection:
            tree = self._tree(connection, locks=True)
            self._local.bring_to(tree)
            yield tree

    def _note(self, tree: Tree, written: Collection[str] = ()) -> None:
        """Record that the copy has a tree's new state, in which some rows were written."""
        left_out = {it: why for it, why in self._local.left_out().items() if it not in written}
        self._local.note(tree.state, left_out)

    def _reuse(self, model_id: str, texts: Collection[str]) -> set[str]:
        """Take vectors of texts from other trees; return the hashes of these texts."""
        length = self._lengths.get(model_id)
        if not length:
            with self.copy.reading() as reader:
                length = reader.coverage(model_id).dimensions
        with self._connections.reading() as connection:
            found = self._tree(connection).reusable_vectors(model_id, texts, length)
        if found:
            self._put(model_id, found)
        return set(found)

    def _put(self, model_id: str, vectors: Mapping[str, array[float]]) -> None:
        with self._local.exclusive():
            with self._writing() as tree:
                tree.push_vectors(model_id, vectors)
            self.copy.put_vectors(model_id, vectors)
            self._note(tree, {name_of_vector(model_id, it) for it in vectors})
