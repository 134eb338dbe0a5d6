"""Checking an index, and rebuilding it."""

from array import array
from contextlib import suppress

import apsw
import pytest
import sqlite_vec
from toolindex import DamagedDatabaseError, ToolFilter, ToolIndex
from toolscan import scan

MODEL = "test-model"


@pytest.fixture
def index(tmp_path):
    """An index of three tools with vectors, and a record of one search."""
    for number, name in enumerate(("send", "read", "merge")):
        file = tmp_path / "tools" / "mcptools" / "mail" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'def run():\n    "{name.title()} mail {number}."\n')
    with ToolIndex(tmp_path / "index.db") as index:
        index.sync(scan(tmp_path / "tools"), reader_version="1")
        texts = index.pending(MODEL, limit=10)
        index.put_vectors(MODEL, {hash_: [1.0, float(n)] for n, hash_ in enumerate(texts)})
        yield index


@pytest.fixture
def change(index):
    """Run a statement directly on the database, as no program should."""

    def run(sql):
        connection = apsw.Connection(str(index.path))
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.execute("ATTACH ? AS kept", (str(ToolIndex.files(index.path).durable),))
        connection.execute(sql)
        connection.close()

    return run


def vectors(index):
    with index.reading() as reader:
        return reader.coverage(MODEL).vectors


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("INSERT INTO entries_vec (rowid, embedding) VALUES (77, zeroblob(8))",
         "1 vectors belong to no tool"),
        ("DELETE FROM entries_vec WHERE rowid = 1", "1 tools have no stored vector"),
        ("UPDATE embeddings SET vector = zeroblob(8)", "3 tools have a different vector"),
        ("INSERT INTO entries_fts (entries_fts, rowid, name_words) VALUES ('delete', 1, 'x')",
         "full-text table"),
        ("INSERT INTO entries_fts (rowid, name_words) VALUES (99, 'nobody')", "full-text table"),
    ],
)  # fmt: skip
def test_inconsistencies_are_reported_and_repaired(index, change, sql, told):
    change(sql)
    before = index.check()

    index.rebuild(forget=MODEL if "UPDATE" in sql else None)

    assert any(told in problem for problem in before)
    assert index.check() == ()


def test_after_a_rebuild_every_file_is_read_again(index):
    index.rebuild()

    assert index.stored(reader_version="1").stamps == {}


def test_forgotten_vectors_stay_in_use_until_they_are_replaced_one_by_one(index):
    texts = list(index.pending("other", limit=10))
    index.query_vectors.put(MODEL, {"a query": [1.0, 1.0]})
    index.rebuild(forget=MODEL)

    for number, text_hash in enumerate(texts):
        assert index.count_pending(MODEL) == 3 - number
        assert index.prune() == 0
        assert vectors(index) == 3
        assert index.query_vectors.get(MODEL, "a query") is not None
        index.put_vectors(MODEL, {text_hash: [0.0, 1.0]})
        # As after a kill: the next process finds what is left to do.
        with ToolIndex(index.path) as other:
            assert other.count_pending(MODEL) == 2 - number

    index.prune()
    assert index.query_vectors.get(MODEL, "a query") is None, "the model returns different ones now"
    assert (index.count_pending(MODEL), vectors(index), index.check()) == (0, 3, ())


def test_vectors_are_replaced_even_if_the_clock_was_set_back(index, change):
    change("UPDATE embeddings SET stored_at = stored_at + 1e9")

    index.rebuild(forget=MODEL)
    index.put_vectors(MODEL, {text: [0.0, 1.0] for text in index.pending(MODEL, limit=10)})

    assert index.pending(MODEL, limit=10) == {}


def test_checking_a_damaged_file_raises_a_damage_error(index):
    with index.reading() as reader:
        assert reader.ids(ToolFilter())
    size = index.path.stat().st_size
    apsw.Connection(str(index.path)).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with index.path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))

    with pytest.raises(DamagedDatabaseError):
        index.check()


SEND = "WHERE id = 'mcptools:mail:send'"
UNREADABLE = {
    **{
        f"{column} = {value}": f"UPDATE entries SET {column} = {value} {SEND}"
        for column, value in [
            *(("parameters", it) for it in ("'{'", "'5'", "'[1]'", "'[{}]'", "x'ff'")),
            ("parameters", """'[{"name": 5, "annotation": "", "required": true}]'"""),
            ("parameters", "replace(hex(zeroblob(50000)), '00', '[')"),
            *(("tags", it) for it in ("'['", "'7'", "'[1]'", "'{}'")),
            *(("aliases", it) for it in ("''", "'[1]'")),
            *(("id", it) for it in ("'send'", "x'ff'", "5", "'mcptools:mail:sent'", "char(0)")),
            *(("path", it) for it in ("x'ff'", "CAST(x'ff41' AS TEXT)")),
            *(("description", it) for it in ("x'ff'", "CAST(x'ff41' AS TEXT)")),
            *((it, "x'ff'") for it in ("source", "category", "name", "summary", "signature")),
            *((it, "x'ff'") for it in ("file_hash", "text_hash", "name_key", "tag_words")),
            *((it, "'soon'") for it in ("indexed_at", "size", "mtime_ns", "inode")),
        ]
    },
    **{
        f"vector {value}": f"UPDATE embeddings SET vector = {value} WHERE rowid = 1"
        for value in ("x''", "x'0102'", "'abc'", "7", "zeroblob(8)", "x'0000c07f00000000'")
    },
    "the table of a model": "UPDATE models SET vec_table = 'gone'",
    "the name of a table": "UPDATE models SET vec_table = x'ff'",
    "the length of vectors": "UPDATE models SET dimensions = 'x'",
}


@pytest.mark.parametrize("sql", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_row_is_damage_that_a_check_finds_and_a_rebuild_repairs(
    index, change, tmp_path, sql
):
    everything = ToolFilter()

    def contents():
        with index.reading() as reader:
            ids = reader.ids(everything)
            return reader.entries(ids), reader.categories(everything), reader.vectors(MODEL)

    def fill():
        known = index.stored(reader_version="1")
        scanned = scan(tmp_path / "tools", known=known.stamps, hashes=known.hashes)
        index.sync(scanned, reader_version="1")
        texts = index.pending(MODEL, limit=10)
        index.put_vectors(MODEL, {it: vectors_by_text[it] for it in texts})
        index.use_model(MODEL)

    before = contents()
    with index.reading() as reader:
        vectors_by_text = {
            text: array("f", vector)
            for text, vector in reader.connection.execute(
                "SELECT text_hash, vector FROM embeddings"
            )
        }
    change(sql)

    # A reader never gets another error than that of damage.
    with suppress(DamagedDatabaseError):
        contents()
    try:
        if index.check():
            index.rebuild()
        fill()
    except DamagedDatabaseError:
        index.quarantine()
        fill()

    assert index.check() == ()
    assert contents() == before
