"""The copy of the file that cannot be made again: when it is made, and when it is restored."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing

import apsw
import pytest
from toolindex import DamagedDatabaseError, DatabaseError, OutcomeRecord, SearchRecord, ToolIndex

MANY = {f"mcptools:a:t{n}": f"Tool {n}. " + "x" * 500 for n in range(300)}
PAGE = 16384
NOISE = random.Random(1).randbytes(PAGE)
SEARCH = SearchRecord(id="s", at=1.0, query="q", mode="bm25", results=("x",), latency_ms=1.0)
COPIED, LATER = 200, 3


@pytest.fixture
def backup(path):
    return path.with_name("search.db-kept.backup")


@pytest.fixture
def used(path, fill, backup):
    """An index with a copy, that was used after the copy was made."""
    with ToolIndex(path) as index:
        fill(index, {id_: MANY[id_] for id_ in list(MANY)[:200]}, model_id="m")
        index.usage.record_searches([SEARCH])
        record(index, COPIED)
        assert index.back_up()
        fill(index, MANY, model_id="m")
        record(index, LATER)
    assert backup.exists()
    return path


def record(index, count):
    index.usage.record_outcomes(
        OutcomeRecord(at=float(n), tool_id="x", success=True, search_id="s") for n in range(count)
    )


def observations(index):
    tool = index.usage.of_tool("x")
    return 0 if tool is None else tool.observations


def make_old(file):
    at = time.time() - 25 * 3600
    os.utime(file, (at, at))


def write(at, content):
    """Overwrite part of a file; a negative offset counts from its end, 0 to 1 is a fraction."""

    def damage(file):
        size = file.stat().st_size
        place = int(size * at) // PAGE * PAGE if 0 < at < 1 else at % size
        with file.open("r+b") as opened:
            opened.seek(place)
            opened.write(content)

    return damage


def flip(at, count):
    def damage(file):
        content = file.read_bytes()[at : at + count]
        write(at, bytes(byte ^ 0xFF for byte in content))(file)

    return damage


def swap(file):
    index, other = file.with_name("search.db"), file.with_name("other")
    file.rename(other)
    index.rename(file)
    other.rename(index)


def swap_with_the_copy(file):
    other = file.with_name("other")
    file.rename(other)
    file.with_name(f"{file.name}.backup").rename(file)
    other.rename(file.with_name(f"{file.name}.backup"))


def become_another_database(file):
    file.unlink()
    with closing(apsw.Connection(str(file))) as other:
        other.execute("CREATE TABLE theirs (x)")


def lose_a_table(file):
    with closing(apsw.Connection(str(file))) as other:
        other.execute("DROP TABLE outcomes")


DAMAGES = {
    "bytes flipped in the magic": flip(3, 4),
    "bytes flipped in the page size": flip(16, 2),
    "bytes flipped in the application id": flip(68, 4),
    "bytes flipped in the schema": flip(PAGE - 300, 64),
    "the header zeroed": write(0, bytes(100)),
    "the first page random": write(0, NOISE),
    "every page but the first zeroed": lambda file: write(PAGE, bytes(20 * PAGE))(file),
    "truncated to nothing": lambda file: os.truncate(file, 0),
    "truncated to one byte": lambda file: os.truncate(file, 1),
    "truncated to one page": lambda file: os.truncate(file, PAGE),
    "truncated to half": lambda file: os.truncate(file, file.stat().st_size // 2 // PAGE * PAGE),
    "replaced by text": lambda file: file.write_text("not a database"),
    "replaced by another database": become_another_database,
    "a lost table": lose_a_table,
    "swapped with the index": swap,
    "swapped with the copy": swap_with_the_copy,
    "removed": lambda file: file.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files from being renamed")
def test_a_damaged_file_is_restored_with_all_vectors_and_the_record_up_to_the_copy(
    used, durable, fill, check_sound, damage, is_open
):
    def use_repeatedly(index):
        for act in (lambda: record(index, 0), index.check, lambda: observations(index)) * 3:
            try:
                act()
            except DamagedDatabaseError:
                index.quarantine()

    if is_open:
        with ToolIndex(used) as index:
            observations(index)
            with closing(apsw.Connection(str(durable))) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            damage(durable)
            use_repeatedly(index)
    else:
        damage(durable)
    with ToolIndex(used) as index:
        use_repeatedly(index)
        fill(index, MANY)
        assert observations(index) == COPIED
        assert len(index.usage.searches()) == 1
        lost = 100 if damage is swap else 0
        assert index.count_pending("m") == lost
        assert index.check() == ()
    check_sound(used)


def test_a_copy_is_made_once_a_day(path, backup):
    with ToolIndex(path) as index:
        assert index.back_up()
        before = backup.stat()
        assert not index.back_up()
        assert backup.stat().st_ino == before.st_ino
        make_old(backup)
        assert index.back_up()
        # The clock was set back since the copy was made.
        os.utime(backup, (time.time() + 1e6,) * 2)
        assert index.back_up()
    assert {file.name for file in path.parent.iterdir()} == {
        "search.db",
        "search.db-kept",
        "search.db-kept.backup",
    }


def test_a_copy_is_as_private_as_the_file(path, durable, backup):
    with ToolIndex(path) as index:
        durable.chmod(0o600)
        assert index.back_up()
    assert backup.stat().st_mode & 0o777 == durable.stat().st_mode & 0o777
    durable.unlink()
    ToolIndex(path).close()
    assert backup.stat().st_mode & 0o777 == durable.stat().st_mode & 0o777


def test_a_copy_is_made_while_another_process_writes(path, backup, start):
    program = """
