"""Connections to one address, each lent for one transaction, and what their errors mean."""

from __future__ import annotations

import os
import queue
import re
import time
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import psycopg.errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from toolindex import DatabaseBusyError, DatabaseError

from toolindex_postgres._address import SECRET, Address
from toolindex_postgres._errors import (
    AddressError,
    DeniedError,
    SchemaError,
    UnreachableStoreError,
)
from toolindex_postgres._tree import SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

    from psycopg.abc import PQGen

_T = TypeVar("_T")
_Row = tuple[Any, ...]

_READ_MS = 2_000
_POLL_MS = 1_200
# Longer than the server's own limit for a request, so that only a server that does not enforce its
# limits counts as silent.
_PATIENCE_SECONDS = 1.5
_MARGIN_SECONDS = 1.0
# Shorter than the statement timeout, so that waiting for a lock is not mistaken for a slow server.
_LOCK_MS, _WRITE_MS = 110_000, 120_000
# The first copy of a large tree takes a while on a slow network.
_COPY_MS = 60_000
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0
# How often psycopg checks for Ctrl-C while it waits.
_INTERVAL = 0.1
# Functions that other roles have created in other schemas must not run with this role's rights.
_SAFE = "SET LOCAL search_path = pg_catalog, pg_temp"
# The server must notice a host that has vanished, because its locks block all other writers.
_SETTINGS = (
    f"{_SAFE}; SET LOCAL tcp_keepalives_idle = 10; SET LOCAL tcp_keepalives_interval = 2; "
    "SET LOCAL tcp_keepalives_count = 5"
)
_BEGIN = "BEGIN {}; SET LOCAL statement_timeout = {}; " + _SETTINGS
_ASK = f"BEGIN; SET LOCAL statement_timeout = {{}}; {_SAFE}; {{}}; COMMIT"
# A server may limit how long transactions last, since PostgreSQL 17.
BEGIN_UNLIMITED = (
    f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; {_SETTINGS}; "
    "SELECT set_config('transaction_timeout', '0', true) "
    "WHERE current_setting('transaction_timeout', true) IS NOT NULL"
)
"""Begins a transaction that may last for hours."""
_DEFAULTS = {
    "connect_timeout": 2,
    "application_name": "toolindex",
    # How long to wait in a network that swallows packets, until the host counts as silent.
    "tcp_user_timeout": 2000,
    "keepalives_idle": 10,
    "keepalives_interval": 2,
}
# Classes of errors after which the server counts as unreachable. Without a code there is no
# connection; otherwise it was lost, ended, refused, or one too many.
_UNREACHABLE = {"", "08", "57", "53", "28", "3D"}
# libpq's message on a parameter of the address, unlike that on a host called "invalid" or on an
# "invalid response" of something other than PostgreSQL.
_INVALID = re.compile(r"(^|: )(invalid|missing) ")
_UNDEFINED = {"3F000", "42P01", "42883", "42703"}


class _SilentError(psycopg.OperationalError):
    """The server accepted a statement and does not answer."""


class Connection(psycopg.Connection[_Row]):
    """A connection that is closed when the server has been silent for too long.

    A stopped server does not enforce its own time limits, and a network that swallows packets
    reports no error.

    Attributes:
        patience: How many seconds to wait for a statement.
    """

    patience: float = _PATIENCE_SECONDS

    def wait(self, gen: PQGen[_T], interval: float = _INTERVAL, timeout: float | None = None) -> _T:
        """Wait for the answer to a statement; without one in time, the connection is lost."""
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if error.sqlstate or self.closed:
                raise
            self.close()
            raise _SilentError("it is silent") from error


