"""Rows on the server that nobody can read: corrupt by a disk, by hand, or by another program."""

import json

import psycopg
import pytest
from toolindex import OutcomeRecord
from toolindex_postgres import Database
from toolindex_postgres._errors import UnreadableRowError

from .sqlite_store import SQLiteStore
from .trees import MODEL, READER, embed, ids, known, report, sync

TREE = {"mail/send": "Send a mail.", "mail/read": "Read a mail.", "pdf/merge": "Merge files."}
SEND, READ, MERGE = "mcptools:mail:send", "mcptools:mail:read", "mcptools:pdf:merge"
ALIASES = {SEND: ["post"], MERGE: ["join"]}
WORDS = ("mail", "files", "post", "join")


def merged(values):
    """Return an assignment that changes fields of the record."""
    return f"record = (record::jsonb || '{values}')::text"


# Of the row of `SEND`: what is set, and what is said about it.
RECORDS = {
    "no JSON": ("record = '{'", "its record is not JSON"),
    "truncated JSON": ("record = left(record, 80)", "its record is not JSON"),
    "deep JSON": ("record = repeat('[', 100000)", "its record is not JSON"),
    "a number too long": (f"record = '{'9' * 5_000}'", "its record is not JSON"),
    "an empty text": ("record = ''", "its record is not JSON"),
    "a list": ("record = '[]'", "its record is not an object"),
    "null": ("record = 'null'", "its record is not an object"),
    "a missing key": ("record = replace(record, 'signature', 'line')", "'signature' is missing"),
    "another version": ("record = '{\"version\": 9}'", "is missing"),
    "a number for a text": (merged('{"description": 5}'), "'description' has the wrong type"),
    "a text for a list": (merged('{"tags": "tag"}'), "'tags' has the wrong type"),
    "a list of numbers": (merged('{"use_cases": [1]}'), "'use_cases' has the wrong type"),
    "a text for a truth": (merged('{"is_async": "no"}'), "'is_async' has the wrong type"),
    "parameters of another kind": (
        merged('{"parameters": {"to": 1}}'),
        "'parameters' has the wrong type",
    ),
    "a parameter that is too short": (
        merged('{"parameters": [["to"]]}'),
        "'annotation' is missing",
    ),
    "a parameter of another type": (
        merged('{"parameters": [["to", 1, 2]]}'),
        "'annotation' has the wrong type",
    ),
    "no id": (merged('{"id": "send"}'), "has 1 part"),
    "NUL in the id": (
        "record = replace(record, 'mail:send', 'mail:\\u0000send')",
        "contains the character",
    ),
    "the id of another tool": (
        "record = replace(record, 'mail:send', 'mail:sent')",
        "its record has a different id",
    ),
    "a key that is no id": ("id = 'send'", "its record has a different id"),
    "a key that cannot be decoded": ("id = '\\q'", "its record has a different id"),
    "a key with NUL": ("id = 'mcptools:mail:\\u0000'", "its record has a different id"),
    "another path": ("path = 'elsewhere.py'", "its record has a different path"),
    "a path that cannot be decoded": ("path = '\\u12'", "its record has a different path"),
    "another file hash": ("file_hash = ''", "its record has a different file_hash"),
    "another text hash": ("text_hash = 'ab'", "its record has a different text_hash"),
    "aliases that are no JSON": ("aliases = '['", "its aliases are not JSON"),
    "aliases of another type": ("aliases = '{\"a\": 1}'", "'aliases' has the wrong type"),
    "aliases that are numbers": ("aliases = '[1]'", "'aliases' has the wrong type"),
    "definitions that are no JSON": ("definitions = ''", "its definitions are not JSON"),
    "definitions of another type": ("definitions = '[]'", "'definitions' has the wrong type"),
}
# Of its vector.
VECTORS = {
    "an empty vector": ("v = ''", "it has 0 bytes, not 32"),
    "a truncated vector": ("v = substring(v FROM 1 FOR 13)", "it has 13 bytes, not 32"),
    "a short vector": ("v = substring(v FROM 1 FOR 16)", "it has 16 bytes, not 32"),
    "a long vector": ("v = v || v", "it has 64 bytes, not 32"),
    "NaN": (r"v = overlay(v PLACING '\x0000c07f' FROM 1)", "not finite"),
    "infinity": (r"v = overlay(v PLACING '\x0000807f' FROM 1)", "not finite"),
    "zeros": (r"v = decode(repeat('00', 32), 'hex')", "all zeros"),
    "another length": ("dimensions = 5", "it has 32 bytes, not 20"),
    "a negative length": ("dimensions = -8", "it has 32 bytes, not -32"),
    "a model that cannot be decoded": ("model = '\\q'", "its model cannot be decoded"),
}


