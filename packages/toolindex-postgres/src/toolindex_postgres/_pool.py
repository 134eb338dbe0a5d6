"""A pool of connections to one address, which lends them for one transaction at a time."""

from __future__ import annotations

import os
import queue
import time
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg.errors
from toolindex.errors import DatabaseError

from toolindex_postgres._address import redacted
from toolindex_postgres._connection import Connection, SilentError, explained, reason_of
from toolindex_postgres.errors import AddressError, UnreachableStoreError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_CONNECT_SECONDS = 2
_READ_MS = 2_000
_LOOK_MS = 1_200
_MARGIN_SECONDS = 1.0
# Shorter than the statement timeout, so that waiting for a lock is not mistaken for a slow server.
_LOCK_MS, _WRITE_MS = 110_000, 120_000
# The first copy of a large tree takes a while on a slow network.
_COPY_MS = 60_000
# Functions that other roles have created in other schemas must not run with this role's rights.
_SAFE = "SET LOCAL search_path = pg_catalog, pg_temp"
# The server must notice a host that has vanished, because its locks block all other writers.
SETTINGS = (
    f"{_SAFE}; SET LOCAL tcp_keepalives_idle = 10; SET LOCAL tcp_keepalives_interval = 2; "
    "SET LOCAL tcp_keepalives_count = 5"
)
# A server may limit how long transactions last, since PostgreSQL 17.
UNLIMITED = (
    "SELECT set_config('transaction_timeout', '0', true) "
    "WHERE current_setting('transaction_timeout', true) IS NOT NULL"
)
_BEGIN = "BEGIN {}; SET LOCAL statement_timeout = {}; " + SETTINGS
_ASK = f"BEGIN; SET LOCAL statement_timeout = {{}}; {_SAFE}; {{}}; COMMIT"
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0
# How long to wait in a network that swallows packets, until the server's host counts as silent.
_NETWORK = {"tcp_user_timeout": "2000", "keepalives_idle": "10", "keepalives_interval": "2"}


