"""The record of searches and outcomes that all hosts share, even after failures."""

import os
import sqlite3
import threading
import time
from contextlib import closing

import psycopg
import pytest
from toolindex import DatabaseError, OutcomeRecord, SearchRecord, ToolFilter
from toolindex_postgres import Database
from toolindex_postgres._connections import Connections
from toolindex_postgres._notes import Notes

from .sqlite_store import SQLiteStore
from .test_faults import killed, ready, until
from .trees import ONE, TWO, ids, sync

SEND, READ = "mcptools:mail:send", "mcptools:mail:read"


def outcome(success=True, *, tool_id=SEND, latency=None, search_id=None, at=None):
    return OutcomeRecord(
        at=time.time() if at is None else at,
        tool_id=tool_id,
        success=success,
        latency_ms=latency,
        search_id=search_id,
    )


def search(id_, query="send mail", results=(SEND,), at=None):
    return SearchRecord(
        id=id_,
        at=time.time() if at is None else at,
        query=query,
        mode="hybrid",
        parameters={"limit": 3},
        results=results,
        latency_ms=2.5,
    )


def stored(database, tree):
    """Return how many searches and outcomes the server has stored for a tree."""
    with psycopg.connect(database) as connection:
        return connection.execute(
            "SELECT count(search), count(tool_id) FROM toolindex.event "
            "JOIN toolindex.tree USING (tree_id) WHERE name = %s",
            (tree,),
        ).fetchone()


def has_sent(store):
    """Return whether the server has everything that a store has recorded."""
    return store.freshness().waiting == 0


def good(store):
    """Return the tools with a success rate of at least one half."""
    only = ToolFilter(min_success_rate=0.5, min_observations=1, unknown="exclude")
    with store.reading() as reader:
        return list(reader.ids(only))


def test_filters_and_reports_use_the_outcomes_of_all_hosts(host, database, tree):
    here, there = host(), host()
    sync(here, TWO)
    odd = "\0\ud800"
    here.usage.record_searches([search("a"), search("b", query=odd, results=())])
    here.usage.record_outcomes([outcome(latency=30.0, search_id="a"), outcome(False, tool_id=READ)])
    there.usage.record_searches([search("c")])
    there.usage.record_outcomes(
        [outcome(latency=10.0), outcome(latency=20.0), outcome(tool_id=odd)]
    )
    for store in (here, there):
        until(lambda store=store: has_sent(store), "its events are sent")
    assert stored(database, tree) == (3, 5)
    for store in (here, there):
        until(lambda store=store: good(store) == [SEND], "the outcomes are fetched")
        until(lambda store=store: len(store.usage.searches()) == 3, "the searches are fetched, too")
        figures = store.usage.statistics()
        assert (figures.searches, figures.without_results, figures.judged) == (3, 1, 1)
        of_send = store.usage.of_tool(SEND)
        assert (of_send.observations, of_send.latency_p50_ms) == (3, 20.0)
        assert {it.id for it in store.usage.searches()} == set("abc")
    assert here.usage.searches() == there.usage.searches()
    assert here.usage.outcomes() == there.usage.outcomes()
    # None of these is fetched or counted twice.
    here.usage.record_outcomes([outcome()])
    assert [len(it.usage.outcomes()) for it in (here, there, host())] == [6, 6, 6]


def test_a_request_for_the_record_waits_while_another_process_changes_the_copy(host, tmp_path):
    here, there = host(), host(copy=tmp_path / "shared.db")
    sync(here, ONE)
    here.usage.record_outcomes([outcome()])
    until(lambda: has_sent(here), "the outcome is sent")
    with SQLiteStore(tmp_path / "shared.db") as other:
        lease = other.lease("copy")
        assert lease.acquire(timeout=60)
        released = threading.Timer(0.2, lease.release)
        released.start()
        assert len(there.usage.outcomes()) == 1
        released.join()


def test_searches_continue_if_the_record_cannot_be_written(host, tmp_path):
    path = tmp_path / "here.db"
    here, there = host(copy=path), host()
    sync(here, ONE)
    assert ids(here) == ["mail:send"]
    with closing(sqlite3.connect(f"{path}-shared", isolation_level=None)) as notes:
        # As if the disk were full.
        notes.execute(
            "CREATE TRIGGER full BEFORE INSERT ON note WHEN new.key LIKE 'fetched%' "
            "BEGIN SELECT raise(ABORT, 'disk is full'); END"
        )
    there.usage.record_outcomes([outcome()])
    until(lambda: has_sent(there), "its events are sent")
    assert ids(here) == ["mail:send"]
    until(lambda: not here.freshness().problem, "nothing is wrong with the server")
    with closing(sqlite3.connect(f"{path}-shared", isolation_level=None)) as notes:
        notes.execute("DROP TRIGGER full")
    assert ids(here) == ["mail:send"]
    until(lambda: len(here.usage.outcomes()) == 1, "the outcome is fetched")


