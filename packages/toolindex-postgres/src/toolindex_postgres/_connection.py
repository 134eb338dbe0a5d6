"""One connection to the server, which is given up if the server is silent, and its errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from toolindex.errors import DatabaseBusyError, DatabaseError

from toolindex_postgres._migrations import SUPPORTED
from toolindex_postgres.errors import (
    AddressError,
    DeniedError,
    SchemaError,
    UnreachableStoreError,
)

if TYPE_CHECKING:
    from psycopg.abc import PQGen

_T = TypeVar("_T")

# Longer than the server's own limit for a request, so that only a server that does not enforce its
# limits counts as silent.
_PATIENCE_SECONDS = 1.5
# How often psycopg checks for Ctrl-C while it waits.
_INTERVAL = 0.1
# Classes of errors after which the server counts as unreachable. Without a code there is no
# connection; otherwise it was lost, ended, refused, or one too many.
_AWAY = {"", "08", "57", "53", "28", "3D"}
# libpq's message on a parameter of the address, unlike that on a host called "invalid" or on an
# "invalid response" of something other than PostgreSQL.
_INVALID = re.compile(r"(^|: )(invalid|missing) ")
_UNDEFINED = {"3F000", "42P01", "42883", "42703"}


class SilentError(psycopg.OperationalError):
    """The server accepted a statement and does not answer."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when the server has been silent for too long.

    A stopped server does not enforce its own time limits, and a network that swallows packets
    reports no error.

    Attributes:
        patience: How many seconds to wait for a statement.
    """

    patience: float = _PATIENCE_SECONDS

    def wait(self, gen: PQGen[_T], interval: float = _INTERVAL, timeout: float | None = None) -> _T:
        """Wait for the answer to a statement.

        Raises:
            OperationalError: The connection was lost, or there was no answer in time.
        """
        timeout = self.patience if timeout is None else timeout
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.OperationalError as error:
            if error.sqlstate or self.closed:
                raise
            self.close()
            raise SilentError("it is silent") from error


def reason_of(error: psycopg.Error) -> str:
    """Return what went wrong, in one line, without libpq's advice."""
    # Of several addresses, the last one. libpq indents its advice by a tab.
    lines = [line for line in str(error).splitlines() if line and not line[0].isspace()]
    failed = (lines or [type(error).__name__])[-1].rpartition("connection failed: ")[2]
    return (error.diag.message_primary or failed).strip()


def explained(where: str, error: psycopg.Error) -> DatabaseError:
    """Translate an error of the driver."""
    code = error.sqlstate or ""
    reason = reason_of(error)
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
        # The message is not shown: it may quote a part of a password that contains a slash.
        return AddressError(where)
    if isinstance(error, psycopg.OperationalError) and code[:2] in _AWAY:
        return UnreachableStoreError(where, reason)
    return DatabaseError(where, reason)
