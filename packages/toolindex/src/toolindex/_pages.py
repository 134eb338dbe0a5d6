"""An index whose pages are somewhere else than in its file, such as on a server.

SQLite reads and writes a database in pages of one size, through a replaceable file system. Here, an
implementation of `Pages` replaces it, so every statement and result is that of an index in a file.
The usage record, vectors of queries and refusals stay in the files at the index's path.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from functools import cache
from itertools import count
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Protocol, cast

import apsw

from toolindex._connection import ConnectionPool
from toolindex._extension import load_sqlite_vec
from toolindex._migrations import migrate, sql_of
from toolindex._opening import BUSY_TIMEOUT_MS, PAGE_BYTES, Opened, attach_kept
from toolindex._parts import INDEX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from toolindex._connection import Files, Identity

# The vectors of the tools, which an index in a file keeps in the other file.
_EMBEDDINGS = "CREATE TABLE embeddings ("
_FILE_SYSTEMS = count(1)
# A key is looked up in an index and then in a table. Both are trees a few pages high.
_TURNS = 8


class PagesView(Protocol):
    """One state of the pages, and what its owner has changed."""

    def size(self) -> int:
        """Return how many pages there are."""
        ...

    def read(self, number: int) -> bytes:
        """Return a page, by its number from 0."""
        ...

    def holds(self, number: int) -> bool:
        """Return whether a page can be read without fetching it."""
        ...

    def fetch(self, numbers: Collection[int]) -> None:
        """Fetch pages together, before they are read."""
        ...

    def write(self, number: int, page: bytes) -> None:
        """Replace a page, or add one."""
        ...

    def cut(self, size: int) -> None:
        """Remove all pages from a number on."""
        ...


class Pages(Protocol):
    """The pages of an index in one file, `PAGE_BYTES` each: at first those of `empty_pages`."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        ...

    @property
    def epoch(self) -> int:
        """A number that changes when pages that were written or read turn out not to be kept."""
        ...

    def reading(self) -> AbstractContextManager[PagesView]:
        """Provide the newest state, which does not change within the block."""
        ...

    def writing(self) -> AbstractContextManager[PagesView]:
        """Provide the newest state to one writer; its changes are kept if the block ends."""
        ...


@cache
def empty_pages() -> tuple[bytes, ...]:
    """Return the pages of an index without tools."""
    kept = sql_of("kept.sql")
    start = kept.index(_EMBEDDINGS)
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute(sql_of(INDEX.sql) + kept[start : kept.index(";", start) + 1])
        connection.execute(f"PRAGMA application_id = {INDEX.application_id}")
        connection.execute(f"PRAGMA user_version = {INDEX.version}")
        content = connection.serialize("main")
    return tuple(
        content[start : start + PAGE_BYTES] for start in range(0, len(content), PAGE_BYTES)
    )


class _PageMissingError(Exception):
    """A page has to be fetched first."""


class PagesConnection(apsw.Connection):
    """A connection that can fetch the pages of a statement in a few rounds, not one by one.

    Attributes:
        file: The pages.
    """

    file: _File

    def execute_each(
        self, sql: str, parameters: Sequence[Any], each: Iterable[Sequence[Any]]
    ) -> list[tuple[Any, ...]]:
        """Run a statement that looks up many keys, and return its rows.

        If a page is missing, the statement is tried with each key alone, which shows the first page
        that each key lacks. These pages are fetched together, and the statement is tried again.

        Args:
            sql: The statement.
            parameters: Its parameters, with all keys.
            each: Its parameters with one key each.
        """
        rows, missing = self._tried(sql, parameters)
        waiting = list(each) if missing else []
        for _ in range(_TURNS):
            if not missing:
                break
            again: list[Sequence[Any]] = []
            for one in waiting:
                _, its = self._tried(sql, one)
                if its:
                    again.append(one)
                    missing |= its
            self.file.view.fetch(missing)
            waiting = again
            rows, missing = self._tried(sql, parameters)
        return self.execute(sql, parameters).fetchall() if missing else rows

    def _tried(self, sql: str, parameters: Sequence[Any]) -> tuple[list[Any], set[int]]:
        self.file.missing = missing = set[int]()
        try:
            return self.execute(sql, parameters).fetchall(), missing
        except _PageMissingError:
            return [], missing
        finally:
            self.file.missing = None


