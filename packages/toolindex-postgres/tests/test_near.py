"""Large trees, whose vectors pgvector searches; here, those with more than 40 tools."""

import os
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import psycopg
import pytest
from toolindex import ToolFilter
from toolindex_postgres import Database, EngineStore, _near, _near_build
from toolindex_postgres._refresh import Refresher

from .sqlite_store import SQLiteStore
from .test_faults import background, until
from .trees import EVERY, MODEL, embed, report, sync, vector

TOOLS = {f"{'mail' if n % 4 else 'files'}/do_{n}": f"Do thing {n}." for n in range(120)}
MORE = {f"mail/more_{n}": f"Do more {n}." for n in range(40)}
# The server compares vectors in half precision.
CLOSE = 1e-3


@pytest.fixture(autouse=True)
def _small(monkeypatch, server):
    with psycopg.connect(server.address()) as connection:
        is_there = connection.execute(
            "SELECT FROM pg_available_extension_versions WHERE name = 'vector' "
            "AND string_to_array(version, '.')::int[] >= '{0,7}'"
        ).rowcount
    # The weekly job uses an older PostgreSQL without pgvector.
    if not is_there and "TEST_POSTGRES" in os.environ:
        pytest.skip("this PostgreSQL has no pgvector 0.7")
    monkeypatch.setattr("toolindex_postgres._near.LARGE", 40)


def nearest(store, text, *, where=EVERY, depth=10):
    with store.reading() as reader:
        hits = reader.nearest(vector(text), model_id=MODEL, where=where, depth=depth)
        return {hit.id: hit.score for hit in hits}


def is_approximate(store):
    nearest(store, "any")
    return bool(store.vector_notes())


def index(store):
    """Index the vectors, and wait until that is done."""
    store.prune()
    until(lambda: is_approximate(store), "the vectors are indexed")


def assert_alike(store, other, **options):
    for text in map(str, range(20)):
        found, expected = nearest(store, text, **options), nearest(other, text, **options)
        assert expected
        # At the end of the list, tools with nearly equal scores may differ.
        assert [*found.values()] == pytest.approx([*expected.values()], abs=CLOSE)
        assert len(found.keys() - expected.keys()) < 3


@pytest.fixture
def alone(tmp_path):
    """A store in a file, which searches all vectors."""
    with_file = SQLiteStore(tmp_path / "alone.db")
    yield with_file
    with_file.close()


def fill(*stores, tools=TOOLS):
    for store in stores:
        sync(store, tools)
        embed(store)


def test_indexing_updates_the_servers_statistics_of_the_tools(engine, database):
    here = engine()
    fill(here)
    with psycopg.connect(database, autocommit=True) as connection:
        number = "SELECT count(*) FROM toolindex.entry"
        known = "SELECT reltuples FROM pg_class WHERE oid = 'toolindex.entry'::regclass"
        assert connection.execute(known).fetchone() != connection.execute(number).fetchone()
        index(here)
        assert connection.execute(known).fetchone() == connection.execute(number).fetchone()


def test_a_large_tree_is_searched_on_the_server_with_a_note(engine, alone):
    here, there = engine(), engine(read_only=True)
    fill(here, alone)
    assert not is_approximate(here)
    exact = nearest(here, "any")
    index(here)

    assert nearest(here, "any") != exact
    for store in (here, there):
        assert_alike(store, alone)
        assert "approximate" in store.vector_notes()[-1]


def test_a_small_tree_is_not_indexed_and_its_results_are_exact(engine, alone):
    here = engine()
    few = dict(list(TOOLS.items())[:30])
    fill(here, alone, tools=few)
    here.prune()
    sync(here, few)

    assert not is_approximate(here)
    assert nearest(here, "any") == nearest(alone, "any")


def test_changes_by_every_kind_of_host_are_found_at_once(engine, host, alone):
    here, reader, copy = engine(), engine(read_only=True), host()
    fill(here, alone)
    index(here)
    changed = TOOLS | {"mail/do_1": "Do another thing."}
    less = {name: text for name, text in TOOLS.items() if not name.startswith("files/")}
    for writer, tools in ((here, TOOLS | MORE), (copy, changed), (here, less), (copy, TOOLS)):
        fill(writer, alone, tools=tools)
        here.prune()
        for store in (here, reader):
            assert_alike(store, alone)
            assert_alike(store, alone, depth=100)
    # A tool keeps its vector if its file is moved.
    moved = dict(TOOLS)
    moved["mail/elsewhere"] = moved.pop("mail/do_1")
    for store in (here, alone):
        sync(store, moved)
    assert_alike(reader, alone, depth=len(TOOLS))
    assert is_approximate(reader)


