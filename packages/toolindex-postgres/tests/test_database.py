"""The owner's tasks: schema, rights, status; and roles that are refused."""

import threading

import psycopg
import pytest
from toolindex import DatabaseError, NewerSchemaError, OutcomeRecord
from toolindex_postgres import (
    AddressError,
    Database,
    DeniedError,
    EngineStore,
    SchemaError,
    UnreachableStoreError,
)
from toolindex_postgres._connection import Connection

from .sqlite_store import SQLiteStore
from .trees import MODEL, embed, ids, known, sync

ONE = {"mail/send": "Send a message to somebody."}
TWO = {**ONE, "mail/read": "Read the messages of a mailbox."}


@pytest.fixture
def own(server):
    """The address of a database of the test's own, without the schema."""
    return server.new_database()


@pytest.fixture
def role(server):
    """Make a role that may log in, and return its name; what it was granted goes with it."""
    made = []

    def make(name):
        server.execute(f'CREATE ROLE "{name}" LOGIN')
        made.append(name)
        return name

    return make


def test_the_schema_is_made_once_however_many_do_it_at_once(own):
    found, owners = [], [Database(own) for _ in range(3)]
    threads = [threading.Thread(target=lambda it=it: found.append(it.init())) for it in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 1]
    for owner in owners:
        owner.close()


def test_what_there_is_is_reported_of_an_empty_database_and_of_each_tree(own, host):
    with Database(own) as owner:
        empty = owner.status()
        assert (empty.schema, empty.supported, empty.trees, empty.size) == (None, 1, (), 0)
        assert 13 <= int(empty.server.partition(".")[0]) <= 99
        owner.init()
        store = host(address=own, tree="my tools")
        sync(store, TWO)
        embed(store)
        status = owner.status()
        (tree,) = status.trees
        assert (tree.name, tree.entries, dict(tree.vectors)) == ("my tools", 2, {MODEL: 2})
        assert status.schema == 1
        assert status.size > 100_000
        assert owner.drop("my tools")
        assert owner.status().trees == ()


def test_vectors_stay_as_long_as_a_tree_has_them(own, host):
    with Database(own) as owner:
        owner.init()
        first, second = host(address=own, tree="first"), host(address=own, tree="second")
        sync(first, TWO)
        embed(first)
        sync(second, ONE)
        assert not second.pending(MODEL, limit=9)
        owner.drop("first")
    third = host(address=own, tree="third")
    sync(third, TWO)
    assert len(third.pending(MODEL, limit=9)) == 1


def test_vectors_are_taken_only_from_trees_that_the_same_role_may_write(own, host, role):
    mine, stranger = (own.replace("user=postgres", f"user={role(it)}") for it in ("mine", "odd"))
    with Database(own) as owner:
        owner.init()
        owner.grant("mine", write=True, trees=["a", "b"])
        owner.grant("odd", write=True, trees=["c"])
        owner.grant("odd", write=True, trees=["c"])
    theirs = host(address=stranger, tree="c")
    sync(theirs, TWO)
    wrong = {it: [1.0] + 7 * [0.0] for it in theirs.pending(MODEL, limit=9)}
    theirs.put_vectors(MODEL, wrong)
    theirs.query_vectors.put(MODEL, {"a question": [1.0]})
    ours, also = host(address=mine, tree="a"), host(address=mine, tree="b")
    sync(ours, TWO)
    assert set(ours.pending(MODEL, limit=9)) == set(wrong)
    assert ours.query_vectors.get(MODEL, "a question") is None
    embed(ours)
    sync(also, TWO)
    assert not also.pending(MODEL, limit=9)
    assert known(also)["near"] == known(ours)["near"]


def test_a_database_without_the_schema_is_refused_with_what_to_do(own, host, tmp_path):
    store = host(address=own)
    with pytest.raises(SchemaError, match=r"there is no index yet.*database init"):
        store.bind(str(tmp_path))
    assert "database init" in store.freshness().problem
    with pytest.raises(SchemaError):
        sync(store, ONE)
    with Database(own) as owner:
        with pytest.raises(SchemaError):
            owner.grant("postgres", write=True)
        with pytest.raises(SchemaError):
            owner.drop("tree")


