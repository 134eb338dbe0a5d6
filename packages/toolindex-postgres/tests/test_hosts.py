"""Hosts that share a tree see each other's changes, as if they had one store."""

import sqlite3
import threading
import time
from contextlib import closing
from itertools import count
from types import SimpleNamespace

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolindex import DatabaseError
from toolindex_postgres import Database, SharedStore

from .sqlite_store import SQLiteStore
from .test_faults import until
from .trees import MODEL, ONE, READER, TWO, embed, ids, known, sync, vector


def test_changes_that_are_too_many_for_one_statement_reach_other_hosts(host, monkeypatch):
    monkeypatch.setattr("toolindex_postgres._tree._MOST_CHANGES", 2)
    here, there = host(), host()
    many = {f"mail/{name}": f"Send a message to {name}." for name in ("ann", "bob", "eve")}
    sync(here, TWO)
    embed(here)
    assert ids(there) == ["mail:read", "mail:send"]
    sync(here, {**ONE, **many})
    embed(here)
    assert known(there, ["message"]) == known(here, ["message"])
    assert ids(there) == ["mail:ann", "mail:bob", "mail:eve", "mail:send"]
    here.annotate({f"mcptools:{name.replace('/', ':')}": ["letter"] for name in many})
    assert known(there, ["letter"]) == known(here, ["letter"])


def test_two_trees_with_the_same_new_text_embed_it_once(host):
    here, there = host(), host(tree="the same text elsewhere")
    for store in (here, there):
        sync(store, {"same/text": "Two trees say this at the same moment."})
        assert store.pending("paid", limit=9)
    mine, theirs = here.lease("embed-paid"), there.lease("embed-paid")
    assert mine.acquire(timeout=0)
    assert not theirs.acquire(timeout=0)
    # Other work does not wait.
    for purpose in ("files", "embed-other"):
        other = there.lease(purpose)
        assert other.acquire(timeout=60)
        other.release()
    embed(here, model="paid")
    mine.release()
    assert theirs.acquire(timeout=60)
    assert not there.pending("paid", limit=9)
    theirs.release()


def test_two_processes_of_one_host_share_its_copy(host, tmp_path):
    path = tmp_path / "copy.db"
    first, second, other = host(copy=path), host(copy=path), host()
    sync(other, ONE)
    assert ids(first) == ids(second) == ["mail:send"]
    sync(first, TWO)
    assert ids(second) == ids(other) == ["mail:read", "mail:send"]


def test_a_process_waits_while_another_creates_the_file_beside_the_copy(
    host, tmp_path, monkeypatch
):
    path = tmp_path / "copy.db"
    with closing(sqlite3.connect(f"{path}-shared", isolation_level=None)) as other:
        # SQLite itself would not wait for this.
        other.execute("BEGIN IMMEDIATE")
        clock = SimpleNamespace(
            time=time.time,
            monotonic=time.monotonic,
            sleep=lambda _: other.execute("ROLLBACK"),
        )
        monkeypatch.setattr("toolindex_postgres._notes.time", clock)
        store = host(copy=path)
        sync(store, ONE)
        assert ids(store) == ["mail:send"]


def test_hosts_that_change_a_tree_at_once_lose_nothing(host):
    hosts = [host() for _ in range(3)]
    sync(hosts[0], {})

    def fill(number):
        for each in range(4):
            name = f"part{number}/tool{each}"
            sync(hosts[number], {name: f"Do the thing {each} of {number}."}, within=[name])

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids(hosts[0])) == 12
    assert known(hosts[0]) == known(hosts[1]) == known(hosts[2])


def test_a_copy_that_another_program_has_changed_is_compared_with_the_tree(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, TWO)
    here.close()
    with SQLiteStore(path) as alone:
        sync(alone, {"pdf/merge": "Merge files."})
    again = host(copy=path)
    until(lambda: ids(again) == ["mail:read", "mail:send"], "the copy is compared")
    assert ids(host()) == ["mail:read", "mail:send"]


def test_a_copy_with_a_damaged_state_file_is_compared_with_the_tree(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, TWO)
    here.close()
    (tmp_path / "copy.db-shared").write_bytes(b"this is not a database" * 100)
    again = host(copy=path)
    sync(again, ONE)
    assert ids(again) == ids(host()) == ["mail:send"]


