"""Poolers, replicas and broken connections between a host and its server."""

import shutil
import socket
import tempfile
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolindex import DatabaseError
from toolindex_postgres import (
    Database,
    SharedStore,
    UnreachableStoreError,
    _connections,
)
from toolindex_postgres._connections import Connections

from .postgres import Replica, pooling, serving
from .sqlite_store import SQLiteStore
from .test_faults import PATIENCE, repeating, sessions, until
from .test_usage import has_sent, outcome, stored
from .trees import MODEL, ONE, TWO, embed, ids, known, sync

_EXAMPLES = count(1)


def test_hosts_behind_a_pooler_in_transaction_mode_lose_nothing(server, database, host):
    with pooling(server) as pooled:
        address = database.replace(f"host={server.folder}", pooled)
        # There are more hosts than sessions, and one host holds a lease all the time.
        hosts = [host(address=address) for _ in range(4)]
        sync(hosts[0], ONE)
        lease = hosts[0].lease("files")
        assert lease.acquire(timeout=PATIENCE)
        assert not hosts[1].lease("files").acquire(timeout=0)

        def fill(number):
            name = f"part/tool{number}"
            sync(hosts[number], {name: f"Do the thing {number}."}, within=[name])
            embed(hosts[number])
            hosts[number].usage.record_outcomes([outcome()])

        threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lease.release()
        other = hosts[1].lease("files")
        assert other.acquire(timeout=PATIENCE)
        other.release()
        direct = host()
        until(lambda: len(ids(direct)) == 5, "nothing is lost")

        def shares(store):
            # A host that got no session does not try again for a moment.
            store.query_vectors.put(MODEL, {"question": [1.0]})
            return direct.query_vectors.get(MODEL, "question") is not None

        until(lambda: shares(hosts[0]), "a vector of a query is shared")
        for store in hosts:
            until(partial(has_sent, store), "its events are sent")
        for store in hosts:
            until(lambda store=store: len(store.usage.outcomes()) == 4, "it has all outcomes")
            until(lambda store=store: not store.freshness().problem, "it is up to date")
            assert known(store) == known(direct)
            assert store.query_vectors.get(MODEL, "question") is not None
        for store in hosts:
            # This must happen before the pooler stops.
            store.close()


def opened_at(path, address, **options):
    """Return a host's store of the tree `t`."""
    return SharedStore(SQLiteStore(path), address, tree="t", **options)


def test_killing_the_primary_under_load_loses_no_search_and_no_outcome(tmp_path):
    with (
        serving() as primary,
        serving(partial(Replica, of=primary)) as replica,
        ExitStack() as stack,
    ):
        either = f"host={primary.folder},{replica.folder} dbname=postgres user=postgres"
        writable = f"{either} target_session_attrs=read-write"
        with Database(writable) as owner:
            owner.init()
        here, there = (
            stack.enter_context(closing(opened_at(tmp_path / name, writable))) for name in "ab"
        )
        sync(here, ONE)
        until(lambda: ids(there) == ["mail:send"], "the other host has the tree")

        def has_it():
            with suppress(psycopg.Error):
                return stored(replica.address(), "t") is not None and _entries(replica) == 1

        until(has_it, "the replica has the tree")
        recorded = []

        def search():
            assert ids(there) == ["mail:send"]

        def record():
            there.usage.record_outcomes([outcome()])
            recorded.append(1)

        def is_back():
            with suppress(DatabaseError):
                sync(here, TWO)
                return ids(here) == ["mail:read", "mail:send"]

        with repeating(search, record) as (stalls, failures):
            until(lambda: len(recorded) > 20, "outcomes are recorded")
            primary.stop()
            size = len(recorded)
            until(lambda: len(recorded) > size + 20, "outcomes are recorded without a server")
            replica.promote()
            until(is_back, "the promoted server is found")
            until(lambda: there.freshness().problem == "", "the other host finds it, too")
        assert not [it for it in failures if "mail:read" not in str(it)]
        until(partial(has_sent, there), "its events are sent")
        assert stored(replica.address(), "t") == (0, len(recorded))
        assert ids(there) == ["mail:read", "mail:send"]
        print(f"longest stall {max(stalls):.2f} s, {len(recorded)} outcomes, {len(stalls)} steps")


def has_schema(server):
    with psycopg.connect(server.address()) as connection:
        (found,) = connection.execute("SELECT to_regnamespace('toolindex')").fetchone()
    return found is not None


def test_a_reader_of_a_standby_sends_its_record_to_the_primary(tmp_path):
    with (
        serving() as primary,
        serving(partial(Replica, of=primary)) as standby,
        ExitStack() as stack,
    ):
        with Database(primary.address()) as owner:
            owner.init()
        until(lambda: has_schema(standby), "the standby has the schema")
        either = f"host={primary.folder},{standby.folder} dbname=postgres user=postgres"
        writer, reader, lonely = (
            stack.enter_context(closing(opened_at(tmp_path / str(it), address, read_only=it > 0)))
            for it, address in enumerate(
                [
                    primary.address(),
                    f"{either} target_session_attrs=prefer-standby",
                    standby.address(),
                ]
            )
        )
        sync(writer, ONE)
        for store in (reader, lonely):
            until(lambda store=store: ids(store) == ["mail:send"], "the standby has the tree")

        def sessions():
            with psycopg.connect(primary.address()) as connection:
                return connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'toolindex'"
                ).fetchone()

        # A session ends a moment after its client has left.
        until(lambda: sessions() == (1,), "the primary has only the writer's connection")
        for store in (reader, lonely):
            store.usage.record_outcomes([outcome()])
            assert ids(store) == ["mail:send"]
        assert stored(primary.address(), "t") == (0, 1)
        assert reader.freshness().waiting == 0
        # Its address names no other server, so its outcome waits for this one.
        assert lonely.freshness().waiting == 1
        standby.promote()
        until(lambda: lonely.freshness().waiting == 0, "the outcome is sent")
        assert ids(lonely) == ["mail:send"]