def test_an_older_client_goes_on_searching_and_is_refused_to_write(own, host, tmp_path):
    with Database(own) as owner:
        owner.init()
        store = host(address=own)
        sync(store, ONE)
        with psycopg.connect(own) as connection:
            connection.execute("UPDATE toolindex.state SET version = 99")
        assert ids(store) == ["mail:send"]
        assert "schema 99" in store.freshness().problem
        for refused in (
            lambda: sync(store, TWO),
            lambda: store.bind(str(tmp_path)),
            owner.init,
            lambda: owner.grant("postgres", write=True),
        ):
            with pytest.raises(NewerSchemaError, match="schema 99, this version reads up to 1"):
                refused()
        assert owner.status().schema == 99


def test_a_role_reads_and_writes_its_own_trees_and_nothing_of_others(own, server, host, role):
    writer, reader = role("the writer"), role("the reader")
    with Database(own) as owner:
        owner.init()
        owner.grant(writer, write=True, trees=["ours"])
        owner.grant(reader, write=False, trees=["ours"])
    sync(host(address=own, tree="theirs"), TWO)
    as_writer = own.replace("user=postgres", "user='the writer'")
    as_reader = own.replace("user=postgres", "user='the reader'")

    ours = host(address=as_writer, tree="ours")
    sync(ours, ONE)
    embed(ours)
    ours.annotate({"mcptools:mail:send": ["post"]})
    sync(ours, TWO)
    sync(ours, ONE)
    ours.rebuild(forget=MODEL)
    ours.query_vectors.put(MODEL, {"a question": [1.0]})

    looks = host(address=as_reader, tree="ours")
    assert ids(looks) == ["mail:send"]
    assert looks.freshness().problem == ""
    assert looks.query_vectors.get(MODEL, "a question") is not None
    with pytest.raises(DeniedError, match="database grant"):
        sync(looks, TWO)
    with pytest.raises(DeniedError):
        looks.annotate({"mcptools:mail:send": ["letter"]})

    for address in (as_writer, as_reader):
        # A tree that one may not read looks like one that is not there.
        assert ids(host(address=address, tree="theirs")) == []
        with pytest.raises(DatabaseError):
            sync(host(address=address, tree="theirs"), ONE)
        with pytest.raises(DatabaseError):
            sync(host(address=address, tree="of nobody"), ONE)
        with Database(address) as other:
            assert [it.name for it in other.status().trees] == ["ours"]
            with pytest.raises(DatabaseError):
                other.grant(writer, write=True)
            if address == as_reader:
                with pytest.raises(DeniedError):
                    other.drop("theirs")
            else:
                assert not other.drop("theirs")
        with psycopg.connect(address, autocommit=True) as connection:
            for table in ("entry", "tree_vector", "query_vector", "step"):
                rows = connection.execute(
                    f"SELECT count(*) FROM toolindex.{table} WHERE tree_id = 1"
                ).fetchone()
                assert rows == (0,), table
            for statement in (
                "SELECT * FROM toolindex.access",
                "UPDATE toolindex.state SET version = 2",
                "INSERT INTO toolindex.access VALUES (current_user, '*', true)",
                "INSERT INTO toolindex.entry (tree_id, id, path, file_hash, text_hash, generation) "
                "VALUES (1, 'x', 'x', 'x', 'x', 1)",
                "INSERT INTO toolindex.tree_vector VALUES (1, 'm', 1, 'x', 1, '')",
                "SET ROLE postgres",
            ):
                with pytest.raises(psycopg.Error, match=r"denied|policy"):
                    connection.execute(statement.encode())
            for statement in (
                "UPDATE toolindex.entry SET record = NULL WHERE tree_id = 1",
                "DELETE FROM toolindex.tree WHERE name = 'theirs'",
            ):
                try:
                    assert connection.execute(statement.encode()).rowcount == 0
                except psycopg.errors.InsufficientPrivilege:
                    assert address == as_reader
    with Database(own) as owner:
        assert {it.name: it.entries for it in owner.status().trees} == {"ours": 1, "theirs": 2}


