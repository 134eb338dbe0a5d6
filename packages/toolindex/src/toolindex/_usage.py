"""The usage record: storing and reading searches and outcomes, and deleting old ones."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex._meta import counter, move_on
from toolindex._parts import kept_path
from toolindex._recovery import without_backup
from toolindex._statistics import compute_statistics, compute_usage
from toolindex._usage_records import (
    check_number,
    outcome_row,
    search_row,
    to_outcome,
    to_search,
    to_storable,
)
from toolindex.errors import DamagedDatabaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import apsw

    from toolindex._connection import ConnectionPool
    from toolindex._statistics import ToolUsage, UsageStatistics
    from toolindex._usage_records import OutcomeRecord, SearchRecord

_OUTCOMES = "outcomes"
_DAY = 86_400.0
# Recording a search is not worth a long wait.
_PATIENCE_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRecords:
    """How much of the usage record was deleted.

    Attributes:
        searches: How many searches.
        outcomes: How many outcomes.
    """

    searches: int
    outcomes: int


class UsageLog:
    """Keeps searches and outcomes in the database; nothing leaves the machine.

    Every method is one transaction: one that raises has changed nothing, and can be retried.
    `DatabaseError` says that the database cannot be read or written.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    @property
    def read_only(self) -> bool:
        """Whether nothing can be recorded."""
        return self._pool.read_only

    def record_searches(self, searches: Iterable[SearchRecord]) -> None:
        """Record searches; those with known ids are ignored."""
        if rows := [search_row(search) for search in searches]:
            with self._pool.write(patience_ms=_PATIENCE_MS) as connection:
                connection.executemany(
                    "INSERT INTO searches "
                    "(id, at, query, mode, parameters, results, latency_ms, degraded) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                    rows,
                )

    def record_outcomes(self, outcomes: Iterable[OutcomeRecord]) -> None:
        """Record outcomes; each counts, so pass each only once."""
        if rows := [outcome_row(outcome) for outcome in outcomes]:
            with self._pool.write() as connection:
                connection.executemany(
                    "INSERT INTO outcomes (at, tool_id, success, latency_ms, search_id) "
                    "VALUES (?, ?, ?, ?, ?)",
                    rows,
                )
                move_on(connection, _OUTCOMES)

    def statistics(self, *, since: float | None = None, top: int = 10) -> UsageStatistics:
        """Summarize the record.

        Args:
            since: Leave out older records, in seconds since 1970; None for all.
            top: How many queries without results to return.
        """
        with self._pool.read() as connection:
            return compute_statistics(
                connection, since=-math.inf if since is None else since, top=top
            )

    def searches(
        self, *, since: float | None = None, found: str | None = None
    ) -> tuple[SearchRecord, ...]:
        """Return the recorded searches, oldest first.

        Args:
            since: Leave out older records, in seconds since 1970; None for all.
            found: Only searches that found this tool; None for all.

        Raises:
            DamagedDatabaseError: The record is not as it was written.
        """
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT id, at, query, mode, parameters, results, latency_ms, degraded "
                "FROM searches WHERE at >= ?1 AND (?2 = '' OR instr(results, ?2)) "
                "ORDER BY at, rowid",
                # Searched as JSON, with its quotation marks, so that no other id contains it.
                (
                    -math.inf if since is None else since,
                    "" if found is None else json.dumps(to_storable(found)),
                ),
            )
            try:
                return tuple(to_search(*row) for row in rows)
            except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
                raise DamagedDatabaseError(kept_path(self._pool.path)) from error

    def outcomes(
        self, *, since: float | None = None, tool_id: str | None = None
    ) -> tuple[OutcomeRecord, ...]:
        """Return the recorded outcomes, oldest first.

        Args:
            since: Leave out older records, in seconds since 1970; None for all.
            tool_id: Only outcomes of this tool; None for all.

        Raises:
            DamagedDatabaseError: The record is not as it was written.
        """
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT at, tool_id, success, latency_ms, search_id FROM outcomes "
                "WHERE at >= ?1 AND (?2 IS NULL OR tool_id = ?2) ORDER BY at, rowid",
                (
                    -math.inf if since is None else since,
                    None if tool_id is None else to_storable(tool_id),
                ),
            )
            try:
                return tuple(to_outcome(*row) for row in rows)
            except (TypeError, ValueError) as error:
                raise DamagedDatabaseError(kept_path(self._pool.path)) from error

    def of_tool(self, tool_id: str) -> ToolUsage | None:
        """Return the item of one tool in `statistics().tools`, or None if it has no outcome."""
        with self._pool.read() as connection:
            return compute_usage(connection, to_storable(tool_id))

    def generation(self) -> int:
        """Return the counter that changes whenever outcomes are written or deleted.

        After a change, answers that were filtered by success or latency are stale.
        """
        with self._pool.read() as connection:
            return usage_generation(connection)

    def clear(self) -> RemovedRecords:
        """Delete the whole record, and the copy of the file that has it."""
        with self._pool.read() as connection:
            sql = "SELECT EXISTS (SELECT 1 FROM searches) OR EXISTS (SELECT 1 FROM outcomes)"
            if not connection.execute(sql).get:
                return RemovedRecords(searches=0, outcomes=0)
        with without_backup(self._pool.path), self._pool.write() as connection:
            # Otherwise the texts would stay in the file until they are overwritten.
            connection.execute("PRAGMA secure_delete = ON")
            return _removed(
                connection,
                searches=_delete(connection, "DELETE FROM searches"),
                outcomes=_delete(connection, "DELETE FROM outcomes"),
            )

    def retain(self, *, max_age_days: float, max_rows: int) -> RemovedRecords:
        """Delete records that are too old, and the oldest if there are too many.

        The clock cannot be trusted, so no deletion relies on it alone:

        - Age is counted back from now or from the newest record, whichever is earlier. A clock
          that has jumped ahead deletes nothing by itself, and a record dated in the future
          does not make others older. The newest record is therefore kept; `clear` deletes it.
        - A record dated in the future is as old as any that was written after it, and is
          deleted with the first of those.
        - The number of records is limited in the order of writing, whatever the dates.

        Args:
            max_age_days: The maximum age of records.
            max_rows: The maximum number of searches, and of outcomes.

        Raises:
            UsageError: A number is negative or not finite.
            DatabaseError: The database cannot be written.
        """
        check_number("max_age_days", max_age_days)
        check_number("max_rows", max_rows)
        with self._pool.write() as connection:
            now = time.time()
            newest = connection.execute(
                "SELECT max(at) FROM (SELECT max(at) AS at FROM searches WHERE at <= ?1 "
                "UNION ALL SELECT max(at) FROM outcomes WHERE at <= ?1)",
                (now,),
            ).get
            values = {
                "now": now,
                "cutoff": (now if newest is None else newest) - max_age_days * _DAY,
                "kept": max_rows,
            }
            return _removed(
                connection,
                searches=_retain(connection, "searches", values),
                outcomes=_retain(connection, "outcomes", values),
            )


