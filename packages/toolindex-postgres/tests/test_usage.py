"""One record of searches and outcomes for all hosts, whatever happens on the way."""

import os
import sqlite3
import time

import psycopg
import pytest
from toolindex import OutcomeRecord, SearchRecord, ToolFilter
from toolindex_postgres import Database, SharedStore

from .sqlite_store import SQLiteStore
from .test_faults import PATIENCE, killed, until
from .trees import ids, sync

ONE = {"mail/send": "Send a message to somebody."}
TWO = {**ONE, "mail/read": "Read the messages of a mailbox."}
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
    """Count the searches and the outcomes that the server has of a tree."""
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
    """Return the tools that have worked at least every other time."""
    only = ToolFilter(min_success_rate=0.5, min_observations=1, unknown="exclude")
    with store.reading() as reader:
        return list(reader.ids(only))


def test_hosts_filter_and_report_by_what_happened_on_all_of_them(host, database, tree):
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
        until(lambda store=store: has_sent(store), "what it has recorded is sent")
    assert stored(database, tree) == (3, 5)
    for store in (here, there):
        until(lambda store=store: good(store) == [SEND], "the outcomes are fetched")
        until(lambda store=store: len(store.usage.searches()) == 3, "the searches, too")
        figures = store.usage.statistics()
        assert (figures.searches, figures.without_results, figures.judged) == (3, 1, 1)
        of_send = store.usage.of_tool(SEND)
        assert (of_send.observations, of_send.latency_p50_ms) == (3, 20.0)
        assert {it.id for it in store.usage.searches()} == set("abc")
    assert here.usage.searches() == there.usage.searches()
    assert here.usage.outcomes() == there.usage.outcomes()
    # Nothing of it is fetched, or counted, again.
    here.usage.record_outcomes([outcome()])
    assert [len(it.usage.outcomes()) for it in (here, there, host())] == [6, 6, 6]


def test_a_record_that_cannot_be_written_costs_no_search(host, tmp_path):
    path = tmp_path / "here.db"
    here, there = host(copy=path), host()
    sync(here, ONE)
    assert ids(here) == ["mail:send"]
    with sqlite3.connect(f"{path}-shared") as notes:
        # As on a disk that is full.
        notes.execute(
            "CREATE TRIGGER full BEFORE INSERT ON note WHEN new.key = 'fetched' "
            "BEGIN SELECT raise(ABORT, 'disk is full'); END"
        )
    there.usage.record_outcomes([outcome()])
    until(lambda: has_sent(there), "what it has recorded is sent")
    assert ids(here) == ["mail:send"]
    until(lambda: not here.freshness().problem, "nothing is wrong with the server")
    with sqlite3.connect(f"{path}-shared") as notes:
        notes.execute("DROP TRIGGER full")
    assert ids(here) == ["mail:send"]
    until(lambda: len(here.usage.outcomes()) == 1, "it is fetched")


def test_a_record_that_is_written_or_sent_again_counts_once(host, database, tree, tmp_path):
    path = tmp_path / "here.db"
    here, there = host(copy=path), host()
    sync(here, ONE)
    # The same at the same moment, which each of two hosts has seen twice.
    same = [outcome(at=1.0)] * 2
    here.usage.record_outcomes(same)
    there.usage.record_outcomes([outcome(at=2.0)])
    assert stored(database, tree) == (0, 3)
    with sqlite3.connect(f"{path}-shared") as notes:
        # As if the answer had been lost, and the process killed before it noted what it had.
        notes.execute("UPDATE event SET sent = NULL")
        notes.execute("DELETE FROM note WHERE key = 'fetched'")
    again = host(copy=path)
    until(lambda: has_sent(again), "what it has recorded is sent")
    assert stored(database, tree) == (0, 3)
    assert len(again.usage.outcomes()) == len(there.usage.outcomes()) == 3


def test_what_happens_while_the_server_is_away_is_sent_later_and_counted(mortal, tmp_path):
    address = mortal.address()
    with Database(address) as owner:
        owner.init()
    here, there = (SharedStore(SQLiteStore(tmp_path / it), address, tree="t") for it in "ab")
    try:
        sync(here, ONE)
        mortal.stop()
        began = time.perf_counter()
        for _ in range(20):
            here.usage.record_outcomes([outcome()])
            assert good(here) == [SEND]
        assert time.perf_counter() - began < PATIENCE
        assert here.freshness().waiting == 20
        assert here.usage.statistics().tools[0].observations == 20
        # No more wait than a record may have, however long the server is away.
        here.usage.retain(max_age_days=1, max_rows=15)
        assert here.freshness().waiting == 15
        mortal.start()
        until(lambda: has_sent(here), "what it has recorded is sent")
        until(lambda: len(there.usage.outcomes()) == 15, "the other host has it")
        assert there.usage.outcomes() == here.usage.outcomes()
    finally:
        here.close()
        there.close()