@pytest.fixture
def spoil(database, tree):
    def run(table, change, where="true"):
        """Change rows of the test's tree, and let all hosts fetch all rows again."""
        with psycopg.connect(database) as connection:
            ((number,),) = connection.execute(
                "UPDATE toolindex.tree SET generation = generation + 1 WHERE name = %s "
                "RETURNING tree_id",
                (tree,),
            ).fetchall()
            connection.execute(
                f"UPDATE toolindex.{table} SET {change} "
                f"WHERE tree_id = {number} AND {where}".encode()
            )
            for statement in (
                "INSERT INTO toolindex.step SELECT tree_id, generation FROM toolindex.tree AS t",
                "UPDATE toolindex.entry AS e SET generation = t.generation FROM toolindex.tree t",
                "UPDATE toolindex.tree_vector AS e SET generation = t.generation "
                "FROM toolindex.tree AS t",
            ):
                also = "" if statement.startswith("INSERT") else " AND e.tree_id = t.tree_id"
                connection.execute(f"{statement} WHERE t.tree_id = {number}{also}".encode())

    return run


def fill(store):
    """Make a store equal to the files, as a host with the files does."""
    sync(store, TREE)
    store.annotate(ALIASES)
    embed(store)


def repair(store):
    """Repair a store as `index --check` and `index --rebuild` do."""
    store.rebuild()
    fill(store)


@pytest.fixture
def alone(tmp_path):
    """A store in a file with the same tools."""
    store = SQLiteStore(tmp_path / "alone.db")
    fill(store)
    yield store
    store.close()


CASES = [
    *(pytest.param("entry", *case, id=name) for name, case in RECORDS.items()),
    *(pytest.param("tree_vector", *case, id=name) for name, case in VECTORS.items()),
]


@pytest.mark.parametrize(("table", "change", "reason"), CASES)
def test_an_unreadable_row_is_left_out_with_its_reason_until_it_is_written_again(
    host, database, tree, alone, spoil, table, change, reason
):
    here, there = host(), host()
    fill(here)
    assert known(there) == known(alone)
    of_send = report(TREE).records[1]
    assert str(of_send.id) == SEND
    spoil(table, change, f"text_hash = '{of_send.text_hash}'")
    new = host(read_only=True)
    for store in (new, there):
        assert {"mail:read", "pdf:merge"} <= set(ids(store))
        known(store, WORDS)
    if not change.startswith("definitions"):
        # A copy has no definitions.
        assert reason in " ".join(new.freshness().left_out.values())
    assert reason in " ".join(here.check())
    with Database(database) as owner:
        assert reason in " ".join(owner.unreadable(tree).values())
    repair(here)
    assert here.check() == ()
    for store in (here, there, new, host()):
        assert known(store, WORDS) == known(alone, WORDS)
        assert not store.freshness().left_out
    assert [it.definitions for it in new.records([SEND])] == [of_send.definitions]
    with Database(database) as owner:
        assert not owner.unreadable(tree)


def test_a_scan_writes_a_left_out_tool_again(host, alone, spoil):
    here = host()
    fill(here)
    spoil("entry", "record = '{'", f"id = '{SEND}'")
    # A host with the files, and with a copy without the tool.
    writer = host()
    assert ids(writer) == ["mail:read", "pdf:merge"]
    fill(writer)
    assert not writer.freshness().left_out
    for store in (here, writer, host()):
        assert known(store, WORDS) == known(alone, WORDS)


def test_a_vector_that_only_a_copy_still_has_is_not_embedded_again(host, alone, spoil):
    here = host()
    fill(here)
    spoil("tree_vector", "v = ''")
    here.rebuild()
    sync(here, TREE)
    here.annotate(ALIASES)
    assert not here.pending(MODEL, limit=9)
    assert known(host(), WORDS) == known(alone, WORDS)


def test_rows_that_are_gone_or_were_removed_by_hand_are_written_again(host, alone, database, tree):
    here = host()
    fill(here)
    number = f"(SELECT tree_id FROM toolindex.tree WHERE name = '{tree}')"
    for statement in (
        f"UPDATE toolindex.entry SET record = NULL WHERE tree_id = {number} AND id = '{SEND}'",
        f"DELETE FROM toolindex.entry WHERE tree_id = {number} AND id = '{SEND}'",
    ):
        with psycopg.connect(database) as connection:
            connection.execute(statement.encode())
        assert here.check()
        repair(here)
        assert here.check() == ()
        assert known(host(), WORDS) == known(alone, WORDS)


def test_a_tool_whose_definitions_are_unreadable_is_refused_with_the_reason(host, spoil):
    here = host()
    fill(here)
    spoil("entry", "definitions = '{'", f"id = '{SEND}'")
    told = r"mcptools:mail:send cannot be read .its definitions are not JSON.; .* index --check"
    with pytest.raises(UnreadableRowError, match=told):
        here.records([SEND])
    assert len(here.records([READ])) == 1


