"""Failures below a server are reported in plain language, cost little, and need no restart."""

import sys
from contextlib import closing, suppress
from itertools import count

import anyio
import apsw
import pytest
from toolindex import Lease

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

PAGE = 16384
MERGE = "merge pdfs into one"
NEW = "def run() -> str:\n    '''Feed penguins with herring.'''\n"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def database(tmp_path):
    return tmp_path / "indexes" / "index.db"


@pytest.fixture
def server(connect, counted, tree):
    """Start a server with the counted model."""

    def start(database, **variables):
        return connect(
            "--root", tree, "--db", database,
            program=counted.command, **counted.variables, **variables,
        )  # fmt: skip

    return start


@pytest.fixture
def feed(tree):
    """The path of a tool that does not exist yet."""
    file = tree / "mcptools" / "zoo" / "feed.py"
    file.parent.mkdir()
    return file


async def ask(client, query, **arguments):
    return await client.call_tool("search_tools", {"query": query, **arguments})


def ids(result):
    if result.is_error:
        return []
    return [tool["id"] for tool in result.structured_content["result"]]


def notes(result):
    return [] if result.is_error else result.meta["pytools/notes"]


async def eventually(client, query, holds, **arguments):
    """Repeat a search until its answer is as expected."""
    with anyio.move_on_after(PATIENCE):
        while not holds(result := await ask(client, query, **arguments)):
            await anyio.sleep(0.02)
        return result
    raise AssertionError(f"not within {PATIENCE} s: {ids(result)}, {notes(result)}")


async def has_started(client):
    """Wait until everything is indexed and embedded."""
    await eventually(client, MERGE, finds_merge_pdfs)


def finds_merge_pdfs(result):
    return "mcptools:pdf:merge_pdfs" in ids(result) and notes(result) == []


def finds_feed(result):
    return ids(result)[:1] == ["mcptools:zoo:feed"] and notes(result) == []


def says(words):
    return lambda result: words in " ".join(notes(result))


# The file.


def remove(database):
    for file in database.parent.iterdir():
        file.unlink(missing_ok=True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files from being removed")
async def test_a_removed_index_is_recreated_by_the_next_search_or_change(
    server, database, feed, home
):
    async with server(database) as client:
        await has_started(client)
        for turn in range(3):
            remove(database)

            answer = await ask(client, MERGE)
            assert ids(answer)[:1] == ["mcptools:pdf:merge_pdfs"], (turn, answer)
        remove(database)

        feed.write_text(NEW)

        with anyio.fail_after(PATIENCE):
            while not database.exists():
                await anyio.sleep(0.02)
        await eventually(client, "feed penguins with herring", finds_feed)
        await eventually(client, MERGE, finds_merge_pdfs)
    assert "Traceback" not in (home / "stderr").read_text()


def put_in_place(database, content):
    """Put a file in place of the whole folder, lest SQLite take the index's log for the file's."""
    other = database.parent.with_name("other")
    other.mkdir()
    (other / database.name).write_bytes(content)
    for number in count():
        database.parent.rename(database.parent.with_name(f"aside-{number}"))
        # The server may recreate it at any moment.
        with suppress(OSError):
            other.rename(database.parent)
            return


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files from being removed")
async def test_a_foreign_file_in_place_of_the_index_is_reported_and_kept(
    server, database, feed, home
):
    garbage = b"My only copy of a novel. " * 10_000
    async with server(database) as client:
        await has_started(client)
        put_in_place(database, garbage)

        result = await ask(client, MERGE)
        assert result.is_error
        assert "not a tool index and was left as it is" in result.content[0].text
        feed.write_text(NEW)
        assert (await ask(client, "feed penguins")).is_error
        assert database.read_bytes() == garbage

        remove(database)
        await eventually(client, MERGE, finds_merge_pdfs)
        await eventually(client, "feed penguins with herring", finds_feed)
    assert "Traceback" not in (home / "stderr").read_text()


def damage(database, table):
    """Damage a table's first page in the database file, not in the log."""
    with closing(apsw.Connection(str(database))) as connection:
        connection.set_busy_timeout(1000 * PATIENCE)
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    with database.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)
    with closing(apsw.Connection(str(database))) as connection:
        connection.set_busy_timeout(1000 * PATIENCE)
        # Another checkpoint, so that no connection still has the page in its cache.
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files from being renamed")
async def test_a_damaged_index_is_renamed_and_recreated_with_its_vectors(
    server, database, feed, counted, dump, home
):
    async with server(database) as client:
        await has_started(client)
        embedded = sum(counted.times_embedded().values())
        damage(database, "entries")

        feed.write_text(NEW)
        await eventually(client, "feed penguins with herring", finds_feed)
        await eventually(client, MERGE, finds_merge_pdfs)

        kept = [file for file in database.parent.iterdir() if ".corrupt-" in file.name]
        assert kept
        assert sum(counted.times_embedded().values()) == embedded + 1
    assert len(dump(database)["entries"]) == embedded + 1
    assert "Traceback" not in (home / "stderr").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files from being renamed")