import sys
from toolindex import OutcomeRecord, ToolIndex
with ToolIndex(sys.argv[1]) as index:
    print("ready", flush=True)
    for n in range(200):
        index.usage.record_outcomes([OutcomeRecord(at=1.0, tool_id="x", success=True)])
"""
    with ToolIndex(path) as index:
        writer = start(program, path)
        assert writer.stdout.readline() == "ready\n"
        copies = 0
        while copies < 3 or writer.poll() is None:
            assert index.back_up()
            make_old(backup)
            copies += 1
        assert writer.communicate(timeout=60) == ("", "")
        assert index.back_up()
        with closing(apsw.Connection(str(backup))) as copy:
            assert copy.execute("SELECT count(*) FROM outcomes").get == 200


def test_of_several_processes_only_one_makes_a_copy(path, backup, start):
    program = """
import sys
from toolindex import ToolIndex
with ToolIndex(sys.argv[1]) as index:
    print("ready", flush=True)
    sys.stdin.readline()
    print(index.back_up())
"""
    ToolIndex(path).close()
    processes = [start(program, path, stdin=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    outputs = [process.communicate("go\n", timeout=60)[0] for process in processes]
    assert sorted(outputs) == ["False\n", "False\n", "True\n"]
    assert not backup.with_name(f"{backup.name}.new").exists()


def test_a_damaged_file_is_not_copied_over_a_sound_copy(used, durable, backup):
    make_old(backup)
    before = backup.read_bytes()
    with closing(apsw.Connection(str(durable))) as connection:
        find = "SELECT rootpage FROM sqlite_schema WHERE name = 'searches'"
        page = connection.execute(find).get
    write((page - 1) * PAGE, NOISE)(durable)
    with ToolIndex(used) as index:
        with pytest.raises(DamagedDatabaseError) as caught:
            index.back_up()
        assert caught.value.path == durable
        assert backup.read_bytes() == before
        assert index.quarantine() is not None
        assert observations(index) == COPIED


@pytest.mark.parametrize("damage", list(DAMAGES)[:12])
def test_a_damaged_copy_is_never_restored(used, durable, backup, fill, caplog, damage):
    DAMAGES[damage](backup)
    durable.write_text("not a database")
    with ToolIndex(used) as index:
        assert observations(index) == 0
        fill(index, MANY)
        assert index.count_pending("m") == 0
        assert "its copy of" in caplog.text
        assert "is damaged, too" in caplog.text
        # A new copy is made at once.
        assert index.back_up()
    assert list(used.parent.glob("search.db-kept.backup.corrupt-*"))


def test_a_copy_is_not_restored_over_a_sound_file(used, backup):
    with ToolIndex(used) as index:
        assert observations(index) == COPIED + LATER
        assert index.quarantine() is None
    assert backup.exists()


def test_a_restored_file_is_reported_once(used, durable, caplog):
    durable.write_text("not a database")
    for _ in range(2):
        ToolIndex(used).close()
    (message,) = caplog.messages
    assert message.startswith(f"{durable} was restored from its copy of 20")


def test_the_vectors_in_the_index_replace_older_ones_of_the_copy(path, durable, fill, embed):
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
        assert index.back_up()
        index.rebuild(forget="m")
        new = {hash_: [0.0, 0.0, 1.0, 0.0] for hash_ in index.pending("m", limit=1000)}
        index.put_vectors("m", new)
        index.prune()
    durable.write_text("not a database")
    with ToolIndex(path) as index, index.reading() as reader:
        vectors = reader.connection.execute("SELECT DISTINCT hex(vector) FROM embeddings")
        assert vectors.fetchall() == [("00000000000000000000803F00000000",)]


def test_rows_that_were_damaged_before_the_copy_was_made_are_left_out(path, durable, fill):
    """Otherwise they would be taken for damage again, after every repair."""
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
        fill(index, {})
        index.usage.record_searches([SEARCH])
        record(index, 3)
    with closing(apsw.Connection(str(durable))) as connection:
        for number, value in enumerate(("x'00'", "'text'", "x''")):
            connection.execute(
                f"UPDATE embeddings SET vector = {value} WHERE text_hash = "
                "(SELECT text_hash FROM embeddings ORDER BY text_hash LIMIT 1 OFFSET ?)",
                (number,),
            )
        connection.execute("UPDATE searches SET results = '{'")
        connection.execute("UPDATE outcomes SET at = 'x' WHERE rowid = 1")
    with ToolIndex(path) as index:
        assert index.back_up()
        with pytest.raises(DamagedDatabaseError):
            index.usage.searches()
        assert index.quarantine() is not None
        assert (index.usage.searches(), len(index.usage.outcomes())) == ((), 2)
        fill(index, MANY)
        assert index.count_pending("m") == 3


def test_the_log_of_a_lost_file_is_not_applied_to_the_restored_one(used, durable, start):
    program = """
