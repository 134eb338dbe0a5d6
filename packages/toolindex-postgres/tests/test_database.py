"""Tasks of the owner: schema, rights and status; and roles that are refused."""

import threading

import psycopg
import pytest
from toolindex import DatabaseError, NewerSchemaError, OutcomeRecord
from toolindex_postgres import Database, UnreachableStoreError
from toolindex_postgres._connections import Connection
from toolindex_postgres._errors import DeniedError, SchemaError

from .test_faults import until
from .trees import MODEL, ONE, TWO, embed, ids, known, sync


@pytest.fixture
def own(server):
    """The address of a new database without the schema."""
    return server.new_database()


@pytest.fixture
def owner(own):
    """The new database with the schema."""
    with Database(own) as made:
        made.init()
        yield made


@pytest.fixture
def role(server):
    """Make a role that may log in, and return its name."""
    made = []

    def make(name):
        server.execute(f'CREATE ROLE "{name}" LOGIN')
        made.append(name)
        return name

    return make


def test_concurrent_inits_create_the_schema_once(own):
    found, owners = [], [Database(own) for _ in range(3)]
    threads = [threading.Thread(target=lambda it=it: found.append(it.init())) for it in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 2, 2]
    for owner in owners:
        owner.close()


def test_status_reports_an_empty_database_and_each_tree(own, host):
    with Database(own) as owner:
        empty = owner.status()
        assert (empty.schema, empty.supported, empty.trees, empty.size) == (None, 2, (), 0)
        assert 13 <= int(empty.server.partition(".")[0]) <= 99
        owner.init()
        store = host(address=own, tree="my tools")
        sync(store, TWO)
        embed(store)
        status = owner.status()
        (tree,) = status.trees
        assert (tree.name, tree.entries, dict(tree.vectors)) == ("my tools", 2, {MODEL: 2})
        assert status.schema == 2
        assert status.size > 100_000
        assert owner.drop("my tools")
        assert owner.status().trees == ()


def test_dropping_a_tree_keeps_the_vectors_of_other_trees(owner, own, host):
    first, second = host(address=own, tree="first"), host(address=own, tree="second")
    sync(first, TWO)
    embed(first)
    sync(second, ONE)
    assert not second.pending(MODEL, limit=9)
    owner.drop("first")
    third = host(address=own, tree="third")
    sync(third, TWO)
    assert len(third.pending(MODEL, limit=9)) == 1


def test_vectors_are_reused_only_from_trees_that_the_role_may_write(owner, own, host, role):
    mine, stranger = (own.replace("user=postgres", f"user={role(it)}") for it in ("mine", "odd"))
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


def test_a_database_without_the_schema_is_refused_with_the_command_to_run(own, host, tmp_path):
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


def test_a_database_of_schema_1_is_used_as_it_is_until_its_owner_migrates_it(owner, own, host):
    # Pages for hosts without a copy, and a table of vectors for pgvector.
    old = """
        CREATE TABLE toolindex.page (tree_id int REFERENCES toolindex.tree, n int, data bytea);
        CREATE TABLE toolindex.image (tree_id int REFERENCES toolindex.tree, follows bigint);
        CREATE TABLE toolindex.near (tree_id int REFERENCES toolindex.tree, name text);
        CREATE TABLE toolindex.near_1 (text_hash text);
        CREATE SEQUENCE toolindex.near_number;
        CREATE FUNCTION toolindex.drop_near() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE format('DROP TABLE toolindex.%I', OLD.name); RETURN NULL; END $$;
        CREATE TRIGGER dropping AFTER DELETE ON toolindex.near
        FOR EACH ROW EXECUTE FUNCTION toolindex.drop_near();
        INSERT INTO toolindex.tree (name) VALUES ('t');
        INSERT INTO toolindex.page SELECT tree_id, 0, '' FROM toolindex.tree;
        INSERT INTO toolindex.near SELECT tree_id, 'near_1' FROM toolindex.tree;
        UPDATE toolindex.state SET version = 1;
    """
    with psycopg.connect(own) as connection:
        connection.execute(old)
    here, there = host(address=own, tree="t"), host(address=own, tree="t")
    sync(here, TWO)
    embed(here)
    assert known(there) == known(here)
    assert not there.freshness().problem
    assert owner.status().schema == 1
    assert owner.init() == 1
    assert known(there) == known(here)
    assert ids(there) == ["mail:read", "mail:send"]
    with psycopg.connect(own) as connection:
        left = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'toolindex'::regnamespace "
            "AND relname ~ 'near|page|image'"
        ).fetchall()
        assert left == []


def test_an_older_client_continues_to_search_but_cannot_write(owner, own, host, tmp_path):
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
        with pytest.raises(NewerSchemaError, match="schema 99, this version reads up to 2"):
            refused()
    assert owner.status().schema == 99