def test_a_server_that_took_anothers_place_is_sent_the_last_events_again(mortal, tmp_path):
    address = mortal.address()
    with Database(address) as owner:
        owner.init()
    here = SharedStore(SQLiteStore(tmp_path / "a.db"), address, tree="t")
    try:
        sync(here, ONE)
        here.usage.record_outcomes([outcome(), outcome()])
        # As a replica has it that had not got them yet.
        mortal.execute("DELETE FROM toolindex.event")
        mortal.stop()
        mortal.start()
        here.usage.record_outcomes([outcome()])
        until(lambda: has_sent(here), "it is found again")
        assert stored(address, "t") == (0, 3)
    finally:
        here.close()


def test_what_a_server_counts_again_after_it_lost_its_last_events_is_missed_by_nobody(
    host, database, tree
):
    here, there = host(), host()
    sync(here, ONE)
    here.usage.record_outcomes([outcome(at=1.0), outcome(at=2.0)])
    here.usage.record_searches([search("a")])
    until(lambda: has_sent(here), "what it has recorded is sent")
    until(lambda: good(there) == [SEND], "the outcomes are fetched")
    until(lambda: len(there.usage.searches()) == 1, "the search, too")
    # As a replica has it that took the primary's place before it had the last two.
    with psycopg.connect(database) as connection:
        connection.execute(
            "WITH lost AS (UPDATE toolindex.usage SET last = 1, outcome = 1 FROM toolindex.tree "
            "WHERE tree.tree_id = usage.tree_id AND name = %s RETURNING usage.tree_id) "
            "DELETE FROM toolindex.event USING lost WHERE event.tree_id = lost.tree_id AND no > 1",
            (tree,),
        )
    # Their numbers are given once more, and then others.
    other = host()
    other.usage.record_outcomes([outcome(False, at=3.0 + n) for n in range(2)])
    other.usage.record_searches([search("b")])
    until(lambda: has_sent(other), "what it has recorded is sent")
    assert good(there) == [SEND]
    other.usage.record_outcomes([outcome(False, at=5.0)])
    other.usage.record_searches([search("c")])
    until(lambda: has_sent(other), "what it has recorded is sent")
    until(lambda: good(there) == [], "the outcomes are fetched")
    until(lambda: len(there.usage.searches()) == 3, "the searches, too")
    assert [it.at for it in there.usage.outcomes()] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_host_that_only_reads_adds_to_the_record_and_changes_nothing_else(
    server, host, database, tree
):
    server.execute("CREATE ROLE agents LOGIN")
    address = database.replace("user=postgres", "user=agents")
    sync(host(), ONE)
    with Database(database) as owner:
        owner.grant("agents", write=False, trees=[tree])
    agent = host(address=address, read_only=True)
    agent.usage.record_searches([search("of an agent")])
    agent.usage.record_outcomes([outcome()])
    assert not agent.usage.read_only
    until(lambda: has_sent(agent), "what it has recorded is sent")
    assert stored(database, tree) == (1, 1)
    later = host()
    until(lambda: later.usage.of_tool(SEND) is not None, "it is fetched")
    # What it may not see is not recorded there, and waits.
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


def test_the_record_is_limited_by_the_servers_clock_and_cleared_on_one_host_alone(
    host, database, tree
):
    here, there = host(), host()
    sync(here, ONE)
    # A host whose clock is an hour ahead, and one whose clock has stopped.
    here.usage.record_outcomes([outcome(at=time.time() + 3_600), outcome(at=1.0)])
    there.usage.record_searches([search("a")])
    for store in (here, there):
        until(lambda store=store: has_sent(store), "what it has recorded is sent")
    until(lambda: len(there.usage.outcomes()) == 2, "the outcomes are fetched")
    removed = there.usage.clear()
    assert (removed.searches, removed.outcomes) == (1, 2)
    assert not there.usage.outcomes()
    assert stored(database, tree) == (1, 2)
    here.usage.retain(max_age_days=1, max_rows=10)
    assert stored(database, tree) == (1, 2)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE toolindex.event SET stored_at = now() - interval '2 days'")
    here.usage.retain(max_age_days=1, max_rows=10)
    assert stored(database, tree) == (0, 0)


def test_a_process_that_is_killed_loses_no_outcome_that_was_recorded(
    host, database, tree, tmp_path
):
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
            until(lambda size=size: done.exists() and done.stat().st_size > size + 5, "it records")
    again = host(copy=path)
    until(lambda: has_sent(again), "what it has recorded is sent")
    _, kept = stored(database, tree)
    # One more each time, if it was killed between writing and saying so.
    assert 0 <= kept - done.stat().st_size <= 3
    assert len(host().usage.outcomes()) == kept
    assert ids(again) == ["mail:send"]