@pytest.mark.parametrize(
    "change",
    [
        "reader_version = '\\q'",
        "reader_version = NULL",
        "is_complete = false",
        "generation = -5",
        "generation = 9223372036854775807",
        "generation = -9223372036854775808",
    ],
)
def test_a_corrupt_state_of_a_tree_is_replaced_by_the_next_scan(
    host, alone, database, tree, change
):
    here, there = host(), host()
    fill(here)
    assert known(there) == known(alone)
    with psycopg.connect(database) as connection:
        connection.execute(f"UPDATE toolindex.tree SET {change} WHERE name = %s".encode(), (tree,))
    for store in (here, there, host()):
        assert len(ids(store)) == 3
    for store in (here, there):
        sync(store, {**TREE, "mail/move": "Move a mail."})
        fill(store)
        assert store.stored(reader_version=READER).is_current
        assert store.stored(reader_version=READER).is_complete
    assert known(host(), WORDS) == known(there, WORDS) == known(alone, WORDS)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("entry", "generation = 9223372036854775807"),
        ("entry", "generation = -1, aliased = -1"),
        ("tree_vector", "generation = 9223372036854775807"),
        ("tree_vector", "generation = -1"),
    ],
)
def test_rows_of_impossible_states_are_fetched(host, alone, database, tree, table, change):
    here = host()
    fill(here)
    number = f"(SELECT tree_id FROM toolindex.tree WHERE name = '{tree}')"
    with psycopg.connect(database) as connection:
        connection.execute(
            f"UPDATE toolindex.{table} SET {change} WHERE tree_id = {number}".encode()
        )
    new = host()
    assert known(new, WORDS) == known(alone, WORDS)
    sync(here, {**TREE, "mail/move": "Move a mail."})
    fill(here)
    assert known(new, WORDS) == known(here, WORDS) == known(alone, WORDS)


@pytest.mark.parametrize(
    "change",
    [r"v = ''", r"v = '\x0102'", r"v = '\x0000c07f'", r"v = '\x00000000'", r"model = '\q'"],
)
def test_an_unreadable_vector_of_a_query_is_computed_again(host, database, tree, spoil, change):
    here = host()
    fill(here)
    here.query_vectors.put(MODEL, {"question": [1.0, 0.0]})
    spoil("query_vector", change)
    other = host()
    assert other.query_vectors.get(MODEL, "question") is None
    assert here.check()
    with Database(database) as owner:
        assert len(owner.unreadable(tree)) == 1
    other.query_vectors.put(MODEL, {"question": [1.0, 0.0]})
    repair(here)
    assert here.check() == ()
    assert list(host().query_vectors.get(MODEL, "question")) == [1.0, 0.0]


def outcome(at):
    return OutcomeRecord(at=at, tool_id=SEND, success=True)


@pytest.mark.parametrize(
    "change",
    [
        "at = 'NaN'",
        "at = '-Infinity'",
        "tool_id = '\\q'",
        "tool_id = NULL",
        "success = NULL",
        "latency_ms = 'NaN'",
        "search_id = '\\u12'",
        "search = 'no JSON'",
        "search = '[]'",
        "search = repeat('[', 5000)",
        "at = 'Infinity'",
        f"search = '{json.dumps({'id': 'a', 'at': 10**400})}'",
        f"search = '{json.dumps({'id': 'a', 'at': 'x'})}'",
    ],
)
def test_an_unreadable_event_is_left_out_of_the_record(host, spoil, change):
    here = host()
    fill(here)
    here.usage.record_outcomes([outcome(1.0), outcome(2.0)])
    assert here.freshness().waiting == 0
    spoil("event", change, "at = 1")
    assert host().usage.outcomes() == (outcome(2.0),)
    assert host().usage.searches() == ()
    assert len(ids(host())) == 3


def test_a_corrupt_counter_of_the_record_is_reported_and_repaired(host, spoil):
    here, there = host(), host()
    fill(here)
    here.usage.record_outcomes([outcome(1.0), outcome(2.0)])
    assert len(there.usage.outcomes()) == 2
    spoil("usage", "last = -7, outcome = -7")
    assert len(ids(there)) == 3
    assert "counters" in " ".join(here.check())
    repair(here)
    assert here.check() == ()
    here.usage.record_outcomes([outcome(3.0)])
    assert len(there.usage.outcomes()) == 3


def test_a_status_shows_names_that_cannot_be_decoded_as_they_are(host, server, tmp_path):
    address = server.new_database()
    with Database(address) as owner:
        owner.init()
        fill(host(address=address, tree="t"))
        with psycopg.connect(address) as connection:
            connection.execute("UPDATE toolindex.tree_vector SET model = '\\q'")
            connection.execute("UPDATE toolindex.tree SET name = '\\t\\q'")
        (shown,) = owner.status().trees
        assert shown.name == "\\t\\q"
        assert dict(shown.vectors) == {"\\q": 3}