import os, signal, sys
from toolindex import OutcomeRecord, ToolIndex
index = ToolIndex(sys.argv[1])
index.put_vectors("m", {f"text {n}": [1.0, n, 1.0, 1.0] for n in range(99)})
os.kill(os.getpid(), signal.SIGKILL)
"""
    start(program, used).communicate(timeout=60)
    assert used.with_name("search.db-kept-wal").stat().st_size > 0
    durable.unlink()
    with ToolIndex(used) as index:
        assert observations(index) == COPIED
        assert index.check() == ()


def test_deleting_the_usage_record_deletes_it_from_the_copy(used, backup):
    with ToolIndex(used) as index:
        index.usage.clear()
        assert not backup.exists()
        assert index.back_up()
        with closing(apsw.Connection(str(backup))) as copy:
            assert copy.execute("SELECT count(*) FROM outcomes").get == 0


def test_removing_an_index_removes_the_copy(used):
    # As left by a killed process.
    used.with_name("search.db-kept.backup.new").touch()
    assert ToolIndex.remove(used)
    assert list(used.parent.iterdir()) == []


def test_a_read_only_index_makes_no_copy(used, backup):
    make_old(backup)
    with ToolIndex(used, read_only=True) as index:
        assert not index.back_up()


LIMITED = """
import resource, signal, sys
from toolindex import DatabaseError, ToolIndex
with ToolIndex(sys.argv[1]) as index:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        index.back_up()
    except DatabaseError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    print(index.usage.of_tool("x").observations)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_where_no_copy_can_be_written_the_older_one_stays(used, backup, start):
    make_old(backup)
    before = backup.read_bytes()
    out, err = start(LIMITED, used).communicate(timeout=60)
    assert "no copy of search.db-kept can be made" in out, err
    assert out.splitlines()[-1] == str(COPIED + LATER)
    assert backup.read_bytes() == before
    assert not list(used.parent.glob("*.new*"))


KILLED = """
import os, signal, sys
from toolindex import ToolIndex
path, act, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
def count(event, arguments):
    global steps
    if event in ("os.rename", "os.remove") or event == "open" and ".new" in str(arguments[0]):
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1
with ToolIndex(path) if act == "back up" else open(os.devnull) as index:
    sys.addaudithook(count)
    index.back_up() if act == "back up" else ToolIndex(path).close()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("step", range(8))
def test_a_kill_while_a_copy_is_made_leaves_the_old_or_the_new_one(used, backup, start, step):
    make_old(backup)
    start(KILLED, used, "back up", step).communicate(timeout=60)
    with closing(apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)) as copy:
        assert copy.execute("PRAGMA integrity_check").get == "ok"
        assert copy.execute("SELECT count(*) FROM outcomes").get in {COPIED, COPIED + LATER}
    make_old(backup)
    with ToolIndex(used) as index:
        assert index.back_up()
    assert not list(used.parent.glob("*.new*"))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("step", range(12))
def test_a_kill_while_a_file_is_restored_loses_nothing_more(used, durable, start, fill, step):
    lose_a_table(durable)
    with closing(apsw.Connection(str(used))) as connection:
        connection.execute("DROP TABLE meta")
    start(KILLED, used, "restore", step).communicate(timeout=60)
    with ToolIndex(used) as index:
        assert observations(index) == COPIED
        fill(index, MANY)
        assert index.count_pending("m") == 100
        assert index.check() == ()
    assert not list(used.parent.glob("*.new*"))


def test_a_copy_in_the_way_is_an_error_only_for_copying(path, backup):
    with ToolIndex(path) as index:
        backup.mkdir()
        make_old(backup)
        with pytest.raises(DatabaseError):
            index.back_up()
    ToolIndex.files(path).durable.unlink()
    with ToolIndex(path) as index:
        assert index.check() == ()
        assert index.back_up()
