"""The public index."""

from __future__ import annotations

import os
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from toolindex._aliases import apply_aliases, changed_aliases
from toolindex._checking import disagreements, is_sound, rebuild
from toolindex._connection import ConnectionPool
from toolindex._kept_ids import kept_dimensions, kept_id
from toolindex._lease import Lease
from toolindex._meta import bump_generation, get_meta, note_reader, set_meta
from toolindex._pairing import vectors_changed
from toolindex._parts import PARTS
from toolindex._pending import count_pending, pending_texts, refuse, refused_tools, text_hashes
from toolindex._pruning import PruneReport, prune
from toolindex._query_vectors import QueryVectors
from toolindex._reader import IndexReader
from toolindex._recovery import back_up, has_recent_backup, renew
from toolindex._stored import StoredFiles, is_true, stored_files
from toolindex._sync import SyncReport, apply_plan, plan_sync
from toolindex._usage import UsageLog
from toolindex._vectors import (
    check_dimensions,
    is_in_use,
    put_vectors,
    to_blob,
    use_model,
)
from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignRootError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping, Sequence
    from types import TracebackType

    import apsw
    from toolscan import ScanReport

_BIND_MS = 500


class ToolIndex:
    """A database that mirrors a tree of tools, and stores what was computed for them.

    What cannot be rebuilt from the tools is in a second file beside it, `search.db-kept`: vectors,
    and the usage record. Damage to the index does not affect it, and an index that was removed and
    created again finds it there.

    It can be used by many threads and processes at once. Every change is one transaction, so a kill
    at any moment leaves the state before or after it. A file that is removed or replaced is created
    or opened again; a damaged one is set aside when it is opened.

    Args:
        path: The index, which is created if it does not exist, unless reading only.
        read_only: Never write: works on a medium that cannot be written.

    Attributes:
        path: The index, absolute.
        usage: The record of searches and outcomes.
        query_vectors: Vectors of queries, kept for repeated queries.
        damaged: The new path of a damaged file, if this object found one.

    Raises:
        DatabaseError: The file cannot be opened or created.
        DamagedDatabaseError: It is damaged, and cannot be repaired when reading only.
        ForeignDatabaseError: It is not a tool index, and is left as it is.
        NewerSchemaError: A later version wrote it.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        # Absolute, because connections are also opened after the working directory has changed;
        # with links resolved, so that the files beside the database have unique names.
        try:
            self.path: Path = Path(os.path.realpath(path))
        except ValueError as error:
            raise DatabaseError(Path(path), f"this is not a path ({error})") from error
        self._root: str | None = None
        self._counts: dict[tuple[object, ...], int] = {}
        self._rescuing = Lock()
        self._pool = ConnectionPool(self.path, read_only=read_only)
        self.usage: UsageLog = UsageLog(self._pool)
        self.query_vectors: QueryVectors = QueryVectors(self._pool)
        self.damaged: Path | None = None
        try:
            try:
                with self._pool.read():
                    pass
            except DamagedDatabaseError as error:
                if read_only and error.path == self.path:
                    raise
                self.set_aside()
        except BaseException:
            self._pool.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_pool") and not self._pool.closed:
            message = f"{self.path}: the index was never closed"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    @property
    def where(self) -> str:
        """The path of its file."""
        return str(self.path)

    @property
    def read_only(self) -> bool:
        """Whether the index is read-only."""
        return self._pool.read_only

    @property
    def extension_problem(self) -> str:
        """Why sqlite-vec cannot be loaded here, or an empty string.

        Without it, vectors are still kept for `IndexReader.kept_vectors`, but not in a vector
        table.
        """
        return self._pool.extension_problem

    @property
    def kept_problem(self) -> str:
        """Why the file beside a read-only index is not used, or an empty string.

        Searches do not need it, but filters by success and latency do.
        """
        return self._pool.kept_problem

    def close(self) -> None:
        """Close the database; the index cannot be used afterwards."""
        self._pool.close()

    def bind(self, root: str) -> None:
        """Bind the index to a tree, or check that it is bound to it.

        Two trees in one index would remove each other's tools. The index of a tree that was moved
        or removed can be bound to another.

        Args:
            root: The tree's full path; or those of several that are synced together, separated by
                `os.pathsep`.

        Raises:
            ForeignRootError: It is the index of another tree, which still exists.
            DatabaseError: The database cannot be written.
        """
        self._root = root
        with self._pool.read() as connection:
            if self._is_bound(connection, root) or self.read_only:
                return
        # Otherwise the next sync binds it; searching does not require it.
        with suppress(DatabaseBusyError), self._pool.write(patience_ms=_BIND_MS) as connection:
            self._bind(connection, root)

    def bound_to(self) -> tuple[str, bool]:
        """Return the tree that this index is bound to, and whether that tree exists.

        The tree is as given to `bind`; empty if `bind` was never called.
        """
        with self._pool.read() as connection:
            bound = get_meta(connection, "root") or ""
        return bound, _is_there(bound)

    def set_aside(self) -> Path | None:
        """Rename a damaged file, and continue with a new one.

        When reading only, continue without the file beside the index if that is the damaged one.
        The next scan and sync of the whole tree rebuilds the index. The file beside it is restored
        from its copy (`back_up`) and from the vectors in the index.

        Returns:
            The damaged file's new path; None if another thread or process has already renamed it,
            or nothing can be written.

        Raises:
            DamagedDatabaseError: The index itself is damaged and read-only.
            DatabaseError: It cannot be renamed, or a new one cannot be created.
        """
        damage = self._pool.damage()
        if damage is None:
            return None
        if self.read_only:
            if damage[1] == self.path:
                raise DamagedDatabaseError(self.path)
            self._pool.drop_idle()
            return None
        with self._rescuing, self._pool.making():
            # Another thread or process found the same damage, and has replaced the file.
            if self._pool.damage() != damage:
                return None
            self._pool.drop_idle()
            self.damaged = renew(self.path, suspect=damage[1])
        return self.damaged

    def try_writing(self) -> bool:
        """Switch to writing if the index can be written by now; return whether it can."""
        return self._pool.try_writing()

    def lease(self, purpose: str) -> Lease:
        """Return the lease with which processes take turns at some work on this index.

        Args:
            purpose: The kind of work. Hold `"files"` from a scan to its sync: an older scan must
                not be applied after a newer one.
        """
        return Lease(self.path, purpose)

    def stored(self, *, reader_version: str, within: Collection[str] | None = None) -> StoredFiles:
        """Look up what is stored about files, so that a scan can skip unchanged ones.

        Args:
            reader_version: The version of the code that makes records from files. If it differs
                from that of the index, no stamps are known.
            within: Only these paths (posix, relative to the root) and those below them.
        """
        with self._pool.read() as connection:
            return stored_files(connection, reader_version=reader_version, within=within)

    def sync(
        self,
        scanned: ScanReport,
        *,
        reader_version: str,
        within: Collection[str] | None = None,
        stored: StoredFiles | None = None,
    ) -> SyncReport:
        """Bring the index up to date with a scan, in one transaction.

        New and changed tools can be found by their words as soon as this returns; by their meaning,
        once their vectors are stored.

        Args:
            scanned: The scan's report.
            reader_version: The version of the code that made it.
            within: The paths (posix, relative to the root) the scan was limited to.
            stored: What `stored` returned before the scan for the same paths; if it is still valid,
                it need not be read again.

        Raises:
            ForeignRootError: The file was replaced by the index of another tree.
            DatabaseError: The database cannot be written; nothing has changed.
        """
        started = time.perf_counter()
        if stored is not None and self._needs_nothing(scanned, stored, reader_version, within):
            return SyncReport(
                unchanged=len(scanned.unchanged),
                issues=scanned.issues,
                duration=time.perf_counter() - started,
            )
        with self._pool.write() as connection:
            self._bind(connection, self._root)
            if stored is None or not is_true(stored, connection, reader_version, within):
                stored = stored_files(connection, reader_version=reader_version, within=within)
            reread = not stored.is_current
            plan = plan_sync(stored.entries, scanned, within=within, reread=reread)
            apply_plan(connection, plan)
            # A part that was read again does not show whether another version made the other
            # entries.
            if within is None and not plan.rescan and (reread or not stored.is_complete):
                note_reader(connection, reader_version, is_whole=True)
            elif not reread and not stored.is_complete:
                note_reader(connection, reader_version, is_whole=False)
        return SyncReport(
            added=len(plan.added),
            updated=len(plan.updated) + len(plan.reread),
            removed=len(plan.removed),
            unchanged=plan.unchanged + len(plan.touched),
            issues=scanned.issues,
            rescan=plan.rescan,
            duration=time.perf_counter() - started,
        )

    def annotate(self, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str] = ()) -> int:
        """Set the aliases of all tools, in one transaction.

        Aliases are searched in a separate column and are not embedded. They stay when a tool's file
        changes, and are removed with the tool.

        Args:
            aliases: Words and sentences by tool id. Tools that are not in it have none afterwards;
                unknown ids are ignored.
            keep: Ids of tools whose aliases are unchanged.

        Returns:
            How many tools have new aliases.

        Raises:
            ForeignRootError: The file was replaced by the index of another tree.
            DatabaseError: The database cannot be written; nothing has changed.
        """
        with self._pool.read() as connection:
            if not changed_aliases(connection, aliases, keep=keep):
                return 0
        with self._pool.write() as connection:
            self._bind(connection, self._root)
            changed = changed_aliases(connection, aliases, keep=keep)
            if changed:
                apply_aliases(connection, changed)
        return len(changed)

    def pending(
        self, model_id: str, *, limit: int, among: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return up to `limit` texts, by hash, that this model has neither embedded nor refused.

        A refusal counts for less than a minute, and twice as long each time it is repeated. `among`
        limits them to some hashes.
        """
        with self._pool.read() as connection:
            return pending_texts(connection, model_id, limit=limit, among=among)

    def text_hashes(self, ids: Collection[str]) -> set[str]:
        """Return the hashes under which the texts of some tools are pending, or were."""
        with self._pool.read() as connection:
            return text_hashes(connection, ids)

    def count_pending(self, model_id: str) -> int:
        """Count the texts that this model has neither embedded nor refused."""
        with self._pool.read() as connection:
            return count_pending(connection, model_id)

    def refuse(self, model_id: str, reasons: Mapping[str, str]) -> None:
        """Record why a model refused some texts, by hash; they are not pending for a while."""
        if reasons:
            with self._pool.write() as connection:
                refuse(connection, model_id, reasons)

    def refused(self, model_id: str) -> dict[str, str]:
        """Return the reason, by tool id, for every tool whose text a model has refused."""
        with self._pool.read() as connection:
            return refused_tools(connection, model_id)

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep the vectors of some texts, by hash, and make them searchable.

        Raises:
            VectorError: The vectors have different lengths, or one is not finite or all zeros; none
                was stored.
        """
        if not vectors:
            return
        dimensions = len(next(iter(vectors.values())))
        blobs = {
            text_hash: to_blob(vector, model_id=model_id, dimensions=dimensions)
            for text_hash, vector in vectors.items()
        }
        with self._pool.write() as connection:
            put_vectors(connection, model_id, dimensions, blobs)
            vectors_changed(connection)
            bump_generation(connection, model_id=model_id)

    def use_model(self, model_id: str, *, dimensions: int | None = None) -> bool:
        """Make a model's kept vectors searchable, beside other models'; return if it has any.

        For its vectors, a model that changes their length counts as another model: the old vectors
        are kept, and all texts are pending. Without `dimensions`, it is the length used last.

        Raises:
            VectorError: Vectors of this length cannot be searched.
        """
        check_dimensions(model_id, dimensions)
        with self._pool.read() as connection:
            kept = kept_id(connection, model_id, dimensions)
            length = kept_dimensions(connection, kept)
            is_new = length is None and dimensions is not None and kept != model_id
            is_settled = is_in_use(connection, kept) and kept == kept_id(connection, model_id)
            if self.read_only or is_settled or not (length or is_new):
                return length is not None
        with self._pool.write() as connection:
            use_model(connection, kept, length or dimensions or 0)
            bump_generation(connection)
        return length is not None

    def check(self) -> tuple[str, ...]:
        """Check the whole index, which takes a while.

        Returns:
            Inconsistencies of the search tables with the tools and the kept vectors, as sentences;
            `rebuild` fixes them.

        Raises:
            DamagedDatabaseError: One of the files is damaged.
            DatabaseError: The index can be neither read nor written.
        """
        with self._pool.read() as connection:
            for part in PARTS:
                if not is_sound(connection, part.schema):
                    raise DamagedDatabaseError(part.path(self.path))
        with self._pool.write() as connection:
            return disagreements(connection)

    def rebuild(self, *, forget: str | None = None) -> None:
        """Rebuild the search tables from the tools and the kept vectors.

        The next scan then reads every file. The usage record is kept.

        Args:
            forget: The model that has to embed all texts again: all are pending, and its old
                vectors are used until they are replaced.

        Raises:
            DatabaseError: The database cannot be written; nothing has changed.
        """
        with self._pool.write() as connection:
            rebuild(connection, forget=forget)

    def back_up(self) -> bool:
        """Copy the durable file beside it once a day; return whether a copy was made now.

        If that file is damaged or lost, it is restored from the copy and from the vectors in the
        index, so at most a day of the usage record is lost. Call it when idle: other threads and
        processes can use the index meanwhile.

        Raises:
            DamagedDatabaseError: The durable file is damaged.
            DatabaseError: The copy cannot be written; an older one is kept.
        """
        if self.read_only or has_recent_backup(self.path):
            return False
        with self._pool.read() as connection:
            return back_up(self.path, connection)

    def prune(self) -> PruneReport:
        """Delete the oldest vectors that no tool needs, and that may not be needed again."""
        return prune(self._pool)

    @contextmanager
    def reading(self) -> Generator[IndexReader]:
        """Read one consistent state of the index."""
        with self._pool.read() as connection:
            yield IndexReader(connection, self._counts)

    def _needs_nothing(
        self,
        scanned: ScanReport,
        stored: StoredFiles,
        reader_version: str,
        within: Collection[str] | None,
    ) -> bool:
        is_whole = stored.is_current and stored.is_complete
        if scanned.records or scanned.touched or not is_whole:
            return False
        if not stored.is_exactly(scanned.unchanged):
            return False
        with self._pool.read() as connection:
            return is_true(stored, connection, reader_version, within) and self._is_bound(
                connection, self._root
            )

    def _is_bound(self, connection: apsw.Connection, root: str | None) -> bool:
        """Return whether the database is bound to a root; raise if it is bound to another."""
        bound = get_meta(connection, "root")
        if root is None or bound == root:
            return True
        if bound is not None and _is_there(bound):
            raise ForeignRootError(self.path, root=bound)
        return False

    def _bind(self, connection: apsw.Connection, root: str | None) -> None:
        if not self._is_bound(connection, root) and root is not None:
            set_meta(connection, "root", root)


def _is_there(root: str) -> bool:
    """Return whether a tree, or one of several, exists."""
    # A folder may have the separator in its name.
    return any(Path(path).is_dir() for path in (root, *root.split(os.pathsep)) if path)