def test_a_dropped_tree_is_complete_after_the_next_full_scan(host, database, tree):
    here = host()
    sync(here, ONE)
    with Database(database) as owner:
        assert owner.drop(tree)
        assert not owner.drop(tree)
    # The copy was complete, but a sync of some paths does not complete the new tree.
    sync(here, {}, within=["mail/send"])
    sync(here, ONE)
    there = host()
    with there.reading() as reader:
        assert reader.is_complete()
    assert ids(there) == ["mail:send"]


def test_a_read_only_store_follows_the_tree_and_never_writes(host, database, tree):
    reader = host(read_only=True)
    assert reader.read_only
    # It does not create the tree either.
    assert ids(reader) == []
    with Database(database) as owner:
        assert tree not in {it.name for it in owner.status().trees}
    here = host()
    sync(here, ONE)
    assert ids(reader) == ["mail:send"]
    for change in (
        lambda: sync(reader, TWO),
        lambda: reader.annotate({}),
        lambda: reader.put_vectors(MODEL, {"hash": [1.0]}),
        lambda: reader.refuse(MODEL, {"hash": "why"}),
        reader.rebuild,
    ):
        with pytest.raises(DatabaseError, match="read-only"):
            change()
    assert list(reader.pending(MODEL, limit=9))
    reader.query_vectors.put(MODEL, {"a question": [1.0]})
    sync(here, TWO)
    assert ids(reader) == ["mail:read", "mail:send"]
    assert host().query_vectors.get(MODEL, "a question") is None
    with Database(database) as owner:
        (status,) = (it for it in owner.status().trees if it.name == tree)
    assert (status.entries, status.vectors) == (2, {})


def test_texts_that_postgresql_cannot_store_are_shared_too(host):
    here, there = host(), host()
    sync(here, {"odd/nul": r"Say \0 and \ud800 and メール."})
    here.annotate({"mcptools:odd:nul": ["a\0b", "\ud800"]})
    here.query_vectors.put("m\0", {"\ud800": [1.0, 0.0]})
    assert known(there, ["メール"]) == known(here, ["メール"])
    assert list(there.query_vectors.get("m\0", "\ud800")) == [1.0, 0.0]


def test_forgotten_vectors_are_embedded_again_once_for_all_hosts(host):
    here, there = host(), host()
    sync(here, {"once/more": "This is embedded twice."})
    (text_hash,) = embed(here)
    assert ids(there)
    here.rebuild(forget=MODEL)
    assert list(here.pending(MODEL, limit=9)) == [text_hash]
    here.put_vectors(MODEL, {text_hash: [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]})
    assert known(there) == known(here)
    assert not there.pending(MODEL, limit=9)


def test_a_rebuild_reaches_every_host(host):
    here, there = host(), host()
    sync(here, TWO)
    assert ids(there)
    here.rebuild()
    for store in (there, here):
        assert ids(store) == ["mail:read", "mail:send"]
        assert not store.stored(reader_version=READER).is_current
    sync(there, TWO)
    for store in (here, there):
        assert store.stored(reader_version=READER).is_current


def test_unchanged_aliases_wait_for_no_lock(host, database, tree):
    here = host()
    sync(here, ONE)
    here.annotate({"mcptools:mail:send": ["post"]})
    with psycopg.connect(database) as connection:
        connection.execute("LOCK TABLE toolindex.entry IN ACCESS EXCLUSIVE MODE")
        assert here.annotate({"mcptools:mail:send": ["post"], "mcptools:not:there": ["x"]}) == 0
        assert here.annotate({}, keep=["mcptools:mail:send"]) == 0
    assert here.annotate({}) == 1


def test_pruning_deletes_unneeded_data_on_the_server(host, database, tree, monkeypatch):
    monkeypatch.setattr("toolindex_postgres._tree._SPARES", 1)
    here = host()
    for tools in (TWO, ONE, {"mail/send": "Send it."}):
        sync(here, tools)
        embed(here)
        here.query_vectors.put(MODEL, {next(iter(tools.values())): vector("q")})
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE toolindex.query_vector SET used_at = now() - interval '1 year'")
        # Hosts with an older state now compare their whole copy.
        connection.execute(
            "DELETE FROM toolindex.step WHERE generation < (SELECT generation "
            "FROM toolindex.tree WHERE name = %s)",
            (tree,),
        )
        here.prune()
        counts = [
            connection.execute(
                f"SELECT count(*) FROM toolindex.{table} JOIN toolindex.tree USING (tree_id) "
                "WHERE name = %s",
                (tree,),
            ).fetchone()[0]
            for table in ("tree_vector", "query_vector", "entry")
        ]
    # One is in use; of the others, twice as many as there are tools are kept.
    assert counts == [3, 0, 1]
    assert known(host()) == known(here)


