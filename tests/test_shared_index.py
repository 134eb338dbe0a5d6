# pyright: basic
"""An index on a PostgreSQL server, used by the command and over MCP, on separate hosts."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count

import pytest
from toolindex import ToolIndex

from tests import patience
from tests.postgres import SECRET, Server, serving

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server is reached by a socket")
REFUND = 'def run(invoice: str) -> str:\n    """Refund a customer for an invoice."""\n'


@pytest.fixture(scope="module")
def server():
    with serving(Server) as started:
        yield started


# Run by Python at its start: every request waits a minute for the server, so that a slow machine
# fails no test.
PATIENT = f"""
{patience.CODE}
from toolindex_postgres import _connections, _copy, _refresh
_connections._DEFAULTS["connect_timeout"] = 60
_connections.Connection.patience = _refresh._PATIENCE = 60
_copy._LEASE_SECONDS = 60
_connections._POLL_MS = _connections._READ_MS = 60_000
"""


def customized(folder, code=""):
    """Return a value of PYTHONPATH that makes processes wait longer and run some code."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(PATIENT + code)
    return str(folder)


_DATABASES = count(1)


@pytest.fixture
def database(server):
    """The name of a database with the schema of an index."""
    from toolindex_postgres import Database

    name = f"d{next(_DATABASES)}"
    server.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
    with Database(server.address(name)) as made:
        made.init()
    return name


@pytest.fixture
def host(run, tmp_path, server, database):
    """Run commands as on separate hosts, `host("a", "search", "…")`; none shows the password."""
    patient = customized(tmp_path / "patient")

    def on(name, *arguments, user="postgres", tree="team", **variables):
        home = tmp_path / name
        (home / "work").mkdir(parents=True, exist_ok=True)
        variables = {
            "HOME": str(home),
            "USERPROFILE": str(home),
            "LOCALAPPDATA": str(home),
            "PYTOOLS_DATABASE": server.address(database, user=user, tree=tree),
            "PYTHONPATH": patient,
        } | variables
        done = run(*arguments, cwd=home / "work", **variables)
        assert SECRET not in done.stdout + done.stderr
        return done

    on.address = server.address(database, tree="team")
    on.patient = patient
    return on


def answer(done):
    """Return the answer of one search."""
    return json.loads(done.stdout)[0]


def found(done):
    """Return the ids of the tools that a search has found."""
    return [it["id"] for it in answer(done)["tools"]]


def search(host, name, query="merge two pdf files", **variables):
    return host(name, "search", query, "--output", "json", "--limit", "1", **variables)


READS = {"PYTOOLS_SYNC": "false"}


def test_a_host_without_files_finds_what_another_has_indexed(host, tree, server, database):
    indexed = host("writer", "index", "--root", tree)
    assert indexed.returncode == 0, indexed.stderr
    assert "119 embedded" in indexed.stderr
    first = search(host, "reader", **READS)
    assert found(first) == ["mcptools:pdf:merge_pdfs"]
    assert first.stderr == ""
    assert answer(first)["model"] == "static:tools2"

    file = tree / "mcptools" / "billing" / "refund_invoice.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(REFUND, encoding="utf-8")
    host("writer", "index", "--root", tree)
    assert found(search(host, "reader", "refund an invoice", **READS)) == [
        "mcptools:billing:refund_invoice"
    ]
    described = host("reader", "describe", "refund_invoice", **READS).stdout
    assert "def run(invoice: str) -> str:" in described
    assert "mcptools/billing/refund_invoice.py" in described

    status = host("reader", "status", **READS).stdout
    assert f"postgresql://postgres@/{database}?host={server.folder}&tree=team" in status
    assert "in this host's copy, written by other hosts" in status
    assert "120 of 120 tools have vectors" in status


def test_a_writer_with_the_same_files_embeds_nothing_again(host, tree):
    assert "119 embedded" in host("one", "index", "--root", tree).stderr
    again = host("two", "index", "--root", tree).stderr
    assert "0 added, 0 updated, 0 removed, 0 embedded" in again


