"""Databases of older versions: brought up to date when they are opened, and nothing is lost."""

import hashlib
import json
import random
import shutil
import signal
import struct
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import sqlite_vec
from toolindex import Coverage, DatabaseError, NewerSchemaError, OutcomeRecord, ToolIndex
from toolindex._migrations import SCHEMA_VERSION, migrate
from toolindex._opening import make_kept
from toolindex._pairing import move_out
from toolindex._rows import row_values
from toolscan import FileStamp, Parameter, ScanReport

SCHEMAS = Path(__file__).parent / "schemas"
VERSIONS = sorted(int(file.stem) for file in SCHEMAS.glob("*.sql"))
SEND = ("mcptools:mail:send", "mcptools/mail/send.py")
READ = ("mcptools:mail:read", "mcptools/mail/read.py")
STAMP = {"size": 1, "mtime_ns": 2, "ctime_ns": 3, "inode": 4}
UNIT = struct.pack("<2f", 1.0, 0.0)
QUERY = hashlib.sha256(b"send a mail").hexdigest()
# How many columns `entries` has in each version.
COLUMNS = {1: 19, 2: 22, 3: 25, 4: 27, 5: 27, 6: 27}
ODD_RECORDS = (
    ("mcptools:mail:createHTTPMessage2", "Send it."),
    ("mcptools:メール:送信する", "メールを送信します。ส่งข้อความ"),
    ("gentools:größe:Ⅷ_ﬁle", "\u304b\u3099 to be composed"),
)


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


def write_tools(connection, stamps):
    shared = {
        "signature": "",
        "summary": "",
        "description": "Does something.",
        "parameters": "[]",
        "parameter_words": "",
        "file_hash": "f",
        "indexed_at": 0,
    }
    tags = ({"tags": '["メール"]', "tag_words": "メール"}, {"tags": "[]", "tag_words": ""})
    for (id_, file), stamp, own in zip((SEND, READ), stamps, tags, strict=True):
        source, category, name = id_.split(":")
        place = {"id": id_, "source": source, "category": category, "name": name, "path": file}
        words = {"name_words": name, "category_words": category, "text_hash": f"text of {name}"}
        insert(connection, "entries", shared | place | words | own | stamp)
    insert(connection, "embeddings", {"text_hash": "text of send", "model_id": "m", "vector": UNIT})


def insert(connection, table, values):
    marks = ", ".join(f":{column}" for column in values)
    connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", values)


def write_version_1(connection):
    stamps = (json.dumps(STAMP), json.dumps(STAMP | {"inode": 2**64 - 1}))
    write_tools(connection, [{"stamp": stamp} for stamp in stamps])
    connection.execute("CREATE VIRTUAL TABLE entries_vec USING vec0 (embedding float[2])")
    connection.execute("INSERT INTO entries_vec (rowid, embedding) VALUES (1, ?)", (UNIT,))
    meta = {"model_id": "m", "dimensions": "2", "root": "/", "reader_version": "1"}
    meta["generation"] = "7"
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())


def write_version_2(connection):
    write_tools(connection, [STAMP, dict.fromkeys(STAMP)])
    connection.execute(
        "CREATE VIRTUAL TABLE entries_vec USING vec0 "
        "(embedding float[2] distance_metric=cosine, chunk_size=256)"
    )
    connection.execute("INSERT INTO entries_vec (rowid, embedding) VALUES (1, ?)", (UNIT,))
    connection.execute("INSERT INTO models VALUES ('m', 2, 'entries_vec', 0)")
    meta = {"root": "/", "reader_version": "1"}
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())


