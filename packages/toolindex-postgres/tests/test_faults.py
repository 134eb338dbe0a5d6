"""Servers that go away, freeze or refuse, and writers that are killed."""

import asyncio
import os
import signal
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from types import SimpleNamespace

import apsw
import psycopg
import pytest
from toolindex import DatabaseBusyError, DatabaseError, OutcomeRecord
from toolindex_postgres import Database, SharedStore, UnreachableStoreError
from toolindex_postgres import _connections as limits
from toolindex_postgres._connections import Connections
from toolindex_postgres._refresh import Refresher

from .sqlite_store import SQLiteStore
from .trees import MODEL, ONE, TWO, embed, ids, known, sync

# Longer than a request may wait, so that one that waited in vain can be repeated.
PATIENCE = 150


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def ready(server):
    """Create the schema in a server's first database; return its address."""
    with Database(server.address()) as owner:
        owner.init()
    return server.address()


@contextmanager
def repeating(*steps):
    """Repeat steps, each in a thread; yield how long each run took, and what failed."""
    stalls, failures, stopped = [], [], threading.Event()

    def work(step):
        while not stopped.is_set():
            began = time.perf_counter()
            try:
                step()
            except Exception as error:  # noqa: BLE001 - shown by the caller
                failures.append(error)
                return
            stalls.append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        yield stalls, failures
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_reads_continue_while_the_server_is_stopped_and_recover_afterwards(
    mortal, host, monkeypatch
):
    # A clock that is never set back.
    clock = SimpleNamespace(time=count(1).__next__, monotonic=time.monotonic)
    monkeypatch.setattr("toolindex_postgres._refresh.time", clock)
    address = ready(mortal)
    here, there = host(address=address), host(address=address)
    sync(here, ONE)
    embed(here)
    expected = known(there, ["message"])
    assert there.freshness().problem == ""
    as_of = there.freshness().as_of

    def read():
        assert known(there, ["message"]) == expected

    with repeating(read, read) as (stalls, failures):
        until(lambda: len(stalls) > 4, "searches run")
        mortal.stop()
        done = len(stalls)
        until(lambda: len(stalls) > done + 10, "searches continue")
    assert not failures

    stale = there.freshness()
    assert "cannot be reached" in stale.problem
    assert stale.as_of >= as_of
    assert sync(here, ONE).unchanged == 1
    with pytest.raises(UnreachableStoreError, match="check that the server runs"):
        sync(here, TWO)
    with pytest.raises(UnreachableStoreError):
        here.annotate({"mcptools:mail:send": ["post"]})
    assert ids(here) == ["mail:send"]
    assert not here.pending(MODEL, limit=9)

    mortal.start()
    sync(here, TWO)
    until(lambda: not there.freshness().problem, "the server is found again")
    assert ids(there) == ["mail:read", "mail:send"]


def test_a_copy_whose_server_was_never_reached_is_empty_and_reports_the_reason(host, tmp_path):
    store = host(address=f"host={tmp_path} user=u")
    store.bind(str(tmp_path))
    assert ids(store) == []
    assert store.freshness().as_of is None
    problem = store.freshness().problem
    assert "cannot be reached" in problem
    assert "No such file or directory" in problem, "the reason is reported, without libpq's advice"
    with pytest.raises(UnreachableStoreError):
        sync(store, ONE)
    lease = store.lease("files")
    assert lease.acquire(timeout=0)
    lease.release()


def sessions(database, name):
    """Return the processes of the server that serve hosts with an application name."""
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s "
            "AND datname = current_database()",
            (name,),
        )
        return [pid for (pid,) in rows]


def test_a_frozen_server_delays_only_one_read(host, database, monkeypatch):
    # The server is not tried again before the last read.
    monkeypatch.setattr(limits, "_FIRST_DELAY", PATIENCE)
    # Sessions of other tests may be ending.
    here = host(address=f"{database} application_name=frozen")
    sync(here, ONE)
    assert ids(here)
    frozen = sessions(database, "frozen")
    asked, ask = [], Connections.ask

    def noting(*arguments, **options):
        asked.append(arguments)
        return ask(*arguments, **options)

    monkeypatch.setattr(Connections, "ask", noting)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as hurry:
            hurry.setattr(limits.Connection, "patience", 0.5)
            for _ in range(3):
                assert ids(here) == ["mail:send"]
        assert "cannot be reached" in here.freshness(asks=False).problem
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    assert len(asked) == 1
    until(lambda: not here.freshness().problem, "the server is found again")