def test_searches_continue_with_a_note_while_the_server_is_stopped(host, tree, server):
    host("writer", "index", "--root", tree)
    search(host, "reader", **READS)
    server.stop()
    try:
        away = search(host, "reader", **READS)
        assert found(away) == ["mcptools:pdf:merge_pdfs"]
        assert "this answer is as of 2" in " ".join(answer(away)["notes"])
        written = search(host, "writer", PYTOOLS_DIR=str(tree))
        assert found(written) == ["mcptools:pdf:merge_pdfs"]
        described = host("reader", "describe", "merge_pdfs", **READS)
        assert described.returncode == 0
        assert "this is from this host's copy" in " ".join(described.stdout.split())
        fresh = search(host, "newcomer", **READS)
        assert fresh.returncode == 1
        assert "This host has not downloaded the index yet: " in fresh.stdout
        assert "the server cannot be reached (" in fresh.stdout
        assert "this answer is" not in fresh.stdout
        for command in (["list"], ["describe", "merge_pdfs"]):
            empty = host("newcomer", *command, **READS)
            assert empty.returncode == 1
            assert "This host has not downloaded the index yet: " in empty.stderr
        checked = host("reader", "doctor", "--output", "json", **READS)
        (database,) = [it for it in json.loads(checked.stdout) if it["check"] == "database"]
        assert database["status"] == "failed"
        assert database["remedy"].startswith("psql ")
    finally:
        server.start()
    assert not answer(search(host, "reader", **READS))["notes"]
    assert found(search(host, "newcomer", **READS)) == ["mcptools:pdf:merge_pdfs"]


def test_processes_of_one_host_share_its_copy(host, tree, tmp_path):
    host("writer", "index", "--root", tree)
    with ThreadPoolExecutor() as threads:
        searches = [threads.submit(search, host, "reader", **READS) for _ in range(4)]
    for each in searches:
        assert found(each.result()) == ["mcptools:pdf:merge_pdfs"]
        assert not answer(each.result())["notes"]
    copies = list((tmp_path / "reader").rglob("*.shared.db"))
    assert [it.name.partition("-")[0] for it in copies] == ["team"]


def test_a_missing_schema_is_reported_with_the_command_that_creates_it(host, server, tree):
    server.execute("CREATE DATABASE nothing STRATEGY file_copy")
    address = server.address("nothing", tree="team")
    done = host("writer", "index", "--root", tree, PYTOOLS_DATABASE=address)

    assert done.returncode == 1
    assert "pytools-hybrid database init" in done.stderr


def test_a_reader_without_a_tree_name_gets_a_hint(host):
    done = host("reader", "search", "anything", tree="", **READS)

    assert done.returncode == 2
    assert "PYTOOLS_DATABASE: the address has no tree=NAME" in done.stderr


def test_database_commands_create_grant_show_and_drop(host, server, tree):
    server.execute("CREATE DATABASE made STRATEGY file_copy")
    server.execute("CREATE ROLE agents LOGIN")
    own = {"PYTOOLS_DATABASE": server.address("made", tree="team")}
    assert "no index yet" in host("a", "status", "--all", **own).stdout
    assert "has schema" in host("a", "database", "init", **own).stderr
    assert "is up to date" in host("a", "database", "init", **own).stderr
    host("a", "index", "--root", tree, **own)
    theirs = {"PYTOOLS_DATABASE": server.address("made", user="agents", tree="team")}
    assert search(host, "b", **READS, **theirs).returncode == 1
    refused = host("a", "database", "grant", "agents", "--tree", "", **own)
    assert (refused.returncode, "--tree: a tree " in refused.stderr) == (2, True)
    early = host("a", "database", "grant", "agents", "--tree", "tema", **own)
    assert "there is no tree tema yet" in early.stderr
    granted = host("a", "database", "grant", "agents", **own)
    assert granted.stderr == "agents may read team\n"
    assert found(search(host, "b", **READS, **theirs)) == ["mcptools:pdf:merge_pdfs"]
    (trees,) = json.loads(host("b", "status", "--all", "--output", "json", **theirs).stdout)[
        "trees"
    ]
    assert (trees["name"], trees["entries"]) == ("team", 119)
    assert host("a", "database", "drop", "other", "--yes", **own).returncode == 2
    assert host("a", "database", "drop", "team", "--yes", **own).stderr == "team is deleted\n"
    assert "no trees" in host("a", "status", "--all", **own).stderr


def test_a_host_without_the_files_does_not_empty_the_tree_of_all_hosts(host, tree, tmp_path):
    host("writer", "index", "--root", tree)
    for there in (tmp_path / "empty", tmp_path / "broken"):
        (there / "mcptools" / "pdf").mkdir(parents=True)
    (tmp_path / "broken" / "mcptools" / "pdf" / "merge_pdfs.py").write_text("def run(:")
    for there in ("empty", "broken"):
        refused = host("other", "index", "--root", tmp_path / there)
        assert refused.returncode != 0
        assert f"{there} has no tools, and would remove all 119 of " in refused.stderr
    assert found(search(host, "reader", **READS)) == ["mcptools:pdf:merge_pdfs"]


