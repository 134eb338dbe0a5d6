"""However a server ends, it needs no kill, writes no text to stdout, and leaves an intact index."""

import json
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress

import apsw
import pytest

from .conftest import PATIENCE

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def server(installed, tree, tmp_path, environment, patient):
    with subprocess.Popen(
        [installed, "serve", "--root", tree, "--db", tmp_path / "index.db"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        with patient(process, "an answer, or the end of the server"):
            yield process
        process.kill()


def initialize(server):
    server.stdin.write(json.dumps(INITIALIZE) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert answer["result"]["serverInfo"]["name"] == "pytools"


def initialize_and_begin(server, database):
    """Initialize, and wait until the index exists: it is opened after that, and then filled."""
    initialize(server)
    server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    server.stdin.flush()
    wait_for(database.exists)


def initialize_and_index(server, database):
    initialize_and_begin(server, database)
    wait_for(lambda: count_tools(database))


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def count_tools(database):
    """Return the number of indexed tools; 0 while the index is being created."""
    with suppress(apsw.Error):
        connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
        with closing(connection):
            return connection.execute("SELECT count(*) FROM entries").get
    return 0


def assert_intact(database):
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    with closing(connection):
        assert connection.pragma("integrity_check") == "ok"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server(server, tmp_path, number):
    initialize_and_index(server, tmp_path / "index.db")

    server.send_signal(number)

    assert server.wait(PATIENCE) == 0
    assert server.stdout.read() == ""
    assert "Traceback" not in server.stderr.read()
    assert_intact(tmp_path / "index.db")


def test_a_closed_stdin_ends_the_server(server, tmp_path):
    initialize_and_index(server, tmp_path / "index.db")

    server.stdin.close()

    assert server.wait(PATIENCE) == 0
    assert server.stdout.read() == ""
    assert_intact(tmp_path / "index.db")


def test_a_server_that_ends_while_it_opens_its_index_leaves_nothing_that_disturbs_the_next(
    server, tree, tmp_path, run
):
    database = tmp_path / "index.db"
    initialize_and_begin(server, database)

    server.stdin.close()

    assert server.wait(PATIENCE) == 0
    assert server.stdout.read() == ""
    result = run("search", "merge pdf files", "--root", tree, "--db", database)
    assert result.returncode == 0, result.stderr
    assert "mcptools:pdf:merge_pdfs" in result.stdout
    assert_intact(database)


def test_a_kill_leaves_an_intact_index(server, tmp_path):
    initialize_and_begin(server, tmp_path / "index.db")

    server.kill()

    server.wait(PATIENCE)
    assert_intact(tmp_path / "index.db")


def test_the_next_start_removes_what_a_kill_left_behind(
    installed, environment, run, tree, home, patient
):
    def indexes():
        return {it.name.partition(".db")[0] for it in home.rglob("*.db*")}

    empty = home / "empty"
    empty.mkdir()
    with subprocess.Popen(
        [installed, "serve", "--root", empty],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as server:
        initialize(server)
        call = {"name": "search_tools", "arguments": {"query": "merge pdf files"}}
        for message in (
            {"method": "notifications/initialized"},
            {"method": "tools/call", "id": 2, "params": call},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        server.stdin.flush()
        with patient(server, "the answer to a search"):
            while json.loads(server.stdout.readline()).get("id") != 2:
                pass
        (left,) = indexes()
        server.kill()
        server.wait(PATIENCE)

    assert indexes() == {left}
    assert run("search", "merge pdf files", "--root", tree).returncode == 0
    assert len(indexes()) == 1
    assert left not in indexes()


def test_garbage_on_stdin_does_not_end_the_server(server):
    server.stdin.write("this is not JSON\n{}\n[]\n\x00\n")
    initialize_past_errors(server)


def initialize_past_errors(server):
    server.stdin.write(json.dumps(INITIALIZE) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        if json.loads(line).get("id") == 1:
            return
    pytest.fail(f"the server ended: {server.stderr.read()}")


def test_stdout_has_only_protocol_messages(server):
    initialize(server)
    server.stdin.write('{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n')
    server.stdin.flush()

    assert json.loads(server.stdout.readline())["id"] == 2
    server.stdin.close()
    assert server.stdout.read() == ""


# Run by Python at its start: once the first tools are indexed, indexing goes on writing forever.
ENDLESS = """
from pytools_hybrid.index import sync

commit = sync._Portions._commit

def commit_forever(portions):
    commit(portions)
    while True:
        portions._store.rebuild()

sync._Portions._commit = commit_forever
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_ctrl_c_ends_indexing_and_leaves_an_intact_index(
    installed, tree, tmp_path, environment, write_tools, patient
):
    write_tools(tree, "many", 1000, "Do the thing.")
    (tmp_path / "sitecustomize.py").write_text(ENDLESS)
    database = tmp_path / "index.db"
    with subprocess.Popen(
        [installed, "index", "--root", tree, "--db", database],
        stderr=subprocess.PIPE,
        env=environment | {"PYTHONPATH": str(tmp_path)},
        text=True,
    ) as process:
        with patient(process, "the first tools, or the end"):
            wait_for(lambda: count_tools(database))
            process.send_signal(signal.SIGINT)

            assert process.wait() == 130
        assert process.stderr.read() == "interrupted\n"
    assert_intact(database)