async def test_a_search_recreates_a_damaged_index_without_a_file_change(server, database, counted):
    async with server(database, PYTOOLS_WATCH="false") as client:
        await has_started(client)
        embedded = sum(counted.times_embedded().values())
        damage(database, "entries")

        # A new query, because a cached answer would not read the index.
        result = await ask(client, "send a message to somebody")

        assert not result.is_error, result.content
        assert len(ids(result)) == 5
        await eventually(client, MERGE, finds_merge_pdfs)
        assert sum(counted.times_embedded().values()) == embedded


async def test_searches_continue_while_the_index_is_locked_and_say_so(server, database, feed, home):
    async with server(database) as client:
        await has_started(client)
        with closing(apsw.Connection(str(database))) as other:
            # The server may be recording the searches.
            other.set_busy_timeout(1000 * PATIENCE)
            other.execute("BEGIN IMMEDIATE")
            feed.write_text(NEW)

            result = await eventually(client, MERGE, says("may be out of date"))
            assert ids(result)[0] == "mcptools:pdf:merge_pdfs"
            assert "another process holds the index locked" in notes(result)[0]
            other.execute("ROLLBACK")
        await eventually(client, "feed penguins with herring", finds_feed)
    assert "Traceback" not in (home / "stderr").read_text()


# The model.


@pytest.mark.parametrize(
    ("fault", "words"), [("down", "no route to host"), ("no key", "set COUNTED_KEY")]
)
async def test_a_model_that_fails_at_the_start_is_used_once_it_works(
    server, database, counted, fault, words
):
    counted.fault.write_text(fault)
    async with server(database) as client:
        result = await ask(client, MERGE)
        assert ids(result)[0] == "mcptools:pdf:merge_pdfs"
        assert "searched with vectors of static:" in notes(result)[0]
        assert words in notes(result)[0]

        counted.fault.unlink()
        await eventually(client, MERGE, finds_merge_pdfs)
        await eventually(client, MERGE, finds_merge_pdfs, mode="vector")


async def test_a_model_that_fails_later_is_used_once_it_works_again(
    server, database, counted, feed
):
    async with server(database) as client:
        await has_started(client)
        counted.fault.write_text("no key")
        feed.write_text(NEW)

        result = await eventually(
            client,
            "feed penguins with herring",
            lambda result: ids(result)[:1] == ["mcptools:zoo:feed"],
        )
        assert "set COUNTED_KEY" in notes(result)[0]
        # The vectors of the repeated query and of most tools are already stored.
        result = await eventually(client, MERGE, says("tools have vectors so far ("))
        assert "set COUNTED_KEY" in notes(result)[0]

        counted.fault.unlink()
        await eventually(client, "feed penguins with herring", finds_feed)


async def test_a_hanging_model_does_not_delay_searches_by_words(server, database, counted):
    counted.fault.write_text("hang")
    async with server(database) as client:
        with anyio.fail_after(PATIENCE):
            while not counted.requests():
                await anyio.sleep(0.02)
        result = await ask(client, MERGE, mode="bm25")
        assert ids(result)[0] == "mcptools:pdf:merge_pdfs"
        assert len(counted.requests()) == 1

        counted.fault.unlink()
        await eventually(client, MERGE, finds_merge_pdfs)
    assert max(counted.times_embedded().values()) == 1


async def test_a_client_is_answered_while_the_index_cannot_be_opened(server, database):
    database.parent.mkdir()
    lease = Lease(database, "rescue")
    assert lease.acquire(timeout=PATIENCE)
    try:
        async with server(database) as client:
            (tool, *_) = (await client.list_tools()).tools
            assert "None are indexed so far" in tool.description
            async with anyio.create_task_group() as tasks:
                found = []

                async def search():
                    found.extend(ids(await ask(client, MERGE)))

                tasks.start_soon(search)
                await client.list_prompts()
                assert not found
                lease.release()
            assert found[0] == "mcptools:pdf:merge_pdfs"
    finally:
        lease.release()