def test_migrate_copies_an_index_to_a_server_and_back(host, tree, tmp_path):
    file, back, address = tmp_path / "search.db", tmp_path / "back.db", host.address
    search(host, "a", PYTOOLS_DIR=str(tree), PYTOOLS_DATABASE=str(file))
    moved = host("a", "database", "migrate", file, address, PYTOOLS_DIR=str(tree)).stderr
    assert "has 119 tools; copied: 119 vectors, 1 searches, 0 outcomes" in moved
    again = host("a", "database", "migrate", file, address, PYTOOLS_DIR=str(tree)).stderr
    assert "has 119 tools; copied: 0 vectors, 0 searches, 0 outcomes" in again
    host("b", "database", "migrate", address, back)
    there = search(host, "b", PYTOOLS_DIR=str(tree), PYTOOLS_DATABASE=str(back))
    assert found(there) == ["mcptools:pdf:merge_pdfs"]
    assert "indexed" not in there.stderr
    nothing = host(
        "b", "database", "migrate", address.replace("team", "tema"), tmp_path / "none.db"
    )
    assert (nothing.returncode, "tema has no tools" in nothing.stderr) == (2, True)
    assert not list(tmp_path.glob("none.db*"))
    # The usage record beside it cannot be recreated, so it is not replaced either.
    back.unlink()
    assert "back.db-kept exists already" in host("b", "database", "migrate", address, back).stderr
    assert (
        "one must be a file, the other a server"
        in host("b", "database", "migrate", file, back).stderr
    )


def test_a_killed_migration_continues_where_it_stopped(host, tree, tmp_path, command, environment):
    file, address = tmp_path / "search.db", host.address
    search(host, "a", PYTOOLS_DIR=str(tree), PYTOOLS_DATABASE=str(file))
    there = environment | {"HOME": str(tmp_path / "a"), "PYTOOLS_DATABASE": address}
    there["PYTOOLS_DIR"] = str(tree)

    def killed(*arguments):
        for seconds in (0.3, 0.6, 0.9):
            with subprocess.Popen(
                [command, "database", "migrate", *arguments], env=there, stdout=subprocess.PIPE
            ) as process:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                process.kill()
                # The command is a fork of another process, and ends a moment after this one.
                process.stdout.read()

    killed(file, address)
    assert (
        "has 119 tools"
        in host("a", "database", "migrate", file, address, PYTOOLS_DIR=str(tree)).stderr
    )
    # Another host gets each vector and each search once.
    back = tmp_path / "back.db"
    killed(address, back)
    # If one was complete before it was killed, the file exists, and this is refused.
    host("a", "database", "migrate", address, back)
    with closing(ToolIndex(file)) as old, closing(ToolIndex(back)) as new:
        assert [it.id for it in new.usage.searches()] == [it.id for it in old.usage.searches()]
        with old.reading() as before, new.reading() as after:
            assert after.vectors("static:tools2") == before.vectors("static:tools2")


@pytest.mark.anyio
async def test_a_server_without_files_follows_the_index_of_others(
    host, tree, connect, server, database
):
    host("writer", "index", "--root", tree)
    address = server.address(database, tree="team")
    async with connect(PYTOOLS_DATABASE=address, PYTHONPATH=host.patient, **READS) as client:

        async def ask(query):
            answer = await client.call_tool("search_tools", {"query": query, "limit": 1})
            return [it["id"] for it in answer.structured_content["result"]], answer.meta

        assert (await ask("merge two pdf files"))[0] == ["mcptools:pdf:merge_pdfs"]
        file = tree / "mcptools" / "billing" / "refund_invoice.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(REFUND, encoding="utf-8")
        host("writer", "index", "--root", tree)
        assert (await ask("refund an invoice"))[0] == ["mcptools:billing:refund_invoice"]
        described = await client.call_tool("describe_tool", {"id": "refund_invoice"})
        assert described.structured_content["input_schema"]["required"] == ["invoice"]
        server.stop()
        try:
            ids, meta = await ask("merge two pdf files")
            assert ids == ["mcptools:pdf:merge_pdfs"]
            assert "this answer is as of 2" in str(meta)
            assert SECRET not in str(meta)
        finally:
            server.start()