def test_an_event_that_is_written_or_sent_twice_counts_once(host, database, tree, tmp_path):
    path = tmp_path / "here.db"
    here, there = host(copy=path), host()
    sync(here, ONE)
    # Two equal outcomes at the same time.
    same = [outcome(at=1.0)] * 2
    here.usage.record_outcomes(same)
    there.usage.record_outcomes([outcome(at=2.0)])
    assert stored(database, tree) == (0, 3)
    with closing(sqlite3.connect(f"{path}-shared", isolation_level=None)) as notes:
        # As if the reply had been lost, and the process killed before it recorded its state.
        notes.execute("UPDATE event SET sent = NULL")
        notes.execute("DELETE FROM note WHERE key LIKE 'fetched%'")
    again = host(copy=path)
    until(lambda: has_sent(again), "its events are sent")
    assert stored(database, tree) == (0, 3)
    assert len(again.usage.outcomes()) == len(there.usage.outcomes()) == 3


def test_equal_outcomes_that_are_recorded_separately_all_count(host, database, tree):
    here, there = host(), host()
    sync(here, ONE)
    # The clock has stopped.
    for _ in range(3):
        here.usage.record_outcomes([outcome(at=1.0)])
    assert stored(database, tree) == (0, 3)
    assert len(there.usage.outcomes()) == len(here.usage.outcomes()) == 3


def test_an_event_that_is_recorded_while_another_thread_ends_sending_is_sent(
    host, database, tree, monkeypatch
):
    here = host()
    sync(here, ONE)
    count_events = Notes.count_events
    late = threading.Thread(target=here.usage.record_outcomes, args=([outcome(at=2.0)],))

    def counting(notes):
        """Count as the last step of sending, and let the other thread record an event then."""
        counted = count_events(notes)
        if late.ident is None:
            late.start()
            late.join()
        return counted

    monkeypatch.setattr(Notes, "count_events", counting)
    here.usage.record_outcomes([outcome(at=1.0)])
    assert stored(database, tree) == (0, 2)
    assert here.freshness(asks=False).waiting == 0


def test_an_event_that_is_recorded_again_after_a_failure_counts_once(
    host, database, tree, monkeypatch
):
    here = host()
    sync(here, ONE)
    write = type(here.copy.usage).record_outcomes
    attempts = []

    def fails_once(usage, outcomes):
        attempts.append(outcomes)
        if len(attempts) == 1:
            raise DatabaseError("here.db", "disk is full")
        write(usage, outcomes)

    monkeypatch.setattr(type(here.copy.usage), "record_outcomes", fails_once)
    with pytest.raises(DatabaseError):
        here.usage.record_outcomes([outcome(at=1.0)])
    here.usage.record_outcomes([outcome(at=1.0)])
    assert stored(database, tree) == (0, 1)
    assert len(here.usage.outcomes()) == 1


def test_a_long_queue_is_sent_in_parts_that_a_slow_network_can_carry(mortal, host, monkeypatch):
    address = ready(mortal)
    sizes, ask = [], Connections.ask

    def noting(connections, statement, *parameters, **options):
        if "record" in statement:
            sizes.append(len(parameters[1]))
        return ask(connections, statement, *parameters, **options)

    monkeypatch.setattr(Connections, "ask", noting)
    here = host(address=address, tree="t")
    sync(here, ONE)
    mortal.stop()
    here.usage.record_searches([search(str(it), query="x" * 1_000) for it in range(400)])
    mortal.start()
    sizes.clear()
    until(lambda: has_sent(here), "its events are sent")
    assert stored(address, "t") == (400, 0)
    assert max(sizes) < 100_000


def test_events_recorded_during_an_outage_are_sent_afterwards(mortal, host):
    address = ready(mortal)
    here, there = host(address=address), host(address=address)
    sync(here, ONE)
    mortal.stop()
    for _ in range(20):
        here.usage.record_outcomes([outcome()])
        assert good(here) == [SEND]
    assert here.freshness().waiting == 20
    assert here.usage.statistics().tools[0].observations == 20
    # The queue is limited like the record.
    here.usage.retain(max_age_days=1, max_rows=15)
    assert here.freshness().waiting == 15
    mortal.start()
    until(lambda: has_sent(here), "its events are sent")
    until(lambda: len(there.usage.outcomes()) == 15, "the other host has it")
    assert there.usage.outcomes() == here.usage.outcomes()


def test_cleared_events_no_longer_count_as_waiting(mortal, host):
    address = ready(mortal)
    here = host(address=address, tree="t")
    sync(here, ONE)
    mortal.stop()
    here.usage.record_outcomes([outcome()])
    assert here.freshness(asks=False).waiting == 1
    here.usage.clear()
    assert here.freshness(asks=False).waiting == 0


def test_a_promoted_server_gets_the_last_events_again(mortal, host):
    address = ready(mortal)
    here = host(address=address, tree="t")
    sync(here, ONE)
    here.usage.record_outcomes([outcome(), outcome()])
    # A replica may not have received them.
    mortal.execute("DELETE FROM toolindex.event")
    mortal.stop()
    mortal.start()
    here.usage.record_outcomes([outcome()])
    until(lambda: has_sent(here), "its events are sent")
    assert stored(address, "t") == (0, 3)


