"""Hosts that share a tree see each other's changes, and are as if they had one store."""

import os
import threading
from itertools import count

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolindex import ReadOnlyIndexError, VectorError
from toolindex_postgres import Database, EngineStore, SharedStore

from .sqlite_store import SQLiteStore
from .test_faults import until
from .trees import MODEL, READER, embed, ids, known, report, sync, vector

ONE = {"mail/send": "Send a message to somebody."}
TWO = {**ONE, "mail/read": "Read the messages of a mailbox."}


def test_two_hosts_see_each_others_tools_vectors_and_aliases(host):
    here, there = host(), host()
    sync(here, ONE)
    assert ids(there) == ["mail:send"]
    embed(here)
    sync(there, TWO)
    embed(there)
    there.annotate({"mcptools:mail:read": ["inbox"]})
    assert known(here, ["inbox", "message"]) == known(there, ["inbox", "message"])
    assert ids(here) == ["mail:read", "mail:send"]
    with here.reading() as reader:
        assert reader.coverage(MODEL).vectors == 2


def test_a_host_that_comes_later_gets_all_and_pays_for_nothing(host):
    here = host()
    sync(here, TWO)
    embed(here)
    here.annotate({"mcptools:mail:read": ["inbox"]})
    later = host()
    assert not later.pending(MODEL, limit=9)
    assert known(later, ["inbox"]) == known(here, ["inbox"])


def test_a_text_that_another_tree_has_embedded_is_not_pending(host):
    here, there = host(), host(tree="another tree")
    sync(here, {"once/only": "Nobody else says just this."})
    assert embed(here)
    sync(there, {"once/only": "Nobody else says just this."})
    assert not there.pending(MODEL, limit=9)
    with there.reading() as reader:
        assert reader.coverage(MODEL).vectors == 1


def test_a_text_that_two_trees_meet_at_the_same_moment_is_embedded_by_one_of_them(host):
    here, there = host(), host(tree="the same text elsewhere")
    for store in (here, there):
        sync(store, {"same/text": "Two trees say this at the same moment."})
        assert store.pending("paid", limit=9)
    mine, theirs = here.lease("embed-paid"), there.lease("embed-paid")
    assert mine.acquire(timeout=0)
    assert not theirs.acquire(timeout=0)
    # Nothing else is waited for.
    for purpose in ("files", "embed-other"):
        other = there.lease(purpose)
        assert other.acquire(timeout=9)
        other.release()
    embed(here, model="paid")
    mine.release()
    assert theirs.acquire(timeout=9)
    assert not there.pending("paid", limit=9)
    theirs.release()


def test_a_process_sees_what_another_process_on_another_host_has_changed(host, tmp_path):
    here = host()
    sync(here, ONE)
    child = os.fork()
    if not child:
        # It is a separate host, which uses nothing of the parent's.
        status = 1
        try:
            there = host(copy=tmp_path / "there.db")
            if ids(there) == ["mail:send"]:
                sync(there, TWO)
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert ids(here) == ["mail:read", "mail:send"]


def test_two_processes_of_one_host_share_its_copy(host, tmp_path):
    path = tmp_path / "copy.db"
    first, second, other = host(copy=path), host(copy=path), host()
    sync(other, ONE)
    assert ids(first) == ids(second) == ["mail:send"]
    sync(first, TWO)
    assert ids(second) == ids(other) == ["mail:read", "mail:send"]


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


def test_a_copy_that_something_else_has_changed_is_compared_with_the_tree(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, TWO)
    here.close()
    with SQLiteStore(path) as alone:
        sync(alone, {"pdf/merge": "Merge files."})
    again = host(copy=path)
    until(lambda: ids(again) == ["mail:read", "mail:send"], "it is compared")
    assert ids(host()) == ["mail:read", "mail:send"]


def test_a_copy_without_its_note_is_compared_with_the_tree(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, TWO)
    here.close()
    (tmp_path / "copy.db-shared").write_bytes(b"this is no database" * 100)
    again = host(copy=path)
    sync(again, ONE)
    assert ids(again) == ids(host()) == ["mail:send"]


def test_a_tree_that_was_dropped_is_filled_again_by_the_next_scan(host, database, tree):
    here, there = host(), host()
    sync(here, TWO)
    assert ids(there)
    with Database(database) as owner:
        assert owner.drop(tree)
        assert not owner.drop(tree)
    assert ids(there) == []
    sync(here, ONE)
    assert ids(there) == ["mail:send"]


def test_a_store_for_reading_follows_the_tree_and_never_writes(host, database, tree):
    here = host()
    sync(here, ONE)
    reader = host(read_only=True)
    assert reader.read_only
    assert ids(reader) == ["mail:send"]
    for change in (
        lambda: sync(reader, TWO),
        lambda: reader.annotate({}),
        lambda: reader.put_vectors(MODEL, {"hash": [1.0]}),
        lambda: reader.refuse(MODEL, {"hash": "why"}),
        reader.rebuild,
    ):
        with pytest.raises(ReadOnlyIndexError):
            change()
    assert list(reader.pending(MODEL, limit=9))
    reader.query_vectors.put(MODEL, {"a question": [1.0]})
    sync(here, TWO)
    assert ids(reader) == ["mail:read", "mail:send"]
    assert host().query_vectors.get(MODEL, "a question") is None
    with Database(database) as owner:
        (status,) = (it for it in owner.status().trees if it.name == tree)
    assert (status.entries, status.vectors) == (2, {})