@pytest.mark.parametrize(
    "where",
    [
        ToolFilter(categories=["files"]),
        ToolFilter(categories=["mail"]),
        ToolFilter(source="mcptools"),
        ToolFilter(source="mcptools", categories=["files"], include=["*_4*", "*_8*"]),
        ToolFilter(include=["*:do_11*"]),
        ToolFilter(include=["mcptools:mail:do_1", "mcptools:mail:do_2"]),
        ToolFilter(exclude=["*_1*"]),
        ToolFilter(path_prefix="mcptools/files"),
        ToolFilter(min_success_rate=0.5, unknown="include"),
    ],
)
def test_filters_apply_before_the_results_are_limited(engine, alone, where):
    here = engine()
    fill(here, alone)
    index(here)

    assert_alike(here, alone, where=where)


def test_a_filter_that_nothing_passes_finds_nothing(engine):
    here = engine()
    fill(here)
    index(here)

    assert nearest(here, "any", where=ToolFilter(source="gentools")) == {}
    assert nearest(here, "any", where=ToolFilter(include=["*nothing*"])) == {}


def test_a_reader_of_stale_pages_finds_only_tools_in_these_pages(engine, host):
    here, reader = engine(), engine(read_only=True)
    fill(here)
    index(here)
    fill(host(), tools=TOOLS | MORE)
    before = {f"mcptools:{name.replace('/', ':')}" for name in TOOLS}

    assert nearest(reader, "any", depth=100).keys() <= before
    index(here)
    assert not nearest(reader, "any", depth=150).keys() <= before


def test_changes_and_searches_continue_while_vectors_are_indexed(engine, alone):
    here, other = engine(), engine()
    fill(here, alone)
    for round_ in range(10):
        if round_ == 1:
            here.prune()
        fill(other, alone, tools=TOOLS | {f"mail/late_{round_}": f"Be late {round_}."})
        assert_alike(here, alone)
    until(lambda: is_approximate(here), "the vectors are indexed")

    assert_alike(here, alone)


def test_without_pgvector_all_vectors_are_searched(server, alone, tmp_path):
    address = server.new_database()
    with Database(address) as owner:
        owner.init()
        assert owner.status().pgvector
        with psycopg.connect(address) as connection:
            connection.execute("DROP EXTENSION vector")
        assert owner.status().pgvector == ""
        here = EngineStore(
            lambda pages: SQLiteStore(tmp_path / "here.db", pages=pages), address, tree="t"
        )
        fill(here, alone)
        here.prune()
        fill(here, alone, tools=TOOLS | MORE)
        assert owner.status().trees[0].indexed == ()
    assert not is_approximate(here)
    assert nearest(here, "any") == nearest(alone, "any")
    here.close()


@pytest.fixture
def tables(server):
    """Return the names of the tables with vectors."""
    database = server.address()
    found = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'near\\_%'"

    def names(address=database):
        with psycopg.connect(address) as connection:
            return {name for (name,) in connection.execute(found)}

    return names


def test_dropping_a_tree_drops_its_vector_tables(server, tmp_path, tables):
    address = server.new_database()
    with Database(address) as owner, ExitStack() as stack:
        owner.init()
        here = EngineStore(
            lambda pages: SQLiteStore(tmp_path / "here.db", pages=pages), address, tree="t"
        )
        stack.callback(here.close)
        fill(here)
        index(here)
        assert owner.status().trees[0].indexed == (MODEL,)
        assert len(tables(address)) == 1
        assert owner.drop("t")
        assert tables(address) == set()


