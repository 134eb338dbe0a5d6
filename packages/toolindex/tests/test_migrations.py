"""Databases of other versions: older ones are brought up to date, and nothing is lost."""

import struct
from contextlib import closing

import apsw
import pytest
from toolindex import DamagedDatabaseError, DatabaseError, NewerSchemaError, ToolIndex
from toolindex._files import INDEX
from toolindex._opening import load_sqlite_vec, migrate

TOOL = {"mcptools:mail:send": "Send a message."}
NEXT, LAST = INDEX.version + 1, INDEX.version + 2
UNIT = struct.pack("<2f", 1.0, 0.0)
OF_DEVELOPMENT = 0x7079746C  # the application id of indexes from before the first release


@pytest.fixture
def old(path, fill):
    """An index with a tool, opened by a program whose schema is two versions newer."""
    with ToolIndex(path) as index:
        fill(index, TOOL)
    with closing(apsw.Connection(str(path))) as connection:
        yield connection


@pytest.fixture
def later(tmp_path):
    """Return that program's definition of the index, from the statements of its last step."""

    def make(last_step):
        (tmp_path / f"{NEXT:04}.sql").write_text("ALTER TABLE models ADD COLUMN price REAL")
        (tmp_path / f"{LAST:04}.sql").write_text(last_step)
        return INDEX._replace(version=LAST, steps=str(tmp_path))

    return make


def state(connection):
    columns = connection.execute("SELECT name FROM pragma_table_info('models')").fetchall()
    version = connection.execute("PRAGMA user_version").get
    return version, [name for (name,) in columns if name in {"price", "name"}]


def test_an_older_index_is_brought_up_to_date_step_by_step(old, path, later, contents):
    migrate(old, path, later("ALTER TABLE models ADD COLUMN name TEXT"), read_only=False)
    assert state(old) == (LAST, ["price", "name"])
    assert old.execute("SELECT id FROM entries").get == "mcptools:mail:send"


def test_a_step_that_fails_keeps_the_previous_version(old, path, later):
    broken = later("ALTER TABLE models ADD COLUMN name TEXT; DROP TABLE nothing")
    with pytest.raises(DamagedDatabaseError):
        migrate(old, path, broken, read_only=False)
    assert state(old) == (NEXT, ["price"])


def test_a_read_only_index_of_an_older_version_is_left_unchanged(old, path, later):
    with pytest.raises(DatabaseError, match="older version; open it once"):
        migrate(old, path, later(""), read_only=True)
    assert state(old) == (INDEX.version, [])


def test_an_index_that_a_newer_process_has_just_migrated_is_refused(path):
    """It does so between the check of the file's owner and the check of its version."""
    ToolIndex(path).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA user_version = {INDEX.version + 1}")
        with pytest.raises(NewerSchemaError) as caught:
            migrate(connection, path, read_only=False)
    assert (caught.value.found, caught.value.supported) == (INDEX.version + 1, INDEX.version)


@pytest.mark.parametrize("version", [-1, 0])
def test_an_impossible_schema_version_is_damage(path, version):
    ToolIndex(path).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with ToolIndex(path) as index:
        assert index.damaged is not None


def test_an_index_of_a_development_version_is_set_aside_and_its_vectors_are_kept(
    old, path, durable
):
    old.execute("ATTACH ? AS kept", (str(durable),))
    old.execute("INSERT INTO embeddings VALUES (1, 'text', 'm', 0, ?)", (UNIT,))
    old.execute("INSERT INTO outcomes (at, tool_id, success) VALUES (1, 'mcptools:mail:send', 1)")
    old.execute(f"PRAGMA main.application_id = {OF_DEVELOPMENT}")
    old.execute("PRAGMA main.user_version = 6")
    old.close()

    with pytest.raises(DatabaseError, match="it will be renamed and rebuilt"):
        ToolIndex(path, read_only=True)
    with ToolIndex(path) as index:
        assert index.damaged is not None
        assert index.use_model("m")
        assert index.usage.of_tool("mcptools:mail:send").observations == 1


def test_the_vectors_of_version_1_are_found_without_being_embedded_again(path, fill, contents):
    with ToolIndex(path) as index:
        fill(index, TOOL | {"mcptools:mail:read": "Read mail."}, model_id="m")
        before = contents(index)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DROP TABLE vector_rows; ALTER TABLE models DROP COLUMN written")
        connection.execute("DELETE FROM meta WHERE key = 'numbered'")
        connection.execute("PRAGMA user_version = 1")
    with ToolIndex(path) as index:
        with index.reading() as reader:
            assert reader.coverage("m").vectors == 2
            table = reader.vector_table("m")
            assert table is not None
            assert len(reader.connection.execute(table.versions).fetchall()) == 2
        assert contents(index) == before
        assert index.count_pending("m") == 0
        assert index.check() == ()
        fill(index, TOOL)
        with index.reading() as reader:
            assert reader.coverage("m").vectors == 1


def test_a_process_of_version_1_may_still_write_after_the_migration(path, fill, check_sound):
    """It does not record the rows of vector tables."""
    with ToolIndex(path) as index:
        fill(index, TOOL | {"mcptools:mail:read": "Read mail."}, model_id="m")
        with index.reading() as reader:
            before = reader.state_of("m")
        hashes = {it: [9.0, 1.0, 1.0, 1.0] for it in index.text_hashes(["mcptools:mail:send"])}
        with closing(apsw.Connection(str(path))) as connection:
            load_sqlite_vec(connection)
            rows = connection.execute("SELECT rowid FROM entries ORDER BY id").fetchall()
            connection.execute("DELETE FROM entries_vec WHERE rowid = ?", rows[0])
            connection.execute("DELETE FROM vector_rows WHERE entry = ?", rows[1])
            connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
        index.put_vectors("m", hashes)
        with index.reading() as reader:
            assert reader.coverage("m").vectors == 1
            assert reader.state_of("m") != before
        fill(index, TOOL, model_id="m")
    check_sound(path)


def test_an_older_index_says_so_where_it_cannot_be_written(path, fill, read_only_view):
    with ToolIndex(path) as index:
        fill(index, TOOL)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA user_version = 1")
    with read_only_view(path.parent) as folder:
        for read_only in (False, True):
            with pytest.raises(DatabaseError, match="older version; open it once"):
                ToolIndex(folder / path.name, read_only=read_only)