def test_a_store_for_reading_of_a_tree_that_nobody_made_is_empty(host, database, tree):
    assert ids(host(read_only=True)) == []
    with Database(database) as owner:
        assert tree not in {it.name for it in owner.status().trees}


def test_vectors_that_the_copy_would_refuse_never_reach_the_server(host, database, tree):
    here = host()
    sync(here, TWO)
    hashes = list(here.pending("refused", limit=9))
    for bad in ([[1.0], [1.0, 2.0]], [[0.0], [1.0]], [[float("nan")], [1.0]]):
        with pytest.raises(VectorError):
            here.put_vectors("refused", dict(zip(hashes, bad, strict=True)))
    with Database(database) as owner:
        assert all(not it.vectors for it in owner.status().trees if it.name == tree)


def test_what_postgresql_has_no_letters_for_is_shared_all_the_same(host):
    here, there = host(), host()
    sync(here, {"odd/nul": r"Say \0 and \ud800 and メール."})
    here.annotate({"mcptools:odd:nul": ["a\0b", "\ud800"]})
    here.query_vectors.put("m\0", {"\ud800": [1.0, 0.0]})
    assert known(there, ["メール"]) == known(here, ["メール"])
    assert list(there.query_vectors.get("m\0", "\ud800")) == [1.0, 0.0]


def test_a_model_that_is_to_embed_again_does_so_once_for_all_hosts(host):
    here, there = host(), host()
    sync(here, {"once/more": "This is embedded twice."})
    (text_hash,) = embed(here)
    assert ids(there)
    here.rebuild(forget=MODEL)
    assert list(here.pending(MODEL, limit=9)) == [text_hash]
    here.put_vectors(MODEL, {text_hash: [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]})
    assert known(there) == known(here)
    assert not there.pending(MODEL, limit=9)


def test_what_is_made_anew_is_made_anew_on_every_host(host):
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


def test_aliases_that_change_nothing_wait_for_nobody(host, database, tree):
    here = host()
    sync(here, ONE)
    here.annotate({"mcptools:mail:send": ["post"]})
    with psycopg.connect(database) as connection:
        connection.execute("LOCK TABLE toolindex.entry IN ACCESS EXCLUSIVE MODE")
        assert here.annotate({"mcptools:mail:send": ["post"], "mcptools:not:there": ["x"]}) == 0
        assert here.annotate({}, keep=["mcptools:mail:send"]) == 0
    assert here.annotate({}) == 1


def test_what_no_tool_needs_is_deleted_on_the_server(host, database, tree, monkeypatch):
    monkeypatch.setattr("toolindex_postgres._tree._SPARES", 1)
    here = host()
    for tools in (TWO, ONE, {"mail/send": "Send it."}):
        sync(here, tools)
        embed(here)
        here.query_vectors.put(MODEL, {next(iter(tools.values())): vector("q")})
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE toolindex.query_vector SET used_at = now() - interval '1 year'")
        # So that it is the last state which no host can still have.
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
    # One in use, and the two newest others: twice as many as there are tools.
    assert counts == [3, 0, 1]
    assert known(host()) == known(here)


def test_a_new_host_is_given_the_vectors_of_the_tools_there_are(host):
    here, fresh = host(), host()
    sync(here, TWO)
    embed(here)
    sync(here, ONE)
    with fresh.reading() as reader:
        assert reader.coverage(MODEL).vectors == 1
    # A text that comes back has its vector, also where that was never fetched.
    sync(here, TWO)
    with fresh.reading() as reader:
        assert reader.coverage(MODEL).vectors == 2


def test_when_the_server_was_last_reached_is_known_to_the_next_process(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, ONE)
    as_of = here.freshness().as_of
    here.close()
    again = host(copy=path, address=f"host={tmp_path} user=u")
    assert ids(again) == ["mail:send"]
    assert again.freshness().as_of == as_of


def test_a_copy_that_cannot_be_written_is_searched_and_says_so(host, tmp_path):
    path = tmp_path / "copy.db"
    here = host(copy=path)
    sync(here, ONE)
    here.close()
    store = SharedStore(SQLiteStore(path, read_only=True), f"host={tmp_path}", tree="t")
    assert ids(store) == ["mail:send"]
    assert "cannot be written" in store.freshness().problem
    store.close()


def test_the_records_of_tools_are_had_without_their_files(host):
    sync(host(), ONE)
    (record,) = host(read_only=True).records(["mcptools:mail:send"])
    (scanned,) = report(ONE).records
    assert record.definitions == scanned.definitions
    assert record.signature == scanned.signature


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
        # Whether the whole tree is scanned, or what changed.
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
# A host without a copy, whose pages are older than the tree.
@example(changes=[(0, ("write", "a/get", {"file"}), True), (1, ("alias", "a/get", "page"), True)])
def test_after_random_changes_each_copy_is_as_one_store_would_be(
    server, database, tmp_path_factory, changes
):
    number = next(_EXAMPLES)
    folder = tmp_path_factory.mktemp("example")
    # A host with a copy and one without, in every order of changes.
    tree = f"example {number}"
    hosts = [
        SharedStore(SQLiteStore(folder / "a.db"), database, tree=tree),
        EngineStore(lambda it: SQLiteStore(folder / "b.db", pages=it), database, tree=tree),
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
                # Those that the plain store has pending are pending on every host.
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
                    # Of its own, for equal files are not told apart when they are renamed.
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