def test_roles_have_the_same_rights_to_vector_tables_as_to_the_tree(
    engine, alone, server, database, tree, tables
):
    roles = {"near_writer": True, "near_reader": False, "near_stranger": True}
    addresses = {}
    with Database(database) as owner:
        for role, writes in roles.items():
            server.execute(f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN")
            given = "another" if role == "near_stranger" else tree
            owner.grant(role, write=writes, trees=[given])
            addresses[role] = psycopg.conninfo.make_conninfo(database, user=role)
    before = tables(database)
    writer = engine(address=addresses["near_writer"])
    fill(writer, alone)
    index(writer)
    assert_alike(engine(address=addresses["near_reader"], read_only=True), alone)

    (name,) = tables(database) - before
    for role in ("near_reader", "near_stranger"):
        with psycopg.connect(addresses[role], autocommit=True) as connection:
            count = len(TOOLS) if role == "near_reader" else 0
            every = f"SELECT count(*) FROM toolindex.{name}"
            assert connection.execute(every).fetchone() == (count,)
            assert connection.execute(f"DELETE FROM toolindex.{name}").rowcount == 0
            for statement in (
                f"INSERT INTO toolindex.{name} VALUES ('a', '[1,2,3,4,5,6,7,8]')",
                f"DROP TABLE toolindex.{name}",
                f"SELECT toolindex.index_near('{name}')",
                "INSERT INTO toolindex.near VALUES (1, 'm', 1, 'entry', 'public', 1)",
                "DELETE FROM toolindex.near",
            ):
                with pytest.raises(psycopg.Error):
                    connection.execute(statement)
            connection.execute("SELECT toolindex.keep_near(tree_id, 0) FROM toolindex.near")
            rows = connection.execute(
                "SELECT toolindex.make_near(tree_id, 'm', 8) FROM toolindex.tree"
            ).fetchall()
            assert rows == [] or role == "near_stranger"
    assert_alike(writer, alone)


def test_roles_may_use_pgvector_even_if_its_schema_is_not_open_to_all_roles(
    server, alone, tmp_path
):
    own = server.new_database()
    server.execute("DROP ROLE IF EXISTS near_closed; CREATE ROLE near_closed LOGIN")
    address = psycopg.conninfo.make_conninfo(own, user="near_closed")
    with Database(own) as owner, ExitStack() as stack:
        owner.init()
        with psycopg.connect(own) as connection:
            connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        owner.grant("near_closed", write=True)
        here = EngineStore(
            lambda pages: SQLiteStore(tmp_path / "here.db", pages=pages), address, tree="t"
        )
        stack.callback(here.close)
        fill(here, alone)
        index(here)
        assert_alike(here, alone)
        fill(here, alone, tools=TOOLS | MORE)
        assert_alike(here, alone)


def test_tools_that_are_read_again_keep_their_indexed_vectors(engine, alone, database, tables):
    here, before = engine(), tables(database)
    fill(here, alone)
    index(here)
    (name,) = tables(database) - before

    def versions():
        with psycopg.connect(database) as connection:
            return connection.execute(f"SELECT text_hash, xmin FROM toolindex.{name}").fetchall()

    indexed = versions()
    # As after an update of the program, or a rebuild: all files are read, no text is new.
    for store in (here, alone):
        store.sync(report(TOOLS), reader_version="2")
    assert versions() == indexed
    assert_alike(here, alone)


def test_a_model_that_embeds_again_replaces_the_vectors_one_by_one(engine, alone):
    here = engine()
    fill(here, alone)
    index(here)
    for store in (here, alone):
        store.rebuild(forget=MODEL)
        embed(store, limit=50)
        vectors = {it: vector(f"new {it}") for it in store.pending(MODEL, limit=20)}
        store.put_vectors(MODEL, vectors)
    assert_alike(here, alone)


def is_waiting(connection, function):
    """Return whether a statement with a function waits for a lock."""
    return connection.execute(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s",
        (f"%toolindex.{function}%",),
    ).rowcount


def test_closing_stops_indexing_and_leaves_no_table(engine, database, tables):
    here, before = engine(), tables(database)
    fill(here)
    with (
        psycopg.connect(database) as other,
        psycopg.connect(database, autocommit=True) as watching,
    ):
        other.execute("LOCK TABLE toolindex.near IN EXCLUSIVE MODE")
        here.prune()
        until(lambda: is_waiting(watching, "make_near"), "the table is being made")
        here.close()
    until(lambda: not background(), "indexing has stopped")
    assert tables(database) == before
    assert is_approximate(engine()) is False


def test_closing_stops_a_statement_that_begins_at_that_moment(
    engine, database, tables, monkeypatch
):
    here, before = engine(), tables(database)
    fill(here)
    is_copied, is_closing = threading.Event(), threading.Event()
    copy, close = _near.copy, Refresher.close

    def copy_and_wait(*arguments):
        copy(*arguments)
        is_copied.set()
        assert is_closing.wait(60)

    def close_during_the_next_statement(refresher):
        # The fixture closes the store again.
        if not is_closing.is_set():
            is_closing.set()
            until(lambda: is_waiting(watching, "index_near"), "the table is being indexed")
        return close(refresher)

    monkeypatch.setattr(_near, "copy", copy_and_wait)
    monkeypatch.setattr(Refresher, "close", close_during_the_next_statement)
    with (
        psycopg.connect(database) as other,
        psycopg.connect(database, autocommit=True) as watching,
    ):
        other.execute("LOCK TABLE toolindex.entry IN SHARE UPDATE EXCLUSIVE MODE")
        here.prune()
        assert is_copied.wait(60)
        here.close()
        until(lambda: not background(), "indexing has stopped")
    assert tables(database) == before


def test_indexing_that_fails_is_repeated_only_after_many_times_as_long(engine, monkeypatch):
    here, now, attempts = engine(), [0.0], []
    fill(here)

    def fails(*_):
        attempts.append(now[0])
        now[0] += 600
        raise psycopg.errors.DiskFull("no room")

    monkeypatch.setattr(_near, "copy", fails)
    monkeypatch.setattr(_near_build, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for _ in range(3):
        here.prune()
        until(lambda: not background(), "indexing has ended")
    assert attempts == [0.0]
    now[0] += 20 * 600
    here.prune()
    until(lambda: len(attempts) == 2, "the vectors are indexed again")
