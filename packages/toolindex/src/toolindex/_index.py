"""The index: a `ToolStore` in SQLite."""

from __future__ import annotations

import json
import os
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from toolindex._checking import disagreements, is_sound, rebuild
from toolindex._connection import ConnectionPool
from toolindex._errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
)
from toolindex._files import FILES, application_id, files_of
from toolindex._lease import Lease
from toolindex._meta import bump_generation, get_meta, note_reader, set_meta
from toolindex._models import (
    QueryVectors,
    count_pending,
    pending_texts,
    prune,
    refuse,
    refused_tools,
)
from toolindex._opening import load_sqlite_vec
from toolindex._reader import IndexReader
from toolindex._recovery import back_up, has_recent_backup, recover, remove, restored
from toolindex._sync import (
    StoredFiles,
    SyncReport,
    apply_aliases,
    apply_plan,
    changed_aliases,
    is_unchanged,
    stored_files,
)
from toolindex._usage import UsageLog
from toolindex._vectors import (
    check_dimensions,
    durable_dimensions,
    durable_id,
    is_in_use,
    put_vectors,
    to_blob,
    use_model,
    vectors_changed,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping, Sequence

    import apsw
    from toolscan import ScanReport

_BIND_MS = 500


class ToolIndex:
    """A database that mirrors a tree of tools, and stores what was computed for them.

    `ToolStore` documents its methods. What cannot be rebuilt from the tools is in a second file
    beside it, `search.db-kept`: vectors, and the usage record. Damage to the index does not affect
    it, and an index that was removed and created again finds it there.

    It can be used by many threads and processes at once. Every change is one transaction, so a kill
    at any moment leaves the state before or after it. A file that is removed or replaced is created
    or opened again; a damaged one is renamed when it is opened.

    Args:
        path: The index, which is created if it does not exist, unless reading only.
        read_only: Never write: works on a medium that cannot be written.

    Attributes:
        path: The index, absolute.
        usage: The record of searches and outcomes.
        query_vectors: Vectors of queries, for repeated queries.
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
        self._recovering = Lock()
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
                self.quarantine()
        except BaseException:
            self._pool.close()
            raise

    files = staticmethod(files_of)
    remove = staticmethod(remove)
    application_id = staticmethod(application_id)
    load_sqlite_vec = staticmethod(load_sqlite_vec)
    check_dimensions = staticmethod(check_dimensions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_pool") and not self._pool.closed:
            message = f"{self.path}: the index was never closed"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def read_only(self) -> bool:
        return self._pool.read_only

    @property
    def extension_problem(self) -> str:
        """Why sqlite-vec cannot be loaded here, or an empty string.

        Without it, vectors are stored for `IndexReader.durable_vectors`, but not in a vector table.
        """
        return self._pool.extension_problem

    @property
    def durable_problem(self) -> str:
        return self._pool.durable_problem

    def close(self) -> None:
        self._pool.close()

    def try_writing(self) -> bool:
        return self._pool.try_writing()

    def lease(self, purpose: str) -> Lease:
        return Lease(self.path, purpose)

    def bind(self, root: str) -> None:
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

    def restored(self) -> tuple[float, float] | None:
        """Return when the durable file was restored, and when the copy was made that replaced it.

        Both in seconds since 1970, UTC. None if it was never damaged.
        """
        with self._pool.read() as connection:
            return restored(connection)

    def quarantine(self) -> Path | None:
        damage = self._pool.damage()
        if damage is None:
            return None
        if self.read_only:
            if damage[1] == self.path:
                raise DamagedDatabaseError(self.path)
            # It goes on without the durable file.
            self._pool.drop_idle()
            return None
        with self._recovering, self._pool.making():
            # Another thread or process found the same damage, and has replaced the file.
            if self._pool.damage() != damage:
                return None
            self._pool.drop_idle()
            self.damaged = recover(self.path, suspect=damage[1])
        return self.damaged

    def stored(self, *, reader_version: str, within: Collection[str] | None = None) -> StoredFiles:
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
        started = time.perf_counter()
        if stored is not None and self._needs_nothing(scanned, stored, reader_version, within):
            return SyncReport(
                unchanged=len(scanned.unchanged),
                issues=scanned.issues,
                duration=time.perf_counter() - started,
            )
        with self._pool.write() as connection:
            self._bind(connection, self._root)
            if stored is None or not is_unchanged(stored, connection, reader_version, within):
                stored = stored_files(connection, reader_version=reader_version, within=within)
            reread, plan = not stored.is_current, stored.plan(scanned)
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
        with self._pool.read() as connection:
            return pending_texts(connection, model_id, limit=limit, among=among)

    def text_hashes(self, ids: Collection[str]) -> set[str]:
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT text_hash FROM entries WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(ids)),),
            )
            return {str(text_hash) for (text_hash,) in rows}

    def count_pending(self, model_id: str) -> int:
        with self._pool.read() as connection:
            return count_pending(connection, model_id)

    def refuse(self, model_id: str, reasons: Mapping[str, str]) -> None:
        if reasons:
            with self._pool.write() as connection:
                refuse(connection, model_id, reasons)

    def refused(self, model_id: str) -> dict[str, str]:
        with self._pool.read() as connection:
            return refused_tools(connection, model_id)

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
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
        check_dimensions(model_id, dimensions)
        with self._pool.read() as connection:
            durable = durable_id(connection, model_id, dimensions)
            length = durable_dimensions(connection, durable)
            is_new = length is None and dimensions is not None and durable != model_id
            is_settled = is_in_use(connection, durable) and durable == durable_id(
                connection, model_id
            )
            if self.read_only or is_settled or not (length or is_new):
                return length is not None
        with self._pool.write() as connection:
            use_model(connection, durable, length or dimensions or 0)
            bump_generation(connection)
        return length is not None

    def check(self) -> tuple[str, ...]:
        with self._pool.read() as connection:
            for file in FILES:
                if not is_sound(connection, file.schema):
                    raise DamagedDatabaseError(file.path(self.path))
        with self._pool.write() as connection:
            return disagreements(connection)

    def rebuild(self, *, forget: str | None = None) -> None:
        with self._pool.write() as connection:
            rebuild(connection, forget=forget)

    def back_up(self) -> bool:
        if self.read_only or has_recent_backup(self.path):
            return False
        with self._pool.read() as connection:
            return back_up(self.path, connection)

    def prune(self) -> int:
        return prune(self._pool)

    @contextmanager
    def reading(self) -> Generator[IndexReader]:
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
            return is_unchanged(stored, connection, reader_version, within) and self._is_bound(
                connection, self._root
            )

    def _is_bound(self, connection: apsw.Connection, root: str | None) -> bool:
        """Return whether the database is bound to a root; raise if it is bound to another."""
        bound = get_meta(connection, "root")
        if root is None or bound == root:
            return True
        if bound is not None and _is_there(bound):
            raise ForeignDatabaseError(self.path, root=bound)
        return False

    def _bind(self, connection: apsw.Connection, root: str | None) -> None:
        if not self._is_bound(connection, root) and root is not None:
            set_meta(connection, "root", root)


def _is_there(root: str) -> bool:
    # A folder may have the separator in its name.
    return any(Path(path).is_dir() for path in (root, *root.split(os.pathsep)) if path)
