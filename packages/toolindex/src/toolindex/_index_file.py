"""The files of an index: opening and closing them, their tree, and replacing damaged ones."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from toolindex._connection import ConnectionPool
from toolindex._meta import get_meta, set_meta
from toolindex._query_vectors import QueryVectors
from toolindex._recovery import renew
from toolindex._usage import UsageLog
from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignRootError,
)

if TYPE_CHECKING:
    from types import TracebackType

    import apsw

_BIND_MS = 500


class IndexFile:
    """The files of an index; see `ToolIndex`."""

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
