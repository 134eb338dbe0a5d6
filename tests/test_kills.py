"""Whenever a run is killed, the next one ends with the index that a run in peace makes.

`PYTOOLS_TEST_KILLS` is how many kills of a run over 2,000 tools there are; where it is not set,
there are 4 of a run over fewer.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from toolindex import kept_path

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process so"
)

KILLS = int(os.environ.get("PYTOOLS_TEST_KILLS", "4"))
TOOLS = 2_000 if "PYTOOLS_TEST_KILLS" in os.environ else 600
BATCH = 64
# So many runs that are killed one after the other go on from what the ones before have left.
IN_A_ROW = 4


@pytest.fixture
def many(tmp_path, write_tools):
    for category in range(TOOLS // 50):
        write_tools(tmp_path / "many", f"group_{category}", 50, f"Do what group {category} does.")
    return tmp_path / "many"


@pytest.fixture
def start(counted, environment, many):
    def start_indexing(database):
        return subprocess.Popen(
            [*counted.command, "index", "--root", many, "--db", database],
            env=environment | counted.variables | {"COUNTED_SECONDS": "0.03"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start_indexing


def kept_texts(database):
    """Give how many vectors are kept, also where no run has come so far as to make a table."""
    file = kept_path(database)
    if not file.exists():
        return 0
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        if not connection.execute("SELECT count(*) FROM sqlite_schema").get:
            return 0
        return connection.execute("SELECT count(*) FROM embeddings").get


def assert_sound(database):
    for file in filter(Path.exists, (database, kept_path(database))):
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            assert connection.pragma("integrity_check") == "ok"


def wait_for_its_work(process, counted):
    """Wait until imports are done: a kill before that is no kill of ours."""
    deadline = time.monotonic() + 60
    while not counted.requests("start", pid=process.pid):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def finish(process):
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return errors


def test_a_run_after_kills_ends_as_a_run_in_peace_and_repeats_one_batch_at_most(
    start, counted, dump, tmp_path, record_property
):
    peaceful = start(tmp_path / "peace.db")
    wait_for_its_work(peaceful, counted)
    began = time.monotonic()
    finish(peaceful)
    seconds = time.monotonic() - began
    in_peace = dump(tmp_path / "peace.db")
    assert len(in_peace["entries"]) == len(in_peace["kept"]) == TOOLS
    chance = random.Random(4)
    killed = repeated = 0
    moments = {"before the file was there": 0, "before the vectors": 0}
    while killed < KILLS:
        database = tmp_path / f"after_{killed}" / "index.db"
        database.parent.mkdir()
        asked = 0
        for _ in range(IN_A_ROW):
            process = start(database)
            wait_for_its_work(process, counted)
            try:
                process.wait(timeout=chance.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
            process.communicate(timeout=60)
            asked += sum(counted.times_embedded(pid=process.pid).values())
            kept = 0
            if database.exists():
                assert_sound(database)
                kept = kept_texts(database)
            moments["before the file was there"] += not database.exists()
            moments["before the vectors"] += not kept
            # What was asked of the model and is not kept was lost; a later run asks again.
            assert asked - kept <= BATCH, "a kill has cost more than a batch"
            repeated += asked - kept
            asked = kept
        process = start(database)
        finish(process)

        assert dump(database) == in_peace
        asked += sum(counted.times_embedded(pid=process.pid).values())
        assert asked == TOOLS, "what was kept was embedded again"
        shutil.rmtree(database.parent)
    record_property("kills", killed)
    record_property("moments", moments)
    record_property("texts_repeated", repeated)
    print(f"{killed} kills within {seconds:.2f} s each; {moments}; {repeated} texts repeated")