def usage_generation(connection: apsw.Connection) -> int:
    """Return the counter that changes whenever outcomes are written or deleted."""
    return counter(connection, _OUTCOMES)


def _retain(connection: apsw.Connection, table: str, values: Mapping[str, float]) -> int:
    # Rowids are in the order of writing, whatever the clock said. Both statements use the index on
    # `at`, so that a call without anything to delete reads little.
    aged = _delete(
        connection,
        f"DELETE FROM {table} WHERE at < :cutoff OR (at > :now "  # noqa: S608 - a constant
        f"AND rowid < (SELECT max(rowid) FROM {table} WHERE at < :cutoff))",
        values,
    )
    surplus = _delete(
        connection,
        f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} ORDER BY rowid "  # noqa: S608
        f"LIMIT max(0, (SELECT count(*) FROM {table}) - :kept))",
        values,
    )
    return aged + surplus


def _delete(
    connection: apsw.Connection, sql: str, values: Mapping[str, float] | None = None
) -> int:
    connection.execute(sql, values)
    return connection.changes()


def _removed(connection: apsw.Connection, *, searches: int, outcomes: int) -> RemovedRecords:
    if outcomes:
        move_on(connection, _OUTCOMES)
    return RemovedRecords(searches=searches, outcomes=outcomes)