def test_a_new_host_gets_only_the_vectors_of_existing_tools(host):
    here, fresh = host(), host()
    sync(here, TWO)
    embed(here)
    sync(here, ONE)
    with fresh.reading() as reader:
        assert reader.coverage(MODEL).vectors == 1
    # A text that comes back has its vector, even on a host that never fetched it.
    sync(here, TWO)
    with fresh.reading() as reader:
        assert reader.coverage(MODEL).vectors == 2


def test_the_next_process_knows_when_the_server_was_last_reached(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, ONE)
    as_of = here.freshness().as_of
    here.close()
    again = host(copy=path, address=f"host={tmp_path} user=u")
    assert ids(again) == ["mail:send"]
    assert again.freshness().as_of == as_of


def test_a_read_only_copy_is_searched_and_reported(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, ONE)
    here.close()
    store = SharedStore(SQLiteStore(path, read_only=True), f"host={tmp_path}", tree="t")
    assert ids(store) == ["mail:send"]
    assert "cannot be written" in store.freshness().problem
    store.close()


NAMES = [f"{category}/{name}" for category in "ab" for name in ("get", "send", "merge")]
WORDS = ["message", "mailbox", "file", "issue", "several", "page"]
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.one_of(
            st.tuples(st.just("write"), st.sampled_from(NAMES), st.sets(st.sampled_from(WORDS))),
            st.tuples(st.just("remove"), st.sampled_from(NAMES)),
            st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
            st.tuples(st.just("embed"), st.integers(1, 3)),
            st.tuples(st.just("alias"), st.sampled_from(NAMES), st.sampled_from(WORDS)),
            st.tuples(st.just("look")),
        ),
        # Whether the whole tree is scanned, or only the changed files.
        st.booleans(),
    ),
    min_size=4,
    max_size=14,
)
_EXAMPLES = count(1)


@given(changes=CHANGES)
# Aliases are removed with a tool, even on a host that never noticed its removal or return.
@example(
    changes=[
        (0, ("write", "a/get", {"file"}), True),
        (0, ("alias", "a/get", "page"), True),
        (1, ("remove", "a/get"), True),
        (1, ("write", "a/get", {"file"}), True),
        (0, ("alias", "a/get", "page"), True),
    ]
)
def test_after_random_changes_each_host_equals_a_single_store(
    server, database, tmp_path_factory, changes
):
    number = next(_EXAMPLES)
    folder = tmp_path_factory.mktemp("example")
    hosts = [
        SharedStore(SQLiteStore(folder / name), database, tree=f"example {number}")
        for name in ("a.db", "b.db")
    ]
    alone = SQLiteStore(folder / "alone.db")
    files: dict[str, str] = {}
    aliases: dict[str, list[str]] = {}
    try:
        for stamp, (which, (kind, *what), whole) in enumerate(changes):
            stores = [hosts[which], alone]
            if kind == "look":
                ids(hosts[which])
            elif kind == "embed":
                # All hosts have the same pending texts as the single store.
                texts = sorted(alone.pending(MODEL, limit=99))
                assert sorted(hosts[which].pending(MODEL, limit=99)) == texts
                for store in stores:
                    store.put_vectors(MODEL, {it: vector(it) for it in texts[: what[0]]})
            elif kind == "alias":
                name, word = what
                aliases[f"mcptools:{name.replace('/', ':')}"] = [word]
                assert len({store.annotate(aliases) for store in stores}) == 1
            else:
                touched = [it for it in what if isinstance(it, str)]
                if kind == "write":
                    # Each text is unique, because renamed files with equal texts are ambiguous.
                    files[what[0]] = f"{' '.join(sorted(what[1]))} of{number}x{stamp}."
                elif kind == "remove":
                    files.pop(what[0], None)
                elif what[0] in files and what[0] != what[1]:
                    files[what[1]] = files.pop(what[0])
                within = None if whole else touched
                some = {it: text for it, text in files.items() if whole or it in touched}
                done = [sync(store, some, within=within) for store in stores]
                counts = {(it.added, it.updated, it.removed, it.unchanged) for it in done}
                assert len(counts) == 1
        expected = known(alone, WORDS)
        for store in hosts:
            assert known(store, WORDS) == expected
            assert store.check() == ()
    finally:
        for store in (*hosts, alone):
            store.close()