class Connections:
    """Idle connections to one address, each lent to one thread at a time.

    No session state is used between transactions, so a pooler in front of the server may give each
    transaction another session. psycopg_pool is not used, because it connects in the background:
    the reason of a failure goes to a log, not to the caller (decision 26).

    Args:
        address: An address for libpq: `postgresql://…`, or words with `=`.

    Attributes:
        where: The address without its password.

    Raises:
        AddressError: The address is invalid.
        UnreachableStoreError: (in methods) The server cannot be reached, or takes too long.
        DatabaseError: (in methods) It refuses; the message says what to do.
    """

    def __init__(self, address: str) -> None:
        try:
            is_url = address and "=" not in address.partition("/")[0]
            url = Address.parse(address) if is_url else None
            given = conninfo_to_dict(url.url if url else address)
            harmless = {name: it for name, it in given.items() if not SECRET.search(name)}
            self.where: str = url.shown if url else make_conninfo("", **harmless)
        except (psycopg.Error, ValueError):
            # The driver's message may contain a part of the password.
            raise AddressError from None
        self.closed: bool = False
        self._address = make_conninfo("", **(_DEFAULTS | given))
        self._idle: queue.LifoQueue[Connection] = queue.LifoQueue()
        self._process = os.getpid()
        self._inherited: list[Connection] = []
        self._lock = Lock()
        self._primary: Connections | None = None
        self._reason = "it was not a moment ago"
        # Whether connecting took too long, or a connection has fallen silent since.
        self._is_silent = self._is_unsure = False
        self._retry_at = float("-inf")
        self._delay = _FIRST_DELAY

    @property
    def is_connected(self) -> bool:
        return self._process == os.getpid() and not self._idle.empty()

    @property
    def is_resting(self) -> bool:
        """Whether the server could not be reached a moment ago, and should not be tried yet."""
        return time.monotonic() < self._retry_at

    def reading(
        self, *, patient: bool = False, copies: bool = False
    ) -> AbstractContextManager[Connection]:
        """Lend a connection whose statements all see one state of the database.

        Args:
            patient: Whether to try at once even if the server could not be reached a moment ago.
            copies: Whether a statement may take a minute, because it fetches data for a copy;
                otherwise two seconds.
        """
        kind = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return self._transaction(kind, _COPY_MS if copies else _READ_MS, patient)

    def writing(self, *, patient: bool = True) -> AbstractContextManager[Connection]:
        """Lend a connection inside a transaction, which is committed unless the block raises.

        If the server becomes unreachable, everything has been changed, if only the reply was lost,
        or nothing.
        """
        return self._transaction("", _WRITE_MS, patient)

    def ask(self, statement: str, *parameters: str, patient: bool = False) -> _Row | None:
        """Run one statement, in one round trip; return its first row.

        The server may take 1.2 s, and be silent for 1.5 s. The statement may run twice, if the
        connection was lost.
        """
        with self.explaining():
            begin = _ASK.format(_POLL_MS, statement)
            connection, rows = self._begun(begin, patient, parameters)
            self._give_back(connection)
            return rows[0]

    def begin(self, statement: str, *, patient: bool = False) -> Connection:
        """Begin a transaction, with a statement, that lasts until `end`."""
        with self.explaining():
            return self._begun(statement, patient)[0]

    def end(self, connection: Connection) -> bool:
        """Roll a transaction back; return whether its connection can be used again."""
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
        with self._lock:
            if self._primary is None:
                self._primary = Connections(
                    make_conninfo(self._address, target_session_attrs="read-write")
                )
                self._primary.closed = self.closed
            return self._primary

    def close(self) -> None:
        self.closed = True
        if self._primary is not None:
            self._primary.close()
        self._drop_idle()

    @contextmanager
    def explaining(self) -> Generator[None]:
        """Translate the driver's errors in a block into those of this package."""
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, _SilentError):
                # Other connections are lost, too, and no thread should wait for each of them.
                self._drop_idle()
                self._is_unsure = True
                self._rest()
            raise _explained(self.where, error) from error

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
    ) -> tuple[Connection, list[_Row | None]]:
        with suppress(queue.Empty):
            connection = self._take()
            try:
                return connection, _first_rows(connection, begin, parameters)
            except psycopg.Error as error:
                is_lost = not self.end(connection)
                if not is_lost or isinstance(error, _SilentError):
                    raise
                # The server has ended an idle connection, and probably all of them.
                self._drop_idle()
        connection = self._connect(patient)
        try:
            return connection, _first_rows(connection, begin, parameters)
        except psycopg.Error:
            self.end(connection)
            raise

    def _take(self) -> Connection:
        self._check_open()
        with self._lock:
            if self._process != os.getpid():
                # These belong to the parent process: closing them here would end its sessions.
                self._process = os.getpid()
                while not self._idle.empty():
                    self._inherited.append(self._idle.get_nowait())
        return self._idle.get_nowait()

    def _connect(self, patient: bool) -> Connection:
        self._check_open()
        if self.is_resting and not patient:
            raise UnreachableStoreError(self.where, self._reason)
        try:
            # A pooler may give each transaction another session, so nothing is prepared.
            connection = Connection.connect(self._address, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            # Until the next attempt, the last error is reported.
            self._reason = _reason_of(error)
            self._is_silent = isinstance(error, psycopg.errors.ConnectionTimeout)
            self._is_unsure = False
            self._rest()
            raise
        self._is_silent = self._is_unsure = False
        self._retry_at, self._delay = float("-inf"), _FIRST_DELAY
        return connection

    def _check_open(self) -> None:
        if self.closed:
            raise DatabaseError(self.where, "the index has been closed")

    def _rest(self) -> None:
        self._retry_at = time.monotonic() + self._delay
        self._delay = min(2 * self._delay, _LONGEST_DELAY)

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


def _first_rows(
    connection: Connection, statements: str, parameters: Sequence[str]
) -> list[_Row | None]:
    # This is the only kind of cursor that can send several statements with parameters.
    cursor = psycopg.ClientCursor(connection)
    cursor.execute(statements.encode(), parameters or None)
    return [results.fetchone() for results in cursor.results() if results.description is not None]


def _reason_of(error: psycopg.Error) -> str:
    """Return what went wrong, in one line, without libpq's advice."""
    # Of several addresses, the last one. libpq indents its advice by a tab.
    lines = [line for line in str(error).splitlines() if line and not line[0].isspace()]
    failed = (lines or [type(error).__name__])[-1].rpartition("connection failed: ")[2]
    return (error.diag.message_primary or failed).strip()


def _explained(where: str, error: psycopg.Error) -> DatabaseError:
    code, reason = error.sqlstate or "", _reason_of(error)
    if code in _UNDEFINED:
        return SchemaError(where, found=None, supported=SUPPORTED)
    if code == "42501":
        return DeniedError(where, reason)
    if code == "25006":
        return DatabaseError(
            where,
            "this server accepts no writes: it is a replica, or was made read-only; for a replica, "
            "add target_session_attrs=read-write to the address",
        )
    if code == "53100":
        return DatabaseError(where, f"the server's disk is full ({reason}); make room there")
    if code in {"55P03", "40001", "40P01"}:
        return DatabaseBusyError(where)
    if code == "57014":
        return UnreachableStoreError(where, "it took too long")
    if not code and _INVALID.search(reason):
        # The message is not shown: it may quote a part of a password.
        return AddressError()
    if isinstance(error, psycopg.OperationalError) and code[:2] in _UNREACHABLE:
        return UnreachableStoreError(where, reason)
    return DatabaseError(where, reason)