def test_a_writer_that_waits_too_long_for_another_reports_a_busy_index(
    host, database, tree, monkeypatch
):
    here = host()
    sync(here, ONE)
    monkeypatch.setattr(limits, "_LOCK_MS", 100)
    with psycopg.connect(database) as other:
        other.execute("SELECT FROM toolindex.tree WHERE name = %s FOR UPDATE", (tree,))
        with pytest.raises(DatabaseBusyError):
            sync(here, TWO)
    assert sync(here, TWO).added == 1


@contextmanager
def hurried():
    """Make the server cancel statements early, and allow a slow machine long for the reply."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_POLL_MS", 100)
        patch.setattr(limits, "_READ_MS", 100)
        patch.setattr(limits, "_MARGIN_SECONDS", PATIENCE)
        patch.setattr(limits.Connection, "patience", PATIENCE)
        yield


def asked(connections, statement):
    return connections.ask(statement)


def read(connections, statement):
    with connections.reading() as connection:
        return connection.execute(statement).fetchone()


@pytest.mark.parametrize("how", [asked, read])
def test_a_statement_that_times_out_keeps_its_connection_and_is_not_retried(database, how):
    with closing(Connections(database)) as connections:
        session = how(connections, "SELECT pg_backend_pid()")
        with hurried(), pytest.raises(UnreachableStoreError, match="too long"):
            how(connections, "SELECT pg_sleep(20)")
        assert not connections.is_resting
        # Otherwise, it could be closed while another thread uses it.
        assert how(connections, "SELECT pg_backend_pid()") == session


def test_an_event_that_cannot_be_sent_leaves_no_statement_waiting_on_the_server(host, database):
    here = host()
    sync(here, ONE)
    outcome = OutcomeRecord(at=1.0, tool_id="mcptools:mail:send", success=True)
    with (
        psycopg.connect(database, autocommit=True) as watching,
        psycopg.connect(database) as holding,
    ):
        holding.execute("LOCK TABLE toolindex.event IN ACCESS EXCLUSIVE MODE")
        with hurried():
            here.usage.record_outcomes([outcome])
        assert not waiting(watching)
        assert ids(here) == ["mail:send"]
        freshness = here.freshness(asks=False)
        assert (freshness.problem, freshness.waiting) == ("", 1)
    until(lambda: here.freshness().waiting == 0, "the outcome is sent")


def test_a_search_does_not_wait_long_for_changes(host, tmp_path, monkeypatch):
    path = tmp_path / "here.db"
    here, there = host(copy=path), host()
    sync(there, ONE)
    assert ids(here) == ["mail:send"]
    as_of = here.freshness().as_of
    monkeypatch.setattr("toolindex_postgres._refresh._PATIENCE", 0.05)
    # Another process of this host is changing the copy.
    with SQLiteStore(path) as other:
        lease = other.lease("copy")
        assert lease.acquire(timeout=PATIENCE)
        sync(there, TWO)
        for _ in range(2):
            assert ids(here) == ["mail:send"]
            assert "still being fetched" in here.freshness(asks=False).problem
        assert here.freshness(asks=False).as_of == as_of
        lease.release()
    until(lambda: ids(here) == ["mail:read", "mail:send"], "the change is fetched")

    def is_current():
        # The search that gave up last may have done so when the change had just been fetched.
        assert ids(here) == ["mail:read", "mail:send"]
        return not here.freshness(asks=False).problem

    until(is_current, "the copy is up to date")


def test_a_change_is_fetched_even_if_the_thread_of_the_last_fetch_has_not_ended(host, monkeypatch):
    here, there = host(), host()
    sync(there, ONE)
    assert ids(here) == ["mail:send"]
    may_end, ended, work = threading.Event(), [], Refresher._work

    def work_and_wait(*arguments):
        work(*arguments)
        may_end.wait(PATIENCE)
        ended.append(arguments)

    monkeypatch.setattr(Refresher, "_work", work_and_wait)
    try:
        for tools in (TWO, ONE):
            sync(there, tools)
            assert len(ids(here)) == len(tools)
        assert not ended
    finally:
        may_end.set()


def forked():
    """Fork this process as `os.fork` does, without locks that other threads hold."""
    until(lambda: not background(), "no store is working in a thread")
    return os.fork()


def background():
    """Return the threads of stores that are still working."""
    return [it for it in threading.enumerate() if it.name.startswith("toolindex")]


@contextmanager
def killed(work):
    """Run a function in a child process, which is killed when the block ends."""
    child = forked()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def waiting(connection, *, with_changes=False):
    """Return whether a session waits for a lock, in a transaction that has changed something."""
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database() AND (backend_xid IS NOT NULL OR NOT %s)",
        (with_changes,),
    ).fetchone()
    return row[0] > 0


def test_a_copy_gets_the_changes_of_a_writer_killed_after_its_commit(
    host, database, tree, tmp_path
):
    here, path = host(), tmp_path / "killed.db"
    host(copy=path).close()
    holding = apsw.Connection(str(path))
    sync(here, ONE)
    writer = host(copy=path)
    assert ids(writer) == ["mail:send"]
    writer.close()

    def state():
        with Database(database) as owner:
            return next(it.entries for it in owner.status().trees if it.name == tree)

    holding.execute("BEGIN IMMEDIATE")
    with killed(lambda: sync(host(copy=path), TWO)):
        until(lambda: state() == 2, "the server has it")
    holding.execute("ROLLBACK")
    holding.close()
    again = host(copy=path)
    until(lambda: ids(again) == ids(here) == ["mail:read", "mail:send"], "the change is found")


# The weekly job kills 100 writers.
KILLS = 100 if int(os.environ.get("TEST_EXAMPLES", "0")) >= 100 else 8


def test_a_writer_killed_at_any_moment_leaves_a_tree_that_a_scan_completes(
    host, database, tmp_path
):
    address = f"{database} application_name=killed"
    tools = {f"bulk/tool{n}": f"Do the thing {n}." for n in range(30)}
    here, path = host(), tmp_path / "killed.db"
    sync(here, tools)
    host(copy=path).close()
    for kill in range(KILLS):
        changed = {name: f"{text} {kill}." for name, text in tools.items() if name[-1] != "3"}
        with killed(lambda changed=changed: sync(host(copy=path, address=address), changed)):
            time.sleep(0.05 * kill / KILLS)
        # Until then, the server may still commit the change.
        until(lambda: not sessions(database, "killed"), "the server has noticed it")
        found = ids(here)
        assert len(found) in {30, 27}, "a change is complete or absent"
        again = host(copy=path)
        assert ids(again) == found
        sync(again, changed)
        assert known(again, [f"{kill}"]) == known(here, [f"{kill}"])
        with SQLiteStore(tmp_path / f"alone{kill}.db") as alone:
            sync(alone, changed)
            assert known(alone, [f"{kill}"]) == known(here, [f"{kill}"])
        again.close()
        sync(here, tools)


def test_a_lease_of_a_killed_process_is_released(host, tmp_path):
    here = host()
    sync(here, ONE)
    there, ready = tmp_path / "there.db", tmp_path / "ready"

    def hold():
        lease = host(copy=there).lease("files")
        assert lease.acquire(timeout=0)
        ready.touch()
        signal.pause()

    mine = here.lease("files")
    with killed(hold):
        until(ready.exists, "the other host has it")
        assert not mine.acquire(timeout=0)
    assert mine.acquire(timeout=PATIENCE)
    mine.release()


def test_a_silent_server_does_not_block_the_event_loop_when_a_lease_is_released(
    host, database, monkeypatch
):
    here = host()

    async def thaw(pid):
        os.kill(pid, signal.SIGCONT)

    async def release():
        async with here.lease("files").acquire_async(patience=PATIENCE):
            with psycopg.connect(database) as connection:
                ((holder,),) = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
                    "AND state = 'idle in transaction' AND query LIKE '%toolindex.lease%'"
                )
            os.kill(holder, signal.SIGSTOP)
            monkeypatch.setattr(limits.Connection, "patience", 2.0)
            thawing = asyncio.create_task(thaw(holder))
        is_thawed = thawing.done()
        await thawing
        return is_thawed

    assert asyncio.run(release())


def test_a_lease_is_held_longer_than_the_server_lets_transactions_last(server, tmp_path):
    own = server.new_database()
    with Database(own) as owner:
        owner.init()
    with psycopg.connect(own, autocommit=True) as connection, ExitStack() as stack:
        if connection.info.server_version < 170_000:
            pytest.skip("this PostgreSQL has no limit for transactions")
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET transaction_timeout = 500")
        here, there = (
            stack.enter_context(closing(SharedStore(SQLiteStore(tmp_path / it), own, tree="t")))
            for it in "ab"
        )

        def tried(lease):
            answers = []

            def has_answer():
                # The server may end a transaction before the limit is lifted.
                with suppress(DatabaseError):
                    answers.append(lease.acquire(timeout=0))
                return answers

            until(has_answer, "the server answers")
            return answers[-1]

        mine = here.lease("files")
        assert tried(mine)
        young = (
            "SELECT FROM pg_stat_activity WHERE application_name = 'toolindex' AND "
            "datname = current_database() AND clock_timestamp() < xact_start + interval '2s'"
        )
        until(lambda: not connection.execute(young).rowcount, "the time is over")
        assert not tried(there.lease("files"))
        mine.release()


def test_a_lease_is_acquired_even_if_the_server_ends_the_connection_meanwhile(
    host, database, monkeypatch
):
    ended, begin = [], Connections.begin

    def begun(*arguments, **options):
        lent = begin(*arguments, **options)
        if not ended:
            with psycopg.connect(database) as connection:
                ended[:] = connection.execute(
                    f"SELECT pg_terminate_backend(pid, {PATIENCE * 1000}) FROM pg_stat_activity "
                    "WHERE application_name = 'toolindex' AND datname = current_database()"
                ).fetchall()
        return lent

    monkeypatch.setattr(Connections, "begin", begun)
    mine = host().lease("files")
    assert mine.acquire(timeout=0)
    assert ended
    assert not host().lease("files").acquire(timeout=0)
    mine.release()


def test_waiting_for_a_lease_uses_only_one_connection(host, server, database, tree):
    with Database(database) as owner:
        server.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 1")
        owner.grant("few", write=True)
    here = host()
    few = host(address=database.replace("user=postgres", "user=few"))
    sync(here, ONE)
    assert ids(few) == ["mail:send"]
    mine, theirs = here.lease("files"), few.lease("files")
    assert mine.acquire(timeout=0)
    # This uses the only connection that the role may have; a second would be refused.
    assert not theirs.acquire(timeout=0.2)
    assert "too many" not in few.freshness().problem
    mine.release()
    assert theirs.acquire(timeout=PATIENCE)
    # While that connection is in use, no other work of this role begins.
    other = host(address=database.replace("user=postgres", "user=few"))
    with pytest.raises(UnreachableStoreError, match="too many"):
        other.lease("vectors").acquire(timeout=PATIENCE)
    theirs.release()
    assert other.freshness().problem


def test_a_read_only_server_is_searched_and_refuses_writes_with_the_reason(server, tmp_path):
    address = server.new_database()
    with Database(address) as owner:
        owner.init()

    def opened(name):
        return SharedStore(SQLiteStore(tmp_path / name), address, tree="t")

    name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    with ExitStack() as stack:
        sync(stack.enter_context(closing(opened("before"))), ONE)
        server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        here = stack.enter_context(closing(opened("after")))
        assert ids(here) == ["mail:send"]
        for change in (
            lambda: sync(here, TWO),
            lambda: here.annotate({"mcptools:mail:send": ["post"]}),
        ):
            with pytest.raises(DatabaseError, match="was made read-only"):
                change()
        here.usage.record_outcomes(
            [OutcomeRecord(at=1.0, tool_id="mcptools:mail:send", success=True)]
        )
        assert here.freshness().waiting == 1
        assert ids(here) == ["mail:send"]
        assert not here.freshness().problem
        server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        again = stack.enter_context(closing(opened("after")))
        sync(again, TWO)
        assert len(ids(again)) == 2
        until(lambda: again.freshness().waiting == 0, "the outcome is sent")


def test_copies_follow_a_server_that_has_lost_its_last_changes(host, database, tree):
    here, there = host(), host()
    sync(here, ONE)
    with psycopg.connect(database) as connection:
        before = connection.execute(
            "SELECT tree_id, generation FROM toolindex.tree WHERE name = %s", (tree,)
        ).fetchone()
    sync(here, TWO)
    assert ids(there) == ["mail:read", "mail:send"]
    # The last changes are missing, as on a replica that was promoted before it had received them.
    with psycopg.connect(database) as connection:
        for statement in (
            "DELETE FROM toolindex.entry WHERE tree_id = %s AND generation > %s",
            "DELETE FROM toolindex.step WHERE tree_id = %s AND generation > %s",
            "UPDATE toolindex.tree SET generation = step.generation FROM toolindex.step "
            "WHERE step.tree_id = tree.tree_id AND step.tree_id = %s AND step.generation = %s",
        ):
            connection.execute(statement, before)
    assert ids(there) == ["mail:send"]
    sync(host(), {**ONE, "pdf/merge": "Merge files."})
    assert ids(here) == ids(there) == ["mail:send", "pdf:merge"]
