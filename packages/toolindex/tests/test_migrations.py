"""Databases of older versions: brought up to date when they are opened, and nothing is lost."""

import json
import struct
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import sqlite_vec
from toolindex import Coverage, DatabaseError, ToolIndex
from toolscan import FileStamp, ScanReport

SCHEMAS = Path(__file__).parent / "schemas"
VERSIONS = sorted(int(file.stem) for file in SCHEMAS.glob("*.sql"))
SEND = ("mcptools:mail:send", "mcptools/mail/send.py")
READ = ("mcptools:mail:read", "mcptools/mail/read.py")
STAMP = {"size": 1, "mtime_ns": 2, "ctime_ns": 3, "inode": 4}


@pytest.fixture(params=VERSIONS)
def old(request, path):
    """An index as an older version left it: two tools, of which one has a vector."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute((SCHEMAS / f"{request.param:04}.sql").read_text())
        connection.execute("PRAGMA application_id = 0x7079746C")
        connection.execute(f"PRAGMA user_version = {request.param}")
        WRITERS[request.param](connection)
    return path


def write_version_1(connection):
    stamps = [json.dumps(STAMP), json.dumps(STAMP | {"inode": 2**64 - 1})]
    for (id_, file), stamp in zip((SEND, READ), stamps, strict=True):
        source, category, name = id_.split(":")
        connection.execute(
            "INSERT INTO entries (id, source, category, name, path, signature, summary, "
            "description, parameters, tags, name_words, category_words, parameter_words, "
            "tag_words, file_hash, text_hash, stamp, indexed_at) VALUES (?, ?, ?, ?, ?, '', '', "
            "'Does something.', '[]', '[]', ?, ?, '', '', 'f', ?, ?, 0)",
            (id_, source, category, name, file, name, category, f"text of {name}", stamp),
        )
    vector = struct.pack("<2f", 1.0, 0.0)
    connection.execute("INSERT INTO embeddings VALUES ('text of send', 'm', ?)", (vector,))
    connection.execute("CREATE VIRTUAL TABLE entries_vec USING vec0 (embedding float[2])")
    connection.execute("INSERT INTO entries_vec (rowid, embedding) VALUES (1, ?)", (vector,))
    meta = {"model_id": "m", "dimensions": "2", "root": "/", "reader_version": "1"}
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())


WRITERS = {1: write_version_1}


def layout(path):
    """Give every table's columns and indexes, and every trigger, however they were made."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not name.startswith(("entries_vec", "sqlite_"))
        ]
        columns = {
            name: sorted(
                (column, type_, not_null, key)
                for _, column, type_, not_null, _, key in connection.execute(
                    "SELECT * FROM pragma_table_info(?)", (name,)
                )
            )
            for name in tables
        }
        others = connection.execute(
            "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger')"
        )
        return columns, sorted(others, key=str)


def test_every_version_before_this_one_is_tested(index):
    with index.reading() as reader:
        version = reader.connection.execute("PRAGMA user_version").get
    assert [*VERSIONS, version] == list(range(1, version + 1))


def test_an_older_index_ends_up_as_a_new_one(old, tmp_path):
    ToolIndex(old).close()
    ToolIndex(tmp_path / "new.db").close()
    assert layout(old) == layout(tmp_path / "new.db")


def test_what_an_older_version_indexed_is_still_there(old, contents, matches, check_sound):
    with ToolIndex(old) as index:
        assert contents(index) == dict.fromkeys((SEND[0], READ[0]), "Does something.")
        assert matches(index, "send") == {SEND[0]}
        # A stamp that was not kept exactly is not trusted.
        assert index.stored(reader_version="1").stamps == {SEND[1]: FileStamp(**STAMP)}
    check_sound(old)


def test_no_text_is_embedded_again_for_a_new_version(old, check_sound):
    with ToolIndex(old) as index:
        assert list(index.pending("m", limit=9)) == ["text of read"]
        assert index.use_model("m")
        with index.reading() as reader:
            assert reader.coverage("m") == Coverage(tools=2, vectors=1, dimensions=2)
    check_sound(old)


def test_a_migrated_index_goes_on_following_the_files(old, make_record, contents, check_sound):
    with ToolIndex(old) as index:
        index.use_model("m")
        index.sync(ScanReport(records=(make_record("mcptools:mail:send"),)), reader_version="1")
        assert list(contents(index)) == ["mcptools:mail:send"]
    check_sound(old)


def test_an_older_index_that_can_only_be_read_is_left_as_it_is(old):
    before = old.read_bytes()
    with pytest.raises(DatabaseError, match="older version; open it once"):
        ToolIndex(old, read_only=True)
    assert old.read_bytes() == before


def test_processes_that_open_an_older_index_at_once_all_get_the_new_one(old, start):
    program = "import sys; from toolindex import ToolIndex; ToolIndex(sys.argv[1]).close()"
    processes = [start(program, old) for _ in range(4)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    with ToolIndex(old) as index:
        assert len(index.stored(reader_version="1").entries) == 2


def test_a_migration_that_fails_leaves_the_older_index_whole(old, path):
    """Here because a table is in the way; the same holds for a kill and a full disk."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE outcomes (x)")
        version = connection.execute("PRAGMA user_version").get
    with pytest.raises(DatabaseError, match="already exists"):
        ToolIndex(path)
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("PRAGMA user_version").get == version
        connection.execute("DROP TABLE outcomes")
    with ToolIndex(path) as index:
        assert len(index.stored(reader_version="1").entries) == 2
