"""The index as its users see it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from toolindex._connection import ConnectionPool
from toolindex._plan import plan_sync
from toolindex._reader import IndexReader
from toolindex._rows import STORED_COLUMNS, to_stored
from toolindex._schema import get_meta, prepare, set_meta
from toolindex._sync import SyncReport, apply_plan, bump_generation, stored_entries
from toolindex._vectors import activate_model, active_model, pending_texts, put_vectors, to_blob
from toolindex.errors import ForeignRootError, VectorError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Generator, Mapping, Sequence
    from types import TracebackType

    import apsw
    from toolscan import FileStamp, ScanReport

__all__ = ["ToolIndex"]


class ToolIndex:
    """A database file that mirrors a tree of tools and keeps what was computed for them.

    Safe to use from many threads and beside other processes on the same file. Every change
    is one transaction, so a kill at any moment leaves the state before or after it.

    Args:
        path: The database file; made when it does not exist, unless reading only.
        read_only: Never write: works on a medium that cannot be written.

    Raises:
        DatabaseError: The file cannot be opened or made.
        ForeignDatabaseError: It is something else than a tool index; it is left as it is.
        NewerSchemaError: A later version wrote it.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        # Connections are opened later too, when the working directory may be another.
        self.path = Path(path).absolute()
        self.read_only = read_only
        self._pool = ConnectionPool(self.path, read_only=read_only)
        try:
            prepare(self._pool)
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

    def close(self) -> None:
        """Close the database; the index cannot be used afterwards."""
        self._pool.close()

    def bind(self, root: str) -> None:
        """Make this the index of one tree, or check that it already is.

        Two trees in one index would remove each other's tools. A tree that has been moved or
        removed gives its index up.

        Args:
            root: The tree's full path.

        Raises:
            ForeignRootError: It is the index of another tree, which still exists.
            DatabaseError: The database cannot be written.
        """
        with self._pool.read() as connection:
            bound = get_meta(connection, "root")
        if bound == root:
            return
        if bound is not None and Path(bound).is_dir():
            raise ForeignRootError(self.path, root=bound)
        if not self.read_only:
            with self._pool.write() as connection:
                set_meta(connection, "root", root)

    def known(self, *, reader_version: str) -> dict[str, FileStamp]:
        """Give the stamps of the files that need not be read again if they look the same.

        Args:
            reader_version: The version of what makes records from files. When it differs
                from the one that made the index, nothing is known.
        """
        with self._pool.read() as connection:
            if get_meta(connection, "reader_version") != reader_version:
                return {}
            rows = connection.execute(
                f"SELECT {STORED_COLUMNS} FROM entries WHERE stamp IS NOT NULL"  # noqa: S608
            )
            entries = map(to_stored, rows)
            return {entry.path: entry.stamp for entry in entries if entry.stamp is not None}

    def sync(
        self,
        scanned: ScanReport,
        *,
        reader_version: str,
        within: Collection[str] | None = None,
    ) -> SyncReport:
        """Make the index equal to a scan, in one transaction.

        What was added or changed can be found by its words as soon as this returns; by its
        meaning, once its vector is stored.

        Args:
            scanned: The scan's report.
            reader_version: The version of what made it.
            within: The paths (posix, relative to the root) the scan was limited to.

        Raises:
            DatabaseError: The database cannot be written; nothing has changed.
        """
        started = time.perf_counter()
        with self._pool.write() as connection:
            reread = get_meta(connection, "reader_version") != reader_version
            plan = plan_sync(stored_entries(connection), scanned, within=within, reread=reread)
            apply_plan(connection, plan)
            # A reader whose work is not complete must find nothing known at the next start.
            if reread and within is None and not plan.rescan:
                set_meta(connection, "reader_version", reader_version)
        return SyncReport(
            added=len(plan.added),
            updated=len(plan.updated),
            removed=len(plan.removed),
            unchanged=plan.unchanged + len(plan.touched),
            issues=scanned.issues,
            rescan=plan.rescan,
            duration=time.perf_counter() - started,
        )

    def pending(self, model_id: str, *, limit: int) -> dict[str, str]:
        """Give up to `limit` texts, by hash, that this model has not embedded yet."""
        with self._pool.read() as connection:
            return pending_texts(connection, model_id, limit)

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep the vectors of some texts, by hash, and make them searchable.

        The model becomes the active one: the vectors of another are no longer searched,
        but they are kept, and coming back to it costs nothing.

        Raises:
            VectorError: Vectors of several lengths, or one that is not finite or all zeros;
                none has been stored.
        """
        if not vectors:
            return
        dimensions = len(next(iter(vectors.values())))
        blobs = {
            text_hash: to_blob(vector, model_id=model_id, dimensions=dimensions)
            for text_hash, vector in vectors.items()
        }
        with self._pool.write() as connection:
            kept = _kept_dimensions(connection, model_id)
            if kept is not None and kept != dimensions:
                raise VectorError(
                    model_id, f"gave vectors of {dimensions} dimensions, earlier ones have {kept}"
                )
            put_vectors(connection, model_id, dimensions, blobs)
            bump_generation(connection)

    def use_model(self, model_id: str) -> bool:
        """Search with a model's vectors from now on, if any are kept.

        Returns:
            Whether the model is the active one now.
        """
        with self._pool.read() as connection:
            active = active_model(connection)
            if active is not None and active[0] == model_id:
                return True
            dimensions = _kept_dimensions(connection, model_id)
        if dimensions is None or self.read_only:
            return False
        with self._pool.write() as connection:
            activate_model(connection, model_id, dimensions)
            bump_generation(connection)
        return True

    @contextmanager
    def reading(self) -> Generator[IndexReader]:
        """Look at one state of the index, whatever others write meanwhile."""
        with self._pool.read() as connection:
            yield IndexReader(connection)


def _kept_dimensions(connection: apsw.Connection, model_id: str) -> int | None:
    row = connection.execute(
        "SELECT length(vector) FROM embeddings WHERE model_id = ? LIMIT 1", (model_id,)
    ).fetchone()
    return None if row is None else int(row[0]) // 4