class Connections:
    """Idle connections to one address, each lent to one thread at a time.

    No session state is used between transactions, so a pooler in front of the server may give each
    transaction another session.

    Args:
        address: An address for libpq: `postgresql://…`, or words with `=`.

    Attributes:
        where: The address without its password.

    Raises:
        AddressError: The address is invalid.
    """

    def __init__(self, address: str) -> None:
        self.where: str = redacted(address)
        self.closed: bool = False
        self._address = self._completed(address)
        self._idle: queue.LifoQueue[Connection] = queue.LifoQueue()
        self._process = os.getpid()
        self._inherited: list[Connection] = []
        self._lock = Lock()
        self._primary: Connections | None = None
        self._reason = "it was not a moment ago"
        self._is_silent = False
        self._is_unsure = False
        self._retry_at = float("-inf")
        self._delay = _FIRST_DELAY

    @property
    def is_connected(self) -> bool:
        """Whether there is an idle connection."""
        return self._process == os.getpid() and not self._idle.empty()

    @property
    def is_resting(self) -> bool:
        """Whether the server could not be reached a moment ago, and should not be tried yet."""
        return time.monotonic() < self._retry_at

    @contextmanager
    def reading(self, *, patient: bool = False, copies: bool = False) -> Generator[Connection]:
        """Lend a connection whose statements all see one state of the database.

        Args:
            patient: Whether to try at once even if the server could not be reached a moment ago.
            copies: Whether a statement may take a minute, because it fetches data for a copy;
                otherwise two seconds.

        Raises:
            UnreachableStoreError: The server cannot be reached, or takes longer.
            DatabaseError: It refuses; the message says what to do.
        """
        with self._transaction(
            "ISOLATION LEVEL REPEATABLE READ READ ONLY", _COPY_MS if copies else _READ_MS, patient
        ) as it:
            yield it

    def ask(
        self, statement: str, *parameters: str, patient: bool = False
    ) -> tuple[Any, ...] | None:
        """Run one statement, in one round trip; return its first row.

        Args:
            statement: It may run twice, if the connection was lost.
            parameters: The values of its placeholders.
            patient: As for `reading`.

        Raises:
            UnreachableStoreError: The server cannot be reached, takes longer than 1.2 s, or is
                silent for 1.5 s, for example because it was stopped.
            DatabaseError: It refuses; the message says what to do.
        """
        with self.explaining():
            begin = _ASK.format(_LOOK_MS, statement)
            connection, rows = self._begun(begin, patient, parameters)
            self._give_back(connection)
            return rows[0]

    @contextmanager
    def writing(self, *, patient: bool = True) -> Generator[Connection]:
        """Lend a connection inside a transaction, which is committed unless the block raises.

        Args:
            patient: As for `reading`.

        Raises:
            UnreachableStoreError: The server cannot be reached. All of it has been changed, if only
                the reply was lost, or nothing.
            DatabaseError: The server refuses; nothing has changed.
        """
        with self._transaction("", _WRITE_MS, patient) as connection:
            yield connection

    def begin(self, statement: str, *, patient: bool = False) -> Connection:
        """Begin a transaction that lasts until `end`.

        Args:
            statement: The statement that begins it.
            patient: As for `reading`.
        """
        with self.explaining():
            return self._begun(statement, patient)[0]

    def end(self, connection: Connection) -> bool:
        """Roll a transaction back, if it has changed anything, and take its connection back.

        Returns:
            Whether the connection can be used again; another thread may already be using it.
        """
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        return self._give_back(connection)

    def is_there(self) -> bool:
        """Return whether the server is running, after a connection to it has failed.

        It may have refused because no connection was free, or be available again. A refusal has no
        error code, and its message may be in any language.
        """
        if self._is_unsure:
            with suppress(psycopg.Error, DatabaseError):
                self._give_back(self._connect(patient=True))
                return True
        # A ping blocks all threads, so a server that may be silent is not pinged.
        address = self._address.encode()
        return not self._is_silent and psycopg.pq.PGconn.ping(address) == psycopg.pq.Ping.OK

    @property
    def primary(self) -> Connections:
        """Connections to the server that accepts writes, if the address names it, too."""
        from psycopg.conninfo import make_conninfo

        with self._lock:
            if self._primary is None:
                address = make_conninfo(self._address, target_session_attrs="read-write")
                self._primary = Connections(address)
                self._primary.closed = self.closed
            return self._primary

    def close(self) -> None:
        """Close the idle connections; a lent one is closed when it comes back."""
        self.closed = True
        if self._primary is not None:
            self._primary.close()
        self._drop_idle()

    @contextmanager
    def _transaction(self, kind: str, timeout_ms: int, patient: bool) -> Generator[Connection]:
        with self.explaining():
            begin = _BEGIN.format(kind, timeout_ms)
            if timeout_ms > _LOCK_MS:
                begin += f"; SET LOCAL lock_timeout = {_LOCK_MS}"
            connection, _ = self._begun(begin, patient)
            connection.patience = timeout_ms / 1_000 + _MARGIN_SECONDS
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                del connection.patience
                self._give_back(connection)

    def _begun(
        self, begin: str, patient: bool, parameters: Sequence[str] = ()
    ) -> tuple[Connection, list[tuple[Any, ...] | None]]:
        with suppress(queue.Empty):
            connection = self._take()
            try:
                return connection, self._first_rows(connection, begin, parameters)
            except psycopg.Error as error:
                is_lost = not self.end(connection)
                if not is_lost or isinstance(error, SilentError):
                    raise
                # The server has ended an idle connection, and probably all of them.
                self._drop_idle()
        connection = self._connect(patient)
        try:
            return connection, self._first_rows(connection, begin, parameters)
        except psycopg.Error:
            self.end(connection)
            raise

    def _first_rows(
        self, connection: Connection, statements: str, parameters: Sequence[str]
    ) -> list[tuple[Any, ...] | None]:
        # This is the only kind of cursor that can send several statements with parameters.
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(statements.encode(), parameters or None)
        rows: list[tuple[Any, ...] | None] = []
        is_more: bool | None = True
        while is_more:
            if cursor.description is not None:
                rows.append(cursor.fetchone())
            is_more = cursor.nextset()
        return rows

    def _take(self) -> Connection:
        if self.closed:
            raise DatabaseError(self.where, "the index has been closed")
        with self._lock:
            if self._process != os.getpid():
                # These belong to the parent process: closing them here would end its sessions.
                self._process = os.getpid()
                while not self._idle.empty():
                    self._inherited.append(self._idle.get_nowait())
        return self._idle.get_nowait()

    def _connect(self, patient: bool) -> Connection:
        if self.closed:
            raise DatabaseError(self.where, "the index has been closed")
        if self.is_resting and not patient:
            raise UnreachableStoreError(self.where, self._reason)
        try:
            connection = Connection.connect(
                self._address,
                autocommit=True,
                # A pooler may give each transaction another session.
                prepare_threshold=None,
            )
        except psycopg.OperationalError as error:
            # Until the next attempt, the last error is reported.
            self._reason = reason_of(error)
            self._is_silent = isinstance(error, psycopg.errors.ConnectionTimeout)
            self._is_unsure = False
            self._fail()
            raise
        self._is_silent = self._is_unsure = False
        self._retry_at, self._delay = float("-inf"), _FIRST_DELAY
        return connection

    def _fail(self) -> None:
        self._retry_at = time.monotonic() + self._delay
        self._delay = min(2 * self._delay, _LONGEST_DELAY)

    def _completed(self, address: str) -> str:
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        scheme, _, rest = address.partition("://")
        if rest and scheme in {"postgresql", "postgres"} and rest.partition("?")[0].count("@") > 1:
            # The text after the first @ would be shown as a host name.
            raise AddressError(self.where)
        try:
            given = conninfo_to_dict(address)
        except psycopg.Error:
            # The driver's message may contain a part of the password.
            raise AddressError(self.where) from None
        defaults: dict[str, Any] = {
            "connect_timeout": _CONNECT_SECONDS,
            "application_name": "toolindex",
        }
        return make_conninfo("", **(defaults | _NETWORK | given))

    def _give_back(self, connection: Connection) -> bool:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
            return False
        self._idle.put(connection)
        # This is checked after returning it, so that `close` always finds the connection.
        if self.closed:
            self._drop_idle()
        return True

    def _drop_idle(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    @contextmanager
    def explaining(self) -> Generator[None]:
        """Translate the driver's errors in a block.

        Raises:
            DatabaseError: There was one.
        """
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, SilentError):
                # Other connections are lost, too, and no thread should wait for each of them.
                self._drop_idle()
                self._is_unsure = True
                self._fail()
            raise explained(self.where, error) from error