def write_version_3(connection):
    segments = ("メー ール", "")
    keys = ("send", "read")
    write_tools(
        connection,
        [
            stamp | {"segments": pairs, "name_key": key, "qualified_key": f"mail{key}"}
            for stamp, pairs, key in zip((STAMP, dict.fromkeys(STAMP)), segments, keys, strict=True)
        ],
    )
    connection.execute(
        "CREATE VIRTUAL TABLE entries_vec USING vec0 "
        "(embedding float[2] distance_metric=cosine, chunk_size=256)"
    )
    connection.execute("INSERT INTO entries_vec (rowid, embedding) VALUES (1, ?)", (UNIT,))
    connection.execute("INSERT INTO models VALUES ('m', 2, 'entries_vec', 0)")
    search = ("s", 1.0, "send", "hybrid", "{}", json.dumps([SEND[0]]), 1.0, "[]")
    connection.execute(
        "INSERT INTO searches (id, at, query, mode, parameters, results, latency_ms, degraded) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        search,
    )
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)", {"root": "/", "reader_version": "1"}.items()
    )


def write_version_4(connection):
    write_version_3(connection)
    refusal = {"model_id": "m", "text_hash": "text of read", "reason": "too odd", "at": 1e9}
    insert(connection, "refusals", refusal)


def write_version_5(connection):
    write_version_4(connection)
    outcome = (1.0, SEND[0], 1, 2.0, "s")
    connection.executemany(
        "INSERT INTO outcomes (at, tool_id, success, latency_ms, search_id) VALUES (?, ?, ?, ?, ?)",
        [outcome] * 3,
    )
    connection.execute("INSERT INTO query_embeddings VALUES ('m', ?, 1.0, ?)", (QUERY, UNIT))
    connection.execute("INSERT INTO meta VALUES ('usage_generation', '3')")


WRITERS = {
    1: write_version_1,
    2: write_version_2,
    3: write_version_3,
    4: write_version_4,
    5: write_version_5,
}


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
            "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') "
            "AND tbl_name NOT LIKE 'entries_vec%'"
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


def test_what_is_written_without_spaces_is_found_in_an_older_index(old, matches):
    with ToolIndex(old) as index:
        assert matches(index, 'segments: "ール"') == {SEND[0]}


@pytest.mark.parametrize("old", [2], indirect=True)
def test_an_older_index_holds_what_a_new_one_would_hold(old, tmp_path, make_record):
    parameter = Parameter(name="x", annotation="", required=True, description="宛先", alias="件名")
    records = [
        make_record(id_, text, tags=("送信", "mail"), parameters=(parameter,))
        for id_, text in ODD_RECORDS
    ]
    with closing(apsw.Connection(str(old))) as connection:
        connection.execute("DELETE FROM entries")
        known = [row[1] for row in connection.execute("SELECT * FROM pragma_table_info('entries')")]
        for record in records:
            values = row_values(record)
            insert(connection, "entries", {key: values[key] for key in known if key in values})
    with ToolIndex(old) as migrated, ToolIndex(tmp_path / "new.db") as new:
        new.sync(ScanReport(records=tuple(records)), reader_version="1")
        assert rows_of(migrated) == rows_of(new)


