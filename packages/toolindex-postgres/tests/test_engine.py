"""Hosts without a copy: their results, what they fetch, and what survives failures."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event

import psycopg
import pytest
from toolindex import DamagedDatabaseError, DatabaseError, OutcomeRecord, ToolFilter
from toolindex_postgres import Database, EngineStore, UnreachableStoreError
from toolindex_postgres._connection import Connection
from toolindex_postgres._page_view import PageView

from .sqlite_store import SQLiteStore
from .trees import EVERY, MODEL, embed, ids, known, sync, vector

ONE = {"mail/send": "Send a message."}
TWO = ONE | {"mail/read": "Read messages from a mailbox."}
NOUNS = ["message", "mailbox", "file", "issue", "page", "invoice", "customer", "branch", "table"]
VERBS = ["send", "read", "create", "delete", "list", "merge", "archive", "refund", "translate"]
ODD = [
    "東京の天気を調べる",
    "café naïve",
    "snake_case_name",
    "HTTPServer2",
    "it's quoted",
    "\0",
    "🙂",
]

# One tree for each seed: the weekly job compares 300 requests after 1,050 changes.
SEEDS = [1, 2, 3] if int(os.environ.get("TEST_EXAMPLES", "0")) >= 100 else [1]


def misspelt(word, chance):
    place = chance.randrange(len(word))
    return word[:place] + chance.choice("aeiou") + word[place + 1 :]


def queries(chance, names):
    """Return 100 requests: plain, phrases, misspelt, cut short, names, and nonsense."""
    kinds = [
        lambda: f"{chance.choice(VERBS)} a {chance.choice(NOUNS)}",
        lambda: f'"{chance.choice(VERBS)} the {chance.choice(NOUNS)}" now',
        lambda: (
            f"{misspelt(chance.choice(VERBS), chance)} {misspelt(chance.choice(NOUNS), chance)}"
        ),
        lambda: f"{chance.choice(NOUNS)[:4]} {chance.choice(VERBS)}",
        lambda: chance.choice(names).replace("/", ":"),
        lambda: f"use {chance.choice(names).split('/')[1]} please",
        lambda: chance.choice(["", " ", "zzz qqq", '"', "AND OR NOT", "* ^ : ( )", *ODD]),
    ]
    return [chance.choice(kinds)() for _ in range(100)]


def answers(store, requests, filters):
    with store.reading() as reader:
        found = []
        for number, text in enumerate(requests):
            where = filters[number % len(filters)]
            hits = [
                *reader.lexical(text, where=where, depth=20),
                *reader.fuzzy(text, where=where, depth=20),
                *reader.named(text, where=where),
                *reader.nearest(vector(text), model_id=MODEL, where=where, depth=20),
            ]
            named = [hit.id for hit in hits]
            found.append(
                (
                    [(hit.id, hit.score) for hit in hits],
                    reader.corrections(text),
                    reader.terms(text, named),
                    reader.lexical_coverage(text, named),
                    reader.lexical_scale(text),
                )
            )
        return found


@pytest.mark.parametrize("seed", SEEDS)
def test_100_requests_have_equal_results_and_scores_after_350_changes(engine, host, tmp_path, seed):
    chance = random.Random(seed)
    writer, alone = engine(), SQLiteStore(tmp_path / "alone.db")
    names = [f"{noun}s/{verb}_{noun}" for noun in NOUNS[: 6 + seed] for verb in VERBS]
    files = {}
    for _ in range(7):
        for name in chance.sample(names, 50):
            if name in files and chance.random() < 0.3:
                del files[name]
            else:
                words = chance.choices([*VERBS, *NOUNS, "the", "a"], k=chance.randrange(3, 30))
                files[name] = f"{' '.join(words)} {chance.choice(ODD[:4])}."
        for store in (writer, alone):
            sync(store, files)
        texts = sorted(alone.pending(MODEL, limit=40))
        for store in (writer, alone):
            store.put_vectors(MODEL, {it: vector(it) for it in texts})
    aliases = {f"mcptools:{chance.choice(names).replace('/', ':')}": ["a synonym", "東京"]}
    assert writer.annotate(aliases) == alone.annotate(aliases)
    requests = queries(chance, names)
    filters = [
        EVERY,
        ToolFilter(categories=[f"{NOUNS[0]}s", f"{NOUNS[1]}s"]),
        EVERY,
        ToolFilter(include=["*:*s:m*", "*_file"], exclude=["*:send*"]),
        ToolFilter(path_prefix=f"mcptools/{NOUNS[2]}s"),
        ToolFilter(min_success_rate=0.5, unknown="include"),
    ]
    expected = answers(alone, requests, filters)
    alone.close()
    assert sum(bool(it[0]) for it in expected) > 60
    # These are the host that wrote, one that only reads, and one with a copy.
    for store in (writer, engine(read_only=True), host()):
        assert answers(store, requests, filters) == expected


@pytest.fixture
def fetched(monkeypatch):
    """Return a list of how many pages each statement requests."""
    statements, get = [], PageView._get

    def counted(view, numbers):
        statements.append(len(numbers))
        return get(view, numbers)

    monkeypatch.setattr(PageView, "_get", counted)
    return statements


def many(number):
    chance = random.Random(1)
    return {
        f"mail/tool_{it}": f"Send. {' '.join(chance.choices(VERBS + NOUNS, k=900))}"
        for it in range(number)
    }


def test_the_rows_of_many_hits_are_fetched_together(engine, fetched):
    sync(engine(), many(150))
    asked = [f"mcptools:mail:tool_{it}" for it in range(150)]
    with engine(read_only=True).reading() as reader:
        fetched.clear()
        assert sorted(reader.entries(asked)) == sorted(asked)
    assert sum(fetched) > 50
    assert len(fetched) < 10


def test_the_first_search_of_a_process_does_not_fetch_the_history_of_the_pages(engine, monkeypatch):
    sync(engine(), ONE)
    statements, execute = [], Connection.execute

    def noted(connection, query, *arguments, **options):
        statements.append(query)
        return execute(connection, query, *arguments, **options)

    monkeypatch.setattr(Connection, "execute", noted)
    assert ids(engine(read_only=True)) == ["mail:send"]
    assert statements
    assert not [it for it in statements if "changed" in it]


def test_a_host_does_not_fetch_pages_that_it_has_written(engine, fetched):
    here, there = engine(), engine()
    sync(here, many(150))
    fetched.clear()
    embed(here)
    sync(here, many(151))
    expected = known(here, ["message"])
    assert fetched == []
    # Pages that another host writes are fetched.
    sync(there, ONE)
    assert ids(here) == ["mail:send"]
    assert known(here, ["message"]) == known(there, ["message"]) != expected


def test_hosts_with_and_without_a_copy_see_each_others_changes(engine, host):
    with_copy, without = host(), engine()
    sync(with_copy, ONE)
    assert ids(without) == ["mail:send"]
    embed(without)
    sync(without, TWO)
    assert known(with_copy, ["message"]) == known(without, ["message"])
    assert without.freshness().problem == ""


def test_a_reader_says_that_the_pages_are_older_than_the_tools(engine, host):
    sync(host(), ONE)
    reader = engine(read_only=True)
    assert ids(reader) == []
    assert "pages are older" in reader.freshness().problem
    assert ids(engine()) == ["mail:send"]
    assert ids(reader) == ["mail:send"]
    assert reader.freshness().problem == ""


def test_pages_that_a_change_leaves_unchanged_count_as_current(engine, host):
    with_copy, without, reader = host(), engine(), engine(read_only=True)
    for tools in ({}, ONE):
        sync(with_copy, tools)
        assert len(ids(without)) == len(tools)
        sync(with_copy, TWO)
        sync(with_copy, tools)
        assert len(ids(without)) == len(tools)
        assert reader.freshness().problem == ""
        assert ids(engine()) == ids(reader) == ids(without)


def test_a_role_that_may_only_read_a_tree_searches_it_and_no_other(server, database, engine, tree):
    sync(engine(), TWO)
    server.execute("DROP ROLE IF EXISTS engine_reader; CREATE ROLE engine_reader LOGIN")
    with Database(database) as owner:
        owner.grant("engine_reader", write=False, trees=[tree])
        mine = psycopg.conninfo.make_conninfo(database, user="engine_reader")
        assert ids(engine(address=mine)) == ["mail:read", "mail:send"]
        owner.grant("engine_reader", write=False, trees=["another"])
    assert ids(engine(address=mine, read_only=True)) == []
    with psycopg.connect(mine) as connection:
        for table in ("page", "image"):
            statement = f"SELECT count(*) FROM toolindex.{table}"
            assert connection.execute(statement).fetchone() == (0,)


def test_a_search_needs_only_one_connection_at_a_time(server, database, engine, host, tree):
    here = host()
    sync(here, ONE)
    ids(engine())
    server.execute(
        "DROP ROLE IF EXISTS engine_few; CREATE ROLE engine_few LOGIN CONNECTION LIMIT 1"
    )
    with Database(database) as owner:
        owner.grant("engine_few", write=False, trees=[tree])
    reader = engine(
        address=psycopg.conninfo.make_conninfo(database, user="engine_few"), read_only=True
    )
    assert ids(reader) == ["mail:send"]
    here.usage.record_outcomes([OutcomeRecord(at=1.0, tool_id="mcptools:mail:send", success=True)])
    only = ToolFilter(min_success_rate=0.5, min_observations=1, unknown="exclude")
    # A search fetches the outcomes of other hosts, and the next one uses them.
    for expected in ([], ["mcptools:mail:send"]):
        with reader.reading() as read:
            assert list(read.ids(only)) == expected


def test_a_read_keeps_its_state_while_others_write(engine):
    here, there = engine(), engine()
    sync(here, ONE)
    with there.reading() as reader:
        sync(here, TWO)
        assert [it.id for it in reader.lexical("message", where=EVERY, depth=9)] == [
            "mcptools:mail:send"
        ]
    assert len(ids(there)) == 2


def test_threads_that_sync_embed_and_annotate_at_once_do_not_deadlock(engine):
    here = engine()
    sync(here, ONE)

    def syncs():
        for number in range(12):
            sync(here, ONE if number % 2 else TWO)

    def embeds():
        for number in range(12):
            here.put_vectors(MODEL, {"hash": vector(str(number))})

    def annotates():
        for number in range(12):
            here.annotate({"mcptools:mail:send": [f"alias {number}"]})

    with ThreadPoolExecutor() as threads:
        works = [threads.submit(work) for work in (syncs, embeds, annotates)]
        for work in works:
            work.result()
    assert ids(here) == ["mail:send"]
    assert here.check() == ()


def test_a_search_does_not_wait_for_a_host_that_changes_the_pages(engine, host):
    pages = []
    here, there = engine(seen=pages), engine()
    sync(there, ONE)
    sync(host(), TWO)
    with ThreadPoolExecutor() as threads, pages[0].writing():
        assert threads.submit(ids, there).result(60) == ["mail:send"]
        assert "pages are older" in threads.submit(there.freshness).result(60).problem
    assert ids(there) == ids(here) == ["mail:read", "mail:send"]


def test_uncommitted_pages_are_never_read(engine, database, monkeypatch):
    here = engine()
    sync(here, ONE)
    embed(here)
    with psycopg.connect(database, autocommit=True) as connection:
        # The last statement of a transaction that changes pages.
        connection.execute(
            "CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'no room' USING ERRCODE = '53100'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON toolindex.image "
            "EXECUTE FUNCTION pg_temp.refuse()"
        )
        with pytest.raises(Exception, match="no room"):
            sync(here, TWO)
        connection.execute("DROP TRIGGER refuse ON toolindex.image")
    assert ids(here) == ids(engine()) == ["mail:send"]
    sync(here, TWO | {"mail/move": "Move a message."})
    assert ids(here) == ids(engine()) == ["mail:move", "mail:read", "mail:send"]
    assert here.check() == ()


def test_searches_fail_while_the_server_is_stopped_and_recover_afterwards(mortal, tmp_path):
    address = mortal.new_database()
    with Database(address) as made:
        made.init()
    with ExitStack() as stack:
        store = EngineStore(
            lambda pages: SQLiteStore(tmp_path / "local.db", pages=pages), address, tree="t"
        )
        stack.callback(store.close)
        sync(store, ONE)
        mortal.stop()
        with pytest.raises(UnreachableStoreError):
            ids(store)
        assert "cannot be reached" in store.freshness().problem
        mortal.start()
        assert store.freshness().problem == ""
        assert ids(store) == ["mail:send"]


@pytest.mark.parametrize("search", ["lexical", "fuzzy", "named"])
def test_a_search_whose_connection_is_ended_says_that_the_server_cannot_be_reached(
    engine, database, search
):
    sync(engine(), many(150))

    def interrupted():
        with engine(read_only=True).reading() as reader:
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'toolindex' AND state = 'idle in transaction' "
                    "AND datname = current_database()"
                )
            depth = {} if search == "named" else {"depth": 9}
            getattr(reader, search)("tool_1 message", where=EVERY, **depth)

    with pytest.raises(UnreachableStoreError, match="terminating connection"):
        interrupted()


def test_a_search_is_not_answered_without_a_page_that_the_server_refused(engine, monkeypatch):
    sync(engine(), many(150))

    def refused(view, numbers):
        view.connection.execute("SELECT 1 / 0")

    def searched():
        with engine(read_only=True).reading() as reader:
            monkeypatch.setattr(PageView, "_get", refused)
            # As rankers do if an index has no positions for phrases.
            with suppress(Exception):
                reader.lexical("message", where=EVERY, depth=9)

    with pytest.raises(DatabaseError, match="division by zero"):
        searched()


def test_concurrent_reads_and_writes_do_not_reset_the_page_cache(engine):
    pages = []
    here, there = engine(seen=pages), engine()
    sync(there, ONE)
    ids(here)
    known, is_done = pages[0].epoch, Event()

    def searches():
        while not is_done.is_set():
            with suppress(DatabaseError):
                assert "mail:send" in ids(here)

    with ThreadPoolExecutor() as threads:
        works = [threads.submit(searches) for _ in range(4)]
        for number in range(12):
            sync(there, ONE if number % 2 else TWO)
        is_done.set()
        for work in works:
            work.result()
    assert pages[0].epoch == known
    assert ids(here) == ["mail:send"]


def test_truncated_pages_are_zero_when_the_index_grows_again(engine):
    pages = []
    for _ in range(2):
        engine(seen=pages)
    here, there = pages
    full = bytes([1]) * 16_384
    with here.writing() as view:
        size = view.size()
        for number in range(size, size + 3):
            view.write(number, full)
    with there.reading() as view:
        assert view.read(size + 1) == full
    with here.writing() as view:
        view.cut(size + 1)
        view.write(size + 2, full)
        assert view.read(size + 1) == bytes(16_384)
    for each in pages:
        with each.reading() as view:
            assert view.size() == size + 3
            assert [any(view.read(size + it)) for it in range(3)] == [True, False, True]


def test_cached_pages_are_dropped_if_the_server_has_lost_its_last_changes(engine, database):
    here, other = engine(), engine()
    sync(here, ONE)
    with psycopg.connect(database, autocommit=True) as connection:
        saved = {
            table: connection.execute(f"SELECT * FROM toolindex.{table}").fetchall()
            for table in ("tree", "step", "entry", "tree_vector", "image", "page")
        }
        sync(here, TWO)
        assert len(ids(here)) == 2
        connection.execute("SET session_replication_role = replica")
        for table, rows in saved.items():
            connection.execute(f"DELETE FROM toolindex.{table}")
            with connection.cursor() as cursor:
                marks = ", ".join(["%s"] * len(rows[0])) if rows else ""
                override = " OVERRIDING SYSTEM VALUE" if table == "tree" else ""
                for row in rows:
                    cursor.execute(f"INSERT INTO toolindex.{table}{override} VALUES ({marks})", row)
    assert ids(here) == ["mail:send"]
    sync(other, ONE | {"mail/move": "Move a message."})
    assert ids(here) == ids(other) == ["mail:move", "mail:send"]
    assert known(here, ["message", "move"]) == known(other, ["message", "move"])


def test_a_sync_larger_than_the_page_cache_is_complete(engine):
    chance = random.Random(1)
    words = [f"{chance.choice(VERBS)}{number}" for number in range(20_000)]
    many = {f"mail/tool_{it}": " ".join(chance.choices(words, k=600)) for it in range(450)}
    here = engine()
    sync(here, many)
    sync(here, {name: text[:-40] for name, text in list(many.items())[:250]})
    assert len(ids(engine())) == 250
    assert here.check() == ()


def test_damaged_interior_pages_are_reported_as_damage(engine, database, tree):
    sync(engine(), ONE)
    with psycopg.connect(database) as connection:
        connection.execute(
            "UPDATE toolindex.page SET data = '\\x050000ffff'::bytea || substr(data, 6) "
            "WHERE n > 0 AND tree_id = (SELECT tree_id FROM toolindex.tree WHERE name = %s)",
            (tree,),
        )
    with pytest.raises(DamagedDatabaseError):
        ids(engine())