def _entries(server):
    with psycopg.connect(server.address()) as connection:
        return connection.execute("SELECT count(*) FROM toolindex.entry").fetchone()[0]


@contextmanager
def cut_after(server, left, *, is_silent=False):
    """Forward connections to a server until `left[0]` bytes have passed; yield the address.

    The bytes of both directions count. Then the connections are cut or, with `is_silent`, stay
    open without forwarding anything.
    """
    folder = Path(tempfile.mkdtemp(prefix="cut-", dir="/tmp"))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / ".s.PGSQL.5432"))
    listening.listen()
    open_: list[socket.socket] = []

    def copy(source, target):
        with suppress(OSError):
            while data := source.recv(4_096):
                allowed = data[: max(0, left[0])]
                # Otherwise, a new limit could get lost.
                if allowed:
                    left[0] -= len(data)
                target.sendall(allowed)
                if left[0] <= 0 and not is_silent:
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept():
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(str(server.folder / ".s.PGSQL.5432"))
                open_.extend((client, upstream))
                for pair in ((client, upstream), (upstream, client)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"host={folder}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        for end in (listening, *open_):
            end.close()
        shutil.rmtree(folder)


@pytest.mark.parametrize("lacking", [1, 40])
def test_a_connection_that_falls_silent_within_an_answer_delays_only_one_search(
    server, database, host, lacking, monkeypatch
):
    left = [1_000_000]
    with cut_after(server, left, is_silent=True) as line:
        store = host(address=database.replace(f"host={server.folder}", line))
        sync(store, ONE)
        until(lambda: not store.freshness().problem, "the copy is up to date")
        before = left[0]
        assert ids(store) == ["mail:send"]
        left[0] = before - left[0] - lacking
        with monkeypatch.context() as patch:
            patch.setattr(_connections.Connection, "patience", 0.5)
            assert ids(store) == ["mail:send"]
        assert "cannot be reached" in store.freshness(asks=False).problem
        left[0] = 1_000_000
        until(lambda: not store.freshness().problem, "the server is found again")


def test_a_lease_can_be_acquired_right_after_an_outage(host, server, database):
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:
        here = host(address=database.replace(f"host={server.folder}", f"host={folder}"))
        assert "cannot be reached" in here.freshness().problem
        Path(folder, ".s.PGSQL.5432").symlink_to(server.folder / ".s.PGSQL.5432")
        mine = here.lease("files")
        assert mine.acquire(timeout=0)
        assert not host().lease("files").acquire(timeout=0)
        mine.release()


def test_checking_a_silent_server_does_not_block_other_threads(server, database, monkeypatch):
    left = [1_000_000]
    # Threads of this process forward the connection: it fails if a call blocks all threads.
    with (
        cut_after(server, left, is_silent=True) as line,
        closing(Connections(database.replace(f"host={server.folder}", line))) as connections,
    ):
        assert connections.ask("SELECT 1") == (1,)
        left[0] = 0
        with monkeypatch.context() as patch:
            patch.setattr(_connections.Connection, "patience", 0.5)
            with pytest.raises(UnreachableStoreError):
                connections.ask("SELECT 1")
        left[0] = 1_000_000
        assert connections.is_there()
        assert connections.ask("SELECT 1") == (1,)


@given(size=st.integers(0, 30_000))
def test_a_connection_cut_anywhere_leaves_a_tree_that_the_next_scan_completes(
    server, database, tmp_path_factory, size
):
    folder = tmp_path_factory.mktemp("cut")
    tree = f"cut {next(_EXAMPLES)}"
    made = partial(SharedStore, tree=tree)
    with ExitStack() as stack:
        direct = stack.enter_context(closing(made(SQLiteStore(folder / "a.db"), database)))
        sync(direct, ONE)
        cut = stack.enter_context(cut_after(server, [size]))
        address = database.replace(f"host={server.folder}", f"application_name=cut {cut}")
        far = made(SQLiteStore(folder / "b.db"), address)
        for step in (
            lambda: sync(far, TWO),
            lambda: embed(far),
            lambda: far.annotate({"mcptools:mail:send": ["post"]}),
            lambda: far.usage.record_outcomes([outcome()]),
        ):
            with suppress(DatabaseError):
                step()
            assert ids(far) in (["mail:send"], ["mail:read", "mail:send"], [])
        far.close()
        # Until then, the server may still commit a change.
        until(lambda: not sessions(database, "cut"), "the server has noticed it")
        # The same copy, with an intact connection.
        again = stack.enter_context(closing(made(SQLiteStore(folder / "b.db"), database)))
        assert known(again) == known(direct)
        sync(again, TWO)
        embed(again)
        again.annotate({"mcptools:mail:send": ["post"]})
        until(partial(has_sent, again), "its events are sent")
        assert known(again, ["post"]) == known(direct, ["post"])
        assert len(direct.usage.outcomes()) == 1
        alone = stack.enter_context(SQLiteStore(folder / "alone.db"))
        sync(alone, TWO)
        assert ids(alone) == ids(direct)