def rows_of(index):
    """Give all that an index holds of the tools."""
    with index.reading() as reader:
        cursor = reader.connection.execute("SELECT * FROM entries")
        names = [name for name, _ in cursor.get_description()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    own = ("rowid", "indexed_at")
    return {row["id"]: {k: v for k, v in row.items() if k not in own} for row in rows}


def test_an_older_index_can_be_given_aliases(old, matches, check_sound):
    with ToolIndex(old) as index:
        assert index.annotate({SEND[0]: ["carrier pigeon"], "gone": ["pigeon"]}) == 1
        assert matches(index, "alias_words: pigeons") == {SEND[0]}
    check_sound(old)


@pytest.mark.parametrize("old", [3, 4, 5], indirect=True)
def test_the_usage_record_of_an_older_index_is_kept(old):
    with ToolIndex(old) as index:
        assert index.usage.statistics().searches == 1


@pytest.mark.parametrize("old", [5], indirect=True)
def test_all_that_an_index_of_one_file_kept_is_in_the_second(old):
    check_kept(old)
    # Where an index is removed and an older one put back, what it has is added.
    check_kept(old)
    before = old.read_bytes()
    with ToolIndex(old) as index:
        index.usage.record_outcomes([OutcomeRecord(at=2.0, tool_id=SEND[0], success=False)])
    old.unlink()
    old.write_bytes(before)
    with ToolIndex(old) as index:
        assert index.usage.of_tool(SEND[0]).observations == 4


def test_vectors_in_use_of_an_older_index_outlive_the_file_beside_it(old, kept):
    with ToolIndex(old) as index:
        assert index.use_model("m")
    kept.unlink()
    with ToolIndex(old) as index:
        assert list(index.pending("m", limit=9)) == ["text of read"]


@pytest.mark.parametrize("old", [5], indirect=True)
def test_outcomes_of_one_tool_are_moved_in_a_time_that_grows_with_their_number(old, tmp_path):
    def steps(count):
        with closing(apsw.Connection(":memory:")) as connection:
            taken = 0

            def step():
                nonlocal taken
                taken += 1
                return False

            connection.execute((SCHEMAS / "0005.sql").read_text())
            make_kept(tmp_path / f"{count}.db").close()
            connection.execute("ATTACH ? AS kept", (str(tmp_path / f"{count}.db"),))
            connection.executemany(
                "INSERT INTO main.outcomes (at, tool_id, success) VALUES (?, 'tool', 1)",
                ((float(at),) for at in range(count)),
            )
            connection.set_progress_handler(step, 100)
            while move_out(connection):
                pass
            return taken

    assert steps(800) < 6 * steps(200)


def check_kept(path):
    with ToolIndex(path) as index:
        assert index.usage.of_tool(SEND[0]).observations == 3
        assert index.usage.statistics().first_accepted == 1
        assert list(index.query_vectors.get("m", "send a mail")) == [1.0, 0.0]
        with index.reading() as reader:
            kept = reader.connection.execute(
                "SELECT text_hash, model_id, vector FROM embeddings"
            ).fetchall()
            refused = reader.connection.execute(
                "SELECT model_id, text_hash, reason FROM refusals"
            ).fetchall()
        assert kept == [("text of send", "m", UNIT)]
        assert refused == [("m", "text of read", "too odd")]


@pytest.mark.parametrize("broken", ["{", "[1]", '["a"]', '[{"alias": 1}]', "\udcff"])
@pytest.mark.parametrize("old", [2], indirect=True)
def test_an_older_index_whose_values_cannot_be_read_is_set_aside(old, broken):
    with closing(apsw.Connection(str(old))) as connection:
        value = broken.encode(errors="surrogateescape")
        connection.execute("UPDATE entries SET parameters = CAST(? AS TEXT)", (value,))
    with ToolIndex(old) as index:
        assert index.damaged is not None
        assert index.use_model("m")


def test_a_connection_that_is_lent_has_none_of_the_functions_of_a_migration(old):
    with ToolIndex(old) as index:
        for call in ("name_key('x')", "segments('', '', '[]', '', '[]')"):
            with (
                pytest.raises(DatabaseError, match="no such function"),
                index.reading() as reader,
            ):
                reader.connection.execute(f"SELECT {call}")


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


IN_THE_WAY = {
    1: "CREATE TABLE outcomes (x)",
    2: "CREATE TABLE entries_3 (x)",
    3: "ALTER TABLE entries ADD COLUMN aliases",
    4: "ALTER TABLE refusals ADD COLUMN times",
    5: "DROP TABLE outcomes",
}


def test_an_older_index_that_is_not_what_it_should_be_is_set_aside(old, path):
    """Here because something is in the way; its vectors are taken over."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(IN_THE_WAY[connection.execute("PRAGMA user_version").get])
    with ToolIndex(path) as index:
        assert index.damaged is not None
        assert index.stored(reader_version="1").entries == {}
        assert index.use_model("m")


@pytest.mark.parametrize("version", [-1, 0, 1])
def test_a_version_that_cannot_be_true_is_damage(path, version):
    ToolIndex(path).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with ToolIndex(path) as index:
        assert index.damaged is not None


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process so")
@pytest.mark.parametrize("share", [random.Random(seed).random() for seed in range(6)])
def test_a_migration_that_is_killed_is_done_by_the_next_opening(
    old, start, tmp_path, contents, check_sound, share
):
    """Killed by itself before one of its statements, at any share of the way."""
    program = """
import apsw, os, signal, sys
from toolindex import ToolIndex
path, last = sys.argv[1], int(sys.argv[2])
count = 0
def trace(connection, sql, bindings):
    global count
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(trace))
ToolIndex(path).close()
print(count)
"""
    copy = tmp_path / "copy.db"
    copy.write_bytes(old.read_bytes())
    count, _ = start(program, copy, 0).communicate(timeout=60)
    killed = start(program, old, 1 + int(share * int(count)))
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    check_whole(old)
    with ToolIndex(old) as index:
        assert contents(index) == dict.fromkeys((SEND[0], READ[0]), "Does something.")
    check_sound(old)
    assert layout(old) == layout(copy)


def check_whole(path):
    """Check that a database is of one version, whichever."""
    with closing(apsw.Connection(str(path))) as connection:
        version = connection.execute("PRAGMA user_version").get
        columns = connection.execute("SELECT count(*) FROM pragma_table_info('entries')").get
    assert columns == COLUMNS[version]


def test_a_migration_can_be_cut_off_before_each_of_its_statements(
    old, tmp_path, contents, check_sound
):
    """What lies on the disk at that moment is what a kill would leave there."""
    cuts = []

    def keep(*_):
        cut = tmp_path / f"cut_{len(cuts)}"
        cut.mkdir()
        for file in old.parent.glob(f"{old.name}*"):
            if file.is_file() and not file.name.endswith("-shm"):
                shutil.copy(file, cut)
        cuts.append(cut / old.name)
        return True

    def hook(connection):
        # A cache of no size puts what is not yet committed on the disk too.
        connection.execute("PRAGMA cache_size = 1")
        connection.set_exec_trace(keep)

    apsw.connection_hooks.append(hook)
    try:
        ToolIndex(old).close()
    finally:
        apsw.connection_hooks.remove(hook)
    assert len(cuts) > 15
    for cut in cuts:
        check_whole(cut)
        with ToolIndex(cut) as index:
            assert index.damaged is None
            assert contents(index) == dict.fromkeys((SEND[0], READ[0]), "Does something.")
        check_sound(cut)
        assert layout(cut) == layout(old)


# Version 5 needs no room: a column more is a line in the schema. Version 6 frees some.
@pytest.mark.parametrize("old", [1, 2, 3], indirect=True)
def test_an_index_that_has_no_room_for_a_step_stays_as_it_was(old):
    with closing(apsw.Connection(str(old))) as connection:
        version = connection.execute("PRAGMA user_version").get
        pages = connection.execute("PRAGMA page_count").get
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(apsw.FullError):
            migrate(connection, old, read_only=False)
        assert not connection.in_transaction
        assert connection.execute("PRAGMA user_version").get == version
    with ToolIndex(old) as index:
        assert len(index.stored(reader_version="1").entries) == 2


def test_an_index_that_another_process_has_just_taken_further_is_refused(path):
    """Between the look at whose file it is and the look at its version."""
    ToolIndex(path).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        with pytest.raises(NewerSchemaError) as caught:
            migrate(connection, path, read_only=False)
    assert (caught.value.found, caught.value.supported) == (SCHEMA_VERSION + 1, SCHEMA_VERSION)


def test_the_states_of_a_migrated_index_are_told_from_those_of_any_other(old, tmp_path):
    """What is remembered of one must not be taken for another that is put in its place."""
    before = old.read_bytes()
    generations = set()
    for number in range(3):
        copy = tmp_path / f"{number}.db"
        copy.write_bytes(before)
        with ToolIndex(copy) as index, index.reading() as reader:
            generations.add(reader.generation())
    assert len(generations) == 3