def test_hosts_fetch_events_with_numbers_that_a_promoted_server_reused(host, database, tree):
    here, there = host(), host()
    sync(here, ONE)
    here.usage.record_outcomes([outcome(at=1.0), outcome(at=2.0)])
    here.usage.record_searches([search("a")])
    until(lambda: has_sent(here), "its events are sent")
    until(lambda: good(there) == [SEND], "the outcomes are fetched")
    until(lambda: len(there.usage.searches()) == 1, "the search is fetched, too")
    # The last two are missing, as on a replica that was promoted before it had received them.
    with psycopg.connect(database) as connection:
        connection.execute(
            "WITH lost AS (UPDATE toolindex.usage SET last = 1, outcome = 1 FROM toolindex.tree "
            "WHERE tree.tree_id = usage.tree_id AND name = %s RETURNING usage.tree_id) "
            "DELETE FROM toolindex.event USING lost WHERE event.tree_id = lost.tree_id AND no > 1",
            (tree,),
        )
    # Their numbers are assigned again, and then new ones.
    other = host()
    other.usage.record_outcomes([outcome(False, at=3.0 + n) for n in range(2)])
    other.usage.record_searches([search("b")])
    until(lambda: has_sent(other), "its events are sent")
    assert good(there) == [SEND]
    other.usage.record_outcomes([outcome(False, at=5.0)])
    other.usage.record_searches([search("c")])
    until(lambda: has_sent(other), "its events are sent")
    until(lambda: good(there) == [], "the outcomes are fetched")
    until(lambda: len(there.usage.searches()) == 3, "the searches are fetched, too")
    assert [it.at for it in there.usage.outcomes()] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_reader_adds_to_the_record_and_changes_nothing_else(server, host, database, tree):
    server.execute("CREATE ROLE agents LOGIN")
    address = database.replace("user=postgres", "user=agents")
    sync(host(), ONE)
    with Database(database) as owner:
        owner.grant("agents", write=False, trees=[tree])
    agent = host(address=address, read_only=True)
    agent.usage.record_searches([search("of an agent")])
    agent.usage.record_outcomes([outcome()])
    assert not agent.usage.read_only
    until(lambda: has_sent(agent), "its events are sent")
    assert stored(database, tree) == (1, 1)
    later = host()
    until(lambda: later.usage.of_tool(SEND) is not None, "the outcome is fetched")
    # Events of a tree that it may not read are not recorded there, and wait.
    stranger = host(address=address, tree="another tree")
    sync(host(tree="another tree"), ONE)
    stranger.usage.record_outcomes([outcome()])
    assert stranger.freshness().waiting == 1
    assert stored(database, "another tree") == (0, 0)
    agent.usage.retain(max_age_days=0, max_rows=0)
    assert stored(database, tree) == (1, 1)
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in (
            "DELETE FROM toolindex.event",
            "UPDATE toolindex.usage SET last = 0",
            "INSERT INTO toolindex.event (tree_id, event, host, no, at) "
            "SELECT tree_id, gen_random_uuid(), gen_random_uuid(), 9, 9 FROM toolindex.tree",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_records_expire_by_the_servers_clock_and_are_cleared_per_host(host, database, tree):
    here, there = host(), host()
    sync(here, ONE)
    # One clock is an hour ahead, and one has stopped.
    here.usage.record_outcomes([outcome(at=time.time() + 3_600), outcome(at=1.0)])
    there.usage.record_searches([search("a")])
    for store in (here, there):
        until(lambda store=store: has_sent(store), "its events are sent")
    until(lambda: len(there.usage.outcomes()) == 2, "the outcomes are fetched")
    assert there.usage.clear() == (1, 2)
    assert not there.usage.outcomes()
    assert stored(database, tree) == (1, 2)
    here.usage.retain(max_age_days=1, max_rows=10)
    assert stored(database, tree) == (1, 2)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE toolindex.event SET stored_at = now() - interval '2 days'")
    here.usage.retain(max_age_days=1, max_rows=10)
    assert stored(database, tree) == (0, 0)


def test_a_killed_process_loses_no_recorded_outcome(host, database, tree, tmp_path):
    path, done = tmp_path / "killed.db", tmp_path / "done"
    sync(host(), ONE)

    def record():
        store = host(copy=path)
        with done.open("a") as log:
            while True:
                store.usage.record_outcomes([outcome()])
                os.write(log.fileno(), b".")

    for _ in range(3):
        size = done.stat().st_size if done.exists() else 0
        with killed(record):
            until(
                lambda size=size: done.exists() and done.stat().st_size > size + 5,
                "outcomes are recorded",
            )
    again = host(copy=path)
    until(lambda: has_sent(again), "its events are sent")
    _, kept = stored(database, tree)
    # Each time, it may have been killed between recording an outcome and logging it.
    assert 0 <= kept - done.stat().st_size <= 3
    assert len(host().usage.outcomes()) == kept
    assert ids(again) == ["mail:send"]
