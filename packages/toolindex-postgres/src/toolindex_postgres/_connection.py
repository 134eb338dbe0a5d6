"""Connections to the server, one transaction at a time, and translating its errors."""

from __future__ import annotations

import hashlib
import os
import queue
import time
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import psycopg.errors
from psycopg.generators import fetch_many
from toolindex.errors import DatabaseBusyError, DatabaseError

from toolindex_postgres._address import redacted
from toolindex_postgres.errors import (
    AddressError,
    DeniedError,
    SchemaError,
    UnreachableStoreError,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from psycopg.abc import PQGen

_T = TypeVar("_T")

_CONNECT_SECONDS = 2
_READ_MS = 2_000
# The server's limit always comes first: only one that does not keep to it counts as silent.
_LOOK_MS, _LOOK_SECONDS = 1_200, 1.5
_MARGIN_SECONDS = 1.0
_WRITE_MS = 120_000
# The first copy of a large tree takes a while on a slow network.
_COPY_MS = 60_000
# The server must notice a host that has vanished, because its locks block all other writers.
KEEPALIVES = (
    "SET LOCAL tcp_keepalives_idle = 10; SET LOCAL tcp_keepalives_interval = 2; "
    "SET LOCAL tcp_keepalives_count = 5"
)
_BEGIN = "BEGIN {}; SET LOCAL statement_timeout = {}; " + KEEPALIVES
_ASK = "BEGIN; SET LOCAL statement_timeout = {}; {}; COMMIT"
# How often psycopg checks for Ctrl-C while it waits.
_INTERVAL = 0.1
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0
# How long to wait in a network that swallows packets, until the server's host counts as silent.
_NETWORK = {"tcp_user_timeout": "2000", "keepalives_idle": "10", "keepalives_interval": "2"}
# Without a code there is no connection; otherwise it was lost, ended, one too many, or refused.
_AWAY = {"", "08", "57", "53", "28", "3D"}
_UNDEFINED = {"3F000", "42P01", "42883", "42703"}


class _SilentError(psycopg.OperationalError):
    """The server accepted a statement and does not answer."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when the server has been silent for too long.

    A stopped server does not enforce its own time limits, and a network that swallows packets
    reports no error.

    Attributes:
        patience: How many seconds to wait for a statement.
        is_ending: Whether a transaction is ending, whose answer nobody has waited for yet.
    """

    patience: float = _LOOK_SECONDS
    is_ending: bool = False

    def end_soon(self) -> None:
        """End a transaction that changes nothing, without waiting for the answer."""
        self.pgconn.send_query(b"COMMIT")
        self.pgconn.flush()
        self.is_ending = True

    def wait(self, gen: PQGen[_T], interval: float = _INTERVAL, timeout: float | None = None) -> _T:
        """Wait for the answer to a statement.

        Raises:
            OperationalError: The connection was lost, or there was no answer in time.
        """
        timeout = self.patience if timeout is None else timeout
        deadline = time.monotonic() + timeout
        try:
            if self.is_ending:
                self.is_ending = False
                super().wait(fetch_many(self.pgconn), interval, timeout)
                timeout = max(0.0, deadline - time.monotonic())
            return super().wait(gen, interval, timeout)
        except psycopg.OperationalError as error:
            if error.sqlstate is None and not self.closed:
                self.close()
                raise _SilentError("it is silent") from error
            raise


def lock_key(*names: str) -> int:
    """Return the key of an advisory lock, derived from names."""
    digest = hashlib.sha256("\0".join(("toolindex", *names)).encode("utf-8", "backslashreplace"))
    return int.from_bytes(digest.digest()[:8], signed=True)


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
        self._reason = "it was not a moment ago"
        self._is_silent = False
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

    @contextmanager
    def looking(
        self, statements: str, parameters: Sequence[str], *, patient: bool = False
    ) -> Generator[tuple[Connection, list[tuple[Any, ...] | None]]]:
        """Lend a connection as `reading` does, and the first rows that some statements return.

        That costs one round trip; the end is not waited for.

        Args:
            statements: Statements with a semicolon between each two.
            parameters: The values of their placeholders.
            patient: As for `reading`.

        Raises:
            UnreachableStoreError: The server cannot be reached, or takes longer.
            DatabaseError: It refuses; the message says what to do.
        """
        begin = _BEGIN.format("ISOLATION LEVEL REPEATABLE READ READ ONLY", _LOOK_MS)
        with self.explaining():
            connection, rows = self._begun(f"{begin}; {statements}", patient, parameters)
            try:
                yield connection, rows
                connection.end_soon()
            finally:
                self.end(connection)

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
            UnreachableStoreError: The server cannot be reached; nothing has changed.
            DatabaseError: The server refuses; nothing has changed.
        """
        with self._transaction("", _WRITE_MS, patient) as connection:
            yield connection

    def begin(self, statement: str, *, patient: bool = False) -> Connection:
        """Begin a transaction that lasts longer than a block, until `end`.

        Args:
            statement: The statement that begins it.
            patient: As for `reading`.
        """
        with self.explaining():
            return self._begun(statement, patient)[0]

    def end(self, connection: Connection) -> bool:
        """Roll a transaction back, if it has changed anything, and take its connection back.

        Returns:
            Whether the connection is of further use; another thread may have it already.
        """
        if not connection.is_ending:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        return self._give_back(connection)

    def is_refused(self) -> bool:
        """Return whether there is a server that lets nobody in, after it could not be reached.

        It may have no connection to spare. A refusal has no code, and may be in any language.
        """
        # Without a look at Ctrl-C or other threads, so not where there may be no answer.
        address = self._address.encode()
        return not self._is_silent and psycopg.pq.PGconn.ping(address) == psycopg.pq.Ping.OK

    def close(self) -> None:
        """Close the idle connections; a lent one is closed when it comes back."""
        self.closed = True
        self._drop_idle()

    @contextmanager
    def _transaction(self, kind: str, timeout_ms: int, patient: bool) -> Generator[Connection]:
        with self.explaining():
            connection, _ = self._begun(_BEGIN.format(kind, timeout_ms), patient)
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
                if not is_lost or isinstance(error, _SilentError):
                    raise
                # The server has ended idle connections, most likely all of them.
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
        # The only cursor that sends several statements with parameters.
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
                # They belong to the parent process: closing them here would end its sessions.
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
            self._reason = (str(error).strip().splitlines() or [self._reason])[-1]
            self._is_silent = isinstance(error, psycopg.errors.ConnectionTimeout)
            self._fail()
            raise
        self._retry_at, self._delay = float("-inf"), _FIRST_DELAY
        return connection

    def _fail(self) -> None:
        self._retry_at = time.monotonic() + self._delay
        self._delay = min(2 * self._delay, _LONGEST_DELAY)

    def _completed(self, address: str) -> str:
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        scheme, _, rest = address.partition("://")
        if rest and scheme in {"postgresql", "postgres"} and rest.partition("?")[0].count("@") > 1:
            # Anything after the first would be shown as a host name.
            raise AddressError(self.where)
        try:
            given = conninfo_to_dict(address)
        except psycopg.Error:
            # Its message may contain a part of the password.
            raise AddressError(self.where) from None
        defaults: dict[str, Any] = {
            "connect_timeout": _CONNECT_SECONDS,
            "application_name": "toolindex",
        }
        return make_conninfo("", **(defaults | _NETWORK | given))

    def _give_back(self, connection: Connection) -> bool:
        is_usable = not connection.closed and (
            connection.is_ending
            or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        )
        if not is_usable:
            connection.close()
            return False
        self._idle.put(connection)
        # Checked after returning it, so that closing at any moment finds the connection.
        if self.closed:
            self._drop_idle()
        return True

    def _drop_idle(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._take_any().close()

    def _take_any(self) -> Connection:
        return self._idle.get_nowait()

    @contextmanager
    def explaining(self) -> Generator[None]:
        """Translate the driver's errors in a block.

        Raises:
            DatabaseError: There was one.
        """
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, _SilentError):
                # The others would be lost too, and nobody should wait for each.
                self._drop_idle()
                self._fail()
            raise explained(self.where, error) from error


def explained(where: str, error: psycopg.Error) -> DatabaseError:
    """Translate an error of the driver."""
    code = error.sqlstate or ""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = (error.diag.message_primary or lines[-1]).strip()
    if code in _UNDEFINED:
        return SchemaError(where, found=None, supported=1)
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
    if not code and "invalid" in reason:
        # The invalid part may be part of a password with a slash.
        return AddressError(where)
    if isinstance(error, psycopg.OperationalError) and code[:2] in _AWAY:
        return UnreachableStoreError(where, reason)
    return DatabaseError(where, reason)