def test_a_role_can_only_read_and_write_its_own_trees(owner, own, server, host, role):
    writer, reader = role("the writer"), role("the reader")
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
        # A tree that a role may not read seems not to exist.
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
            # Nor does it learn what another role may do.
            asked = "SELECT toolindex.may(it, 'theirs', false), toolindex.trees(it, false) "
            rights = connection.execute(f"{asked} FROM (SELECT name 'postgres') AS it (it)")
            assert rights.fetchone() == (False, [])
            for table in ("entry", "tree_vector", "query_vector", "step"):
                rows = connection.execute(
                    f"SELECT count(*) FROM toolindex.{table} WHERE tree_id = 1"
                ).fetchone()
                assert rows == (0,), table
            for statement in (
                "SELECT * FROM toolindex.access",
                "UPDATE toolindex.state SET version = 3",
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
    assert {it.name: it.entries for it in owner.status().trees} == {"ours": 1, "theirs": 2}


def test_a_role_that_may_not_write_a_tree_cannot_block_its_writers(owner, own, host, role):
    owner.grant(role("ours"), write=True, trees=["ours"])
    owner.grant(role("theirs"), write=True, trees=["theirs"])
    owner.grant(role("looks"), write=False)
    purposes = "files", f"embed-{MODEL}"

    def turns(user):
        store = host(address=own.replace("user=postgres", f"user={user}"), tree="ours")
        return [store.lease(purpose) for purpose in purposes]

    for lease in turns("ours"):
        assert lease.acquire(timeout=0)
        lease.release()
    with (
        psycopg.connect(own, user="theirs") as theirs,
        psycopg.connect(own, user="looks") as looks,
    ):
        locking = "SELECT FROM toolindex.lease FOR UPDATE"
        assert not theirs.execute(locking).rowcount
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            theirs.execute("INSERT INTO toolindex.lease VALUES ('ours', '', 'other')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            looks.execute(locking)
        # They may begin work, but cannot store its results.
        held = turns("theirs") + turns("looks")
        assert all(it.acquire(timeout=0) for it in held)
        mine, others = turns("ours"), turns("ours")
        assert all(it.acquire(timeout=0) for it in mine)
        assert not any(it.acquire(timeout=0) for it in others)
        for it in mine + held:
            it.release()


def test_functions_in_other_schemas_of_the_database_are_never_called(owner, own, host):
    with psycopg.connect(own) as connection:
        # Before PostgreSQL 15, every role may create these, for others to run with their rights.
        connection.execute(
            "CREATE FUNCTION public.trap() RETURNS bigint LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'a trap'; END $$;"
            "CREATE FUNCTION public.trapped(bigint, text) RETURNS bigint "
            "LANGUAGE sql AS 'SELECT public.trap()';"
            "CREATE AGGREGATE public.count(text) "
            "(SFUNC = public.trapped, STYPE = bigint, INITCOND = '0');"
            "CREATE FUNCTION public.sum(float8, int) RETURNS float8 "
            "LANGUAGE sql AS 'SELECT public.trap()::float8';"
            "CREATE OPERATOR public.+ (LEFTARG = float8, RIGHTARG = int, FUNCTION = public.sum)"
        )
    store = host(address=own, tree="t")
    sync(store, ONE)
    embed(store)
    assert owner.status().trees[0].vectors == {MODEL: 1}
    with owner._connections.reading() as connection:
        assert connection.execute("SELECT 1::float8 + 0").fetchone() == (1.0,)
    assert owner._connections.ask("SELECT 1::float8 + 0") == (1.0,)


def test_no_statement_that_we_send_returns_data_of_another_tenant(
    owner, own, host, role, monkeypatch
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
            for table in ("tree", "step", "entry", "tree_vector", "usage", "event")
        }

    owner.grant(role("tenant"), write=True, trees=["ours"])
    secret = {"secret/plan": "The secret.", "secret/other": "Also secret."}
    noting(Connection)
    noting(psycopg.ClientCursor)
    store = host(address=own, tree="theirs")
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
    monkeypatch.undo()
    statements = {str(query): (query, params) for query, params in said}
    assert len(statements) > 20
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


def test_a_role_without_grants_is_refused_and_grants_are_replaced(owner, own, host, role):
    name = role("anyone")
    address = own.replace("user=postgres", f"user={name}")
    store = host(address=address, tree="t")
    assert "database grant" in store.freshness().problem
    owner.grant(name, write=True)
    sync(store, ONE)
    owner.grant(name, write=False)
    with pytest.raises(DeniedError):
        sync(store, TWO)
    assert ids(store) == ["mail:send"]
    for no_role in ("nobody at all", "public"):
        with pytest.raises(DatabaseError, match="does not exist"):
            owner.grant(no_role, write=False)
    for no_tree in ("", "*"):
        with pytest.raises(ValueError, match="not the name of a tree"):
            owner.grant(name, write=False, trees=["t", no_tree])


def test_a_refused_login_says_what_to_check(server, own, role):
    name = role("locked")
    hba = server.folder / "data" / "pg_hba.conf"
    before = hba.read_text()
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {name} PASSWORD 'right'")
        hba.write_text(f"local all {name} scram-sha-256\n{before}")
        try:
            connection.execute("SELECT pg_reload_conf()")
            rules = "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256'"
            assert connection.execute(rules).fetchone() == (1,)
            address = own.replace("user=postgres", f"user={name} password=wrong")

            def is_refused():
                with Database(address) as database:
                    try:
                        database.status()
                    except UnreachableStoreError as error:
                        return "check the user in the address, and its password" in str(error)
                return False

            until(is_refused, "the server asks for a password")
        finally:
            hba.write_text(before)
            connection.execute("SELECT pg_reload_conf()")