def test_a_tenant_gets_nothing_of_another_by_any_statement_that_we_send(
    own, host, role, tmp_path, monkeypatch
):
    said = []

    def noting(kind):
        execute = kind.execute

        def noted(self, query, params=None, **options):
            said.append((query, params))
            return execute(self, query, params, **options)

        monkeypatch.setattr(kind, "execute", noted)

    def rows(connection):
        return {
            table: connection.execute(
                f"SELECT row_to_json(it)::text FROM toolindex.{table} AS it ORDER BY 1"
            ).fetchall()
            for table in ("tree", "step", "entry", "tree_vector", "usage", "event", "image", "page")
        }

    with Database(own) as owner:
        owner.init()
        owner.grant(role("tenant"), write=True, trees=["ours"])
    secret = {"secret/plan": "The secret.", "secret/other": "Also secret."}
    noting(Connection)
    noting(psycopg.ClientCursor)
    copy, engine = (
        host(address=own, tree="theirs"),
        EngineStore(lambda it: SQLiteStore(tmp_path / "e.db", pages=it), own, tree="theirs"),
    )
    for store in (copy, engine):
        for tools in (secret, {"secret/plan": "The secret has moved."}, secret):
            sync(store, tools)
            embed(store)
            known(store, ["secret"])
        store.annotate({"mcptools:secret:plan": [f"secret {store}"]})
        store.usage.record_outcomes([OutcomeRecord(at=1.0, tool_id="secret", success=True)])
        store.query_vectors.put(MODEL, {"secret": [1.0]})
        assert store.query_vectors.get(MODEL, "secret")
        assert store.records(["mcptools:secret:plan"])
        assert store.usage.outcomes()
        store.prune()
    engine.close()
    monkeypatch.undo()
    statements = {str(query): (query, params) for query, params in said}
    assert len(statements) > 30
    with (
        psycopg.connect(own, autocommit=True) as owner,
        psycopg.connect(own, user="tenant", autocommit=True) as tenant,
    ):
        before, refused = rows(owner), 0
        for query, params in statements.values():
            try:
                done = psycopg.ClientCursor(tenant).execute(query, params)
            except psycopg.Error:
                refused += 1
                tenant.execute("ROLLBACK")
                continue
            given = [row for it in done.results() if it.description for row in it]
            assert not [row for row in given if "secret" in str(row)], query
            tenant.execute("COMMIT")
        assert refused
        tenant.execute("ROLLBACK")
        assert rows(owner) == before


def test_a_role_that_was_granted_nothing_is_told_so_and_grants_are_replaced(own, host, role):
    name = role("somebody")
    address = own.replace("user=postgres", f"user={name}")
    with Database(own) as owner:
        owner.init()
        store = host(address=address, tree="t")
        assert "database grant" in store.freshness().problem
        owner.grant(name, write=True)
        sync(store, ONE)
        owner.grant(name, write=False)
        with pytest.raises(DeniedError):
            sync(store, TWO)
        assert ids(store) == ["mail:send"]
        with pytest.raises(DatabaseError, match="does not exist"):
            owner.grant("nobody at all", write=False)


def test_what_is_not_an_address_is_refused_and_no_password_is_shown(tmp_path):
    for address in (
        "postgresql://me:s3cret@[h/db",
        "host=h password=s3cret nonsense",
    ):
        with pytest.raises(AddressError) as refused:
            Database(address)
        assert "s3cret" not in str(refused.value)
    for address in ("postgresql://me:s3cr@et@h/db", "postgresql://me:s3cret@h@i/db"):
        with pytest.raises(AddressError, match="%40") as refused:
            Database(address)
        assert "et@" not in str(refused.value)
    # A slash in a password ends what is read as the host's port.
    for address in (f"host={tmp_path} password=s3cret", "postgresql://me:s3cret/s3cret@h/db"):
        with Database(address) as away, pytest.raises(UnreachableStoreError) as lost:
            away.init()
        assert "s3cret" not in str(lost.value)
    with pytest.raises(DatabaseError, match="closed"):
        away.status()
