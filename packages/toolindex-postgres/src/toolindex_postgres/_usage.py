"""The record of searches and outcomes that all hosts of a tree share.

Events of this host are written into the copy and into a queue beside it, and sent from there.
Unconfirmed events are sent again. Each event has an id, so that the server counts it once even if
it arrives several times. Outcomes of other hosts are fetched together with other changes, for
filters and ranking; searches of other hosts are fetched when the record is requested.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, astuple
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg.errors
from toolindex import DatabaseError, OutcomeRecord, SearchRecord

from toolindex_postgres._rows import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolindex import ToolUsage, UsageStatistics

    from toolindex_postgres._connections import Connections
    from toolindex_postgres._copy import Copy
    from toolindex_postgres._tree import State

T = TypeVar("T", SearchRecord, OutcomeRecord)
# How much is sent at once: a network of 1 Mbit/s carries it within the time limit of a request.
_BATCH, _BATCH_BYTES = 500, 64 << 10
# How many outcomes of other hosts one search fetches at most; the next search continues.
_FETCHED = 1_000
# How many seconds a request for the record waits for another fetch.
_PATIENCE = 30.0
_RECORD = (
    "SELECT done::text, extract(epoch FROM pg_postmaster_start_time())::text "
    "FROM (SELECT toolindex.record(%s, %s)) AS it (done)"
)


class SharedUsage:
    """The record of a tree: this host's copy of it, and the server's.

    It is a store's `usage`. `clear` only deletes the record on this host; `retain` also
    deletes events on the server, if `prunes`.
    """

    def __init__(self, copy: Copy, connections: Connections, tree: str, *, prunes: bool) -> None:
        self._copy = copy
        self._local = copy.store.usage
        self._notes = copy.notes
        self._connections = connections
        # To this server, or to another one in the address, if this one is a standby.
        self._sender = connections
        self._tree = encoded(tree)
        self._prunes = prunes
        self._recording = Lock()
        self._numbers = Counter[OutcomeRecord]()
        self._sending = Lock()
        self._is_asked = False
        self._waiting: int | None = None
        self._followed: tuple[str, int, int] | None = None

    @property
    def read_only(self) -> bool:
        return self._local.read_only

    def record_searches(self, searches: Iterable[SearchRecord]) -> None:
        self._record(list(searches), self._local.record_searches)

    def record_outcomes(self, outcomes: Iterable[OutcomeRecord]) -> None:
        self._record(list(outcomes), self._local.record_outcomes)

    def statistics(self, *, since: float | None = None, top: int = 10) -> UsageStatistics:
        self.fetch()
        return self._local.statistics(since=since, top=top)

    def of_tool(self, tool_id: str) -> ToolUsage | None:
        self.fetch()
        return self._local.of_tool(tool_id)

    def searches(
        self, *, since: float | None = None, found: str | None = None
    ) -> tuple[SearchRecord, ...]:
        self.fetch()
        # The copy has them in the order in which they arrived.
        return tuple(sorted(self._local.searches(since=since, found=found), key=_time))

    def outcomes(
        self, *, since: float | None = None, tool_id: str | None = None
    ) -> tuple[OutcomeRecord, ...]:
        self.fetch()
        return tuple(sorted(self._local.outcomes(since=since, tool_id=tool_id), key=_time))

    def retain(self, *, max_age_days: float, max_rows: int) -> tuple[int, int]:
        removed = self._local.retain(max_age_days=max_age_days, max_rows=max_rows)
        if self._prunes:
            with suppress(DatabaseError), self._connections.writing(patient=False) as connection:
                connection.execute(
                    # By the server's clock, not by those of hosts.
                    "DELETE FROM toolindex.event AS e USING toolindex.usage AS u "
                    "JOIN toolindex.tree AS t USING (tree_id) "
                    "WHERE t.name = %s AND e.tree_id = u.tree_id "
                    "AND (e.stored_at < now() - make_interval(secs => %s) OR e.no <= u.last - %s)",
                    (self._tree, max_age_days * 86_400, 2 * max_rows),
                )
        self.send()
        with suppress(DatabaseError):
            self._notes.retain_events(max_rows)
            self._waiting = self._notes.count_events()
        return removed

    def clear(self) -> tuple[int, int]:
        """Delete the record on this host, including unsent events."""
        self._notes.clear_events()
        self._waiting = 0
        return self._local.clear()

    def waiting(self, *, sends: bool = True) -> int:
        """Return how many events are waiting, after sending them if `sends`."""
        if self._waiting is None:
            self._waiting = self._notes.count_events()
        if self._waiting and sends:
            self.send()
        return self._waiting

    def send(self) -> None:
        """Send waiting events, unless the server is unreachable or another thread is sending."""
        # Makes a thread that is already sending look again, in case it has just looked.
        self._is_asked = True
        while self._is_asked and self._sending.acquire(blocking=False):
            try:
                self._is_asked = False
                all_sent = self._send()
                self._waiting = self._notes.count_events()
            finally:
                self._sending.release()
            if not all_sent:
                return

    def _send(self) -> bool:
        try:
            while events := self._notes.events(most=_BATCH, most_bytes=_BATCH_BYTES):
                body = f"[{','.join(body for _, body in events)}]"
                answer = self._sent(body) or [None]
                if answer[0] is None:
                    # The tree has not been created yet, or this role may not see it.
                    return False
                self._notes.sent([id_ for id_, _ in events], server=str(answer[1]))
        except DatabaseError:
            return False
        return True

    def _sent(self, body: str) -> tuple[Any, ...] | None:
        try:
            return self._sender.ask(_RECORD, self._tree, body)
        except DatabaseError as error:
            is_new = self._sender is self._connections
            if not (is_new and isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction)):
                raise
            # This server is a standby, which accepts no writes.
            self._sender = self._connections.primary
            return self._sender.ask(_RECORD, self._tree, body)

    def is_behind(self, now: State) -> bool:
        """Return whether other hosts may have recorded outcomes that are not here yet."""
        # This host's own events are not fetched, so the newest may be one of them.
        if self.read_only or (now.database, now.tree, now.outcome) == self._followed:
            return False
        with suppress(DatabaseError):
            return now.outcome != self._notes.fetched("outcomes", now.database, now.tree)[0]
        return False

    def follow(self, now: State) -> None:
        """Fetch new outcomes of other hosts, or the first of them if there are many."""
        if not self.is_behind(now):
            return
        with self._copy.try_exclusive(0.0) as is_ours:
            if is_ours and not self._fetch_outcomes(now.database, now.tree):
                self._followed = now.database, now.tree, now.outcome

    def fetch(self) -> None:
        """Fetch the whole record of other hosts, if the server can be reached."""
        if self.read_only:
            return
        self.send()
        # Wait for a fetch that a search may have started.
        with suppress(DatabaseError), self._copy.try_exclusive(_PATIENCE) as is_ours:
            if is_ours:
                with self._connections.reading() as connection:
                    row = connection.execute(
                        "SELECT s.database::text, t.tree_id FROM toolindex.state AS s, "
                        "toolindex.tree AS t WHERE t.name = %s",
                        (self._tree,),
                    ).fetchone()
                while row is not None and self._fetch_outcomes(*row):
                    pass
                while row is not None and self._fetch_searches(*row):
                    pass

    def _record(self, records: list[T], write: Callable[[list[T]], None]) -> None:
        if not records:
            return
        with self._recording:
            numbers = self._numbers.copy()
            # Events are queued first. If writing the copy fails, the caller tries again, and they
            # get the same ids.
            self._notes.add_events(list(_events(self._notes.host(), records, numbers)))
            write(records)
            # Only at the same time can a later record be equal.
            newest = max(map(_time, records))
            self._numbers = Counter({it: n for it, n in numbers.items() if _time(it) >= newest})
        self.send()

    def _fetch_outcomes(self, database: str, tree: int) -> bool:
        columns = "at, tool_id, success, latency_ms, search_id"
        return self._fetch(database, tree, "outcomes", columns, "IS NULL", self._add_outcomes)

    def _add_outcomes(self, rows: list[tuple[Any, ...]]) -> None:
        given = list(_readable(_outcome, rows))
        # A process that was killed after writing some of them has not recorded that.
        oldest = min((it.at for it in given), default=0.0)
        held = Counter(self._local.outcomes(since=oldest)) if given else Counter[OutcomeRecord]()
        new: list[OutcomeRecord] = []
        for it in given:
            held[it] -= 1
            if held[it] < 0:
                new.append(it)
        self._local.record_outcomes(new)

    def _fetch_searches(self, database: str, tree: int) -> bool:
        def add(rows: list[tuple[Any, ...]]) -> None:
            self._local.record_searches(_readable(_search, rows))

        return self._fetch(database, tree, "searches", "search", "IS NOT NULL", add)

    def _fetch(
        self,
        database: str,
        tree: int,
        kind: str,
        columns: str,
        search: str,
        add: Callable[[list[tuple[Any, ...]]], None],
    ) -> bool:
        """Fetch and add the next events of a kind; return whether there may be more."""
        last, event = self._notes.fetched(kind, database, tree)
        with self._connections.reading(copies=True) as connection:
            rows = connection.execute(
                # A replacement server may have given the number to another event. Then all events
                # are fetched again, and known ones are ignored.
                f"SELECT no, event::text, {columns} FROM toolindex.event WHERE tree_id = %(tree)s "  # noqa: S608
                "AND no > coalesce((SELECT e.no FROM toolindex.event AS e WHERE e.tree_id = "
                "%(tree)s AND e.event = %(event)s::uuid AND e.no = %(last)s), 0) "
                f"AND search {search} AND host <> %(host)s::uuid ORDER BY no "
                f"LIMIT {_FETCHED}".encode(),
                {"tree": tree, "event": event, "last": last, "host": self._notes.host()},
            ).fetchall()
        add(rows)
        if rows:
            self._notes.put(f"fetched {kind}", [[database, tree], *rows[-1][:2]])
        return len(rows) == _FETCHED


def _events(
    host: str,
    records: Iterable[SearchRecord | OutcomeRecord],
    numbers: Counter[OutcomeRecord],
) -> Iterator[tuple[str, str]]:
    """Yield the id and the JSON of each event, and count equal outcomes in `numbers`.

    The id is derived from the event and its host, so that a record that is written again after a
    failure is the same event.
    """
    for record in records:
        key: object
        if isinstance(record, SearchRecord):
            what = [record.at, None, None, None, None, json.dumps(asdict(record), default=str)]
            key = record.id
        else:
            at, tool_id, success, latency, search = astuple(record)
            search = None if search is None else encoded(search)
            what = [at, encoded(tool_id), success, latency, search, None]
            numbers[record] += 1
            key = record, numbers[record]
        id_ = str(uuid.uuid5(uuid.UUID(host), repr(key)))
        yield id_, json.dumps([id_, host, *what])


def _readable(made: Callable[..., T], rows: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """Yield the records in rows of the server, without invalid ones.

    Every role that may read a tree can add events to its record, so they may contain anything.
    """
    for _, _, *values in rows:
        with suppress(ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            yield made(*values)


def _outcome(
    at: float, tool_id: str | None, success: bool | None, latency: float | None, search: str | None
) -> OutcomeRecord:
    if tool_id is None or success is None:
        raise ValueError("it is not an outcome")
    return OutcomeRecord(
        at=at,
        tool_id=decoded(tool_id),
        success=success,
        latency_ms=latency,
        search_id=None if search is None else decoded(search),
    )


def _search(text: str) -> SearchRecord:
    values = json.loads(text)
    return SearchRecord(
        id=str(values["id"]),
        at=float(values["at"]),
        query=str(values["query"]),
        mode=str(values["mode"]),
        parameters=dict(values["parameters"]),
        results=tuple(map(str, values["results"])),
        latency_ms=float(values["latency_ms"]),
        degraded=tuple(map(str, values["degraded"])),
    )


def _time(record: SearchRecord | OutcomeRecord) -> float:
    return record.at