class PagesPool(ConnectionPool):
    """The connections to an index whose pages are somewhere else.

    Args:
        path: Where the files are that stay on this machine; they exist.
    """

    def __init__(self, path: Path, pages: Pages) -> None:
        super().__init__(path, read_only=pages.read_only)
        self._pages = pages
        self._seen = pages.epoch
        self._lock = Lock()
        self._thread = local()
        self._name = f"toolindex-{os.getpid()}-{next(_FILE_SYSTEMS)}"
        self._file_system = _FileSystem(self._name, self._opened_file)

    @contextmanager
    def read(self) -> Generator[apsw.Connection]:
        """Lend a connection whose statements all see the same pages."""
        with self._pages.reading() as view:
            self._thread.view = view
            with super().read() as connection:
                yield connection

    @contextmanager
    def write(self, *, patience_ms: int | None = None) -> Generator[apsw.Connection]:
        """Lend a connection inside a write transaction, which is kept unless the block raises."""
        if self.read_only:
            with super().write():
                pass
        with self._pages.writing() as view:
            self._thread.view = view
            with super().write(patience_ms=patience_ms) as connection:
                yield connection

    def try_writing(self) -> bool:
        """Return whether it can be written, which does not change."""
        return not self.read_only

    def _take(self) -> tuple[apsw.Connection, int, Identity]:
        # Idle connections may have cached pages that were not kept, which look like newer ones, so
        # they are closed before a thread borrows one.
        with self._lock:
            if self._seen != (epoch := self._pages.epoch):
                self.drop_idle()
                self._seen = epoch
        taken = super()._take()
        cast("PagesConnection", taken[0]).file.view = self._thread.view
        return taken

    def _open(self, found: Files) -> apsw.Connection:
        connection = PagesConnection(
            str(self.path), vfs=self._name, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        )
        try:
            connection.file = self._thread.file
            self.extension_problem = load_sqlite_vec(connection)
            attach_kept(connection, self.path)
            # The owner of the pages commits all of them or none.
            connection.execute("PRAGMA main.journal_mode = MEMORY")
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            migrate(connection, self.path, read_only=True)
        except BaseException:
            connection.close()
            raise
        return Opened(connection, is_immutable=False, extension_problem="").connection

    def _opened_file(self) -> _File:
        self._thread.file = file = _File(self._thread.view)
        return file


class _FileSystem(apsw.VFS):
    """The pages as a file, and all other files as they are."""

    def __init__(self, name: str, opened: Callable[[], _File]) -> None:
        self._opened = opened
        super().__init__(name, "")

    def xOpen(  # noqa: N802 - SQLite's names, as below
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            flags[1] = flags[0]
            # Any object with the methods of a file will do.
            return cast("apsw.VFSFile", self._opened())
        return super().xOpen(name, flags)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        # There is never a journal.
        return False

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


class _File:
    """The pages as a file for SQLite; the lender of the connection sets the view.

    Attributes:
        view: What is read and written.
        missing: While it is a set, pages that would have to be fetched are added to it instead.
    """

    def __init__(self, view: PagesView) -> None:
        self.view = view
        self.missing: set[int] | None = None

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        number, start = divmod(offset, PAGE_BYTES)
        if number >= self.view.size():
            return b""
        if self.missing is not None and not self.view.holds(number):
            self.missing.add(number)
            # This error has no SQLite code, so it ends the statement but not the transaction.
            raise _PageMissingError
        page = self.view.read(number)
        return page if amount == PAGE_BYTES else page[start : start + amount]

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.view.write(offset // PAGE_BYTES, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self.view.cut(size // PAGE_BYTES)

    def xFileSize(self) -> int:  # noqa: N802
        return self.view.size() * PAGE_BYTES

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return PAGE_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0

    def xLock(self, level: int) -> None:  # noqa: N802
        pass

    xUnlock = xLock  # noqa: N815
    xSync = xLock  # noqa: N815

    def xClose(self) -> None:  # noqa: N802
        pass