def test_a_damaged_copy_is_set_aside_and_fetched_again(host, tree, tmp_path):
    host("writer", "index", "--root", tree)
    search(host, "reader", **READS)
    (copy,) = (tmp_path / "reader").rglob("*.shared.db")
    copy.write_bytes(b"SQLite format 3\0" + b"damage" * 2_000)
    again = search(host, "reader", **READS)
    assert found(again) == ["mcptools:pdf:merge_pdfs"]
    assert "was damaged: it was renamed" in again.stderr


def test_a_process_has_a_separate_copy_if_the_cache_cannot_be_written(host, tree, tmp_path):
    host("writer", "index", "--root", tree)
    # A file takes its place, because root can write to every folder.
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    done = search(host, "reader", XDG_CACHE_HOME=str(blocked), **READS)
    assert found(done) == ["mcptools:pdf:merge_pdfs"]
    assert "until it ends" in done.stderr


def test_export_has_events_of_all_hosts_and_status_counts_unsent_ones(host, tree, server):
    host("writer", "index", "--root", tree)
    search(host, "reader", "what the first agent wants", **READS)
    other = {"PYTOOLS_DIR": str(tree)}
    search(host, "writer", "what the second agent wants", **other)
    exported = host("writer", "report", "--export", "searches", "--output", "json", **other)
    assert exported.returncode == 0, exported.stderr
    rows = json.loads(exported.stdout)
    assert {row["query"] for row in rows} == {
        "what the first agent wants",
        "what the second agent wants",
    }
    server.stop()
    try:
        search(host, "reader", "what nobody hears", **READS)
        assert (
            "1 (searches and outcomes not yet sent to the server)"
            in host("reader", "status", **READS).stdout
        )
    finally:
        server.start()
    assert json.loads(host("reader", "status", "--output", "json", **READS).stdout)["waiting"] == 0
    again = host("writer", "report", "--export", "searches", "--output", "json", **other)
    assert len(json.loads(again.stdout)) == 3


def test_hosts_with_clocks_an_hour_apart_lose_nothing(host, tree, tmp_path):
    def clock(name, seconds):
        shifted = (
            "import time\n"
            "now, now_ns = time.time, time.time_ns\n"
            f"time.time = lambda: now() + {seconds}\n"
            f"time.time_ns = lambda: now_ns() + {seconds} * 10**9\n"
        )
        shared = {"PYTOOLS_DATABASE": host.address, "PYTOOLS_DIR": str(tree)}
        return shared | {"PYTHONPATH": customized(tmp_path / name, shifted)}

    early, late = clock("early", -3_600), clock("late", 3_600)
    file = tree / "mcptools" / "billing" / "refund_invoice.py"
    file.parent.mkdir(exist_ok=True)
    for number, (name, writes, reads) in enumerate([("a", early, late), ("b", late, early)]):
        file.write_text(REFUND.replace("Refund", f"Refund or cancel {number}"), encoding="utf-8")
        assert host(name, "index", **writes).returncode == 0
        there = search(host, "reader", f"cancel {number}", **reads | READS)
        assert found(there) == ["mcptools:billing:refund_invoice"]
        assert f"cancel {number}" in there.stdout
    file.unlink()
    assert host("a", "index", **early).returncode == 0
    for clocks in (early, late):
        assert found(search(host, "reader", "cancel", **clocks | READS)) != [
            "mcptools:billing:refund_invoice"
        ]
        status = host("reader", "status", "--output", "json", **clocks | READS)
        assert json.loads(status.stdout)["waiting"] == 0
    for clocks in (early, late):
        assert (
            len(
                json.loads(
                    host("b", "report", "--export", "searches", "--output", "json", **clocks).stdout
                )
            )
            == 4
        )


def test_a_row_that_cannot_be_read_is_left_out_reported_and_repaired(host, tree, server, database):
    merge = "mcptools:pdf:merge_pdfs"
    host("writer", "index", "--root", tree)
    server.execute(
        f"UPDATE toolindex.entry SET record = '{{' WHERE id = '{merge}'", database=database
    )
    others = found(search(host, "reader", **READS))
    assert others
    assert others != [merge]
    for command in ("status", "doctor"):
        shown = host("reader", command, **READS).stdout
        assert f"{merge}: its record is not JSON" in shown
        assert "pytools-hybrid index --check on a host that has the tools" in shown
    checked = host("writer", "index", "--check", "--root", tree)
    assert checked.returncode == 0, checked.stderr
    assert f"{merge} cannot be read: its record is not JSON" in checked.stderr
    assert found(search(host, "reader", **READS)) == [merge]
    assert "its record" not in host("reader", "status", **READS).stdout
