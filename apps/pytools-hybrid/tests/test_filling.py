"""The first indexing of a large tree: in portions, continued after a kill, with progress."""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytools_hybrid import ToolSearch
from pytools_hybrid.index import Follower, IndexingProgress, SQLiteStore, TreeSync, follow
from pytools_hybrid.serve.mcp import create_server

from .conftest import PATIENCE

READER = "any"


def write(root, number, words="Feed the penguins."):
    file = root / f"mcptools/zoo{number % 8}/tool_{number}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"def run(text: str) -> str:\n    '''{words}'''\n", encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch):
    """Small portions, in place of the hundreds of tools in large trees."""
    monkeypatch.setattr("pytools_hybrid.index.sync._FIRST_PORTION", 15)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A tree of several portions, whose files are old enough to have stamps."""
    root = tmp_path_factory.mktemp("large")
    for number in range(80):
        write(root, number, f"Feed penguin {number}.")
    return root


@pytest.fixture
def store(tmp_path):
    with SQLiteStore(tmp_path / "index.db") as store:
        yield store


def tools_in(store):
    with store.reading() as reader:
        return reader.coverage("").tools


def is_complete(store):
    with store.reading() as reader:
        return reader.is_complete()


class Killed(BaseException):
    """Ends a scan partway, as the end of a process would."""


def killed_after(store, root, files):
    def end(step, done, total):
        if done == files:
            raise Killed

    with pytest.raises(Killed):
        TreeSync(store, root).scan(progress=end)


def test_tools_are_found_before_all_files_are_read(store, large):
    seen = []
    TreeSync(store, large).scan(
        progress=lambda *_: seen.append((tools_in(store), is_complete(store)))
    )
    assert sorted({tools for tools, _ in seen}) == [0, 15, 60]
    assert not any(complete for _, complete in seen)
    assert (tools_in(store), is_complete(store)) == (80, True)


def test_all_portions_count_as_one_update(store, large):
    report = TreeSync(store, large).scan()
    assert (report.added, report.updated, report.unchanged) == (80, 0, 0)
    report = TreeSync(store, large).scan()
    assert (report.added, report.updated, report.unchanged) == (0, 0, 80)


def test_no_tool_is_removed_before_all_files_are_read(store, large, tmp_path):
    root = shutil.copytree(large, tmp_path / "tree")
    TreeSync(store, root).scan()
    shutil.rmtree(root / "mcptools" / "zoo7")
    for number in range(80, 120):
        write(root, number + 8 * (number % 8 == 7))
    killed_after(store, root, 105)
    assert tools_in(store) > 80
    assert TreeSync(store, root).scan().removed == 10
    assert tools_in(store) == 80 - 10 + 40


def test_progress_of_the_first_index_is_reported(store, large):
    told = []
    sync = TreeSync(store, large)
    sync.scan(progress=lambda *_: told.append(sync.progress))
    assert told[0] == IndexingProgress(read=0, total=80)
    assert told[-1].read >= 80
    assert (
        str(IndexingProgress(read=3000, total=10_000)) == "3,000 of about 10,000 files read so far"
    )
    sync = TreeSync(store, large)
    sync.scan()
    assert sync.progress is None


def test_the_first_trees_tool_wins_in_every_portion(store, large, tmp_path):
    own = tmp_path / "own"
    for number in range(0, 80, 2):
        write(own, number, f"Feed penguin {number} of mine.")
    killed_after(store, [own, large], 90)
    TreeSync(store, [own, large]).scan()
    held = store.stored(reader_version=READER).entries
    assert {entry.path[0] for entry in held.values()} == {"0", "1"}
    for id_, entry in held.items():
        number = int(id_.rpartition("_")[2])
        assert entry.path.startswith("1/" if number % 2 else "0/")
    with SQLiteStore(tmp_path / "fresh.db") as fresh:
        TreeSync(fresh, [own, large]).scan()
        assert {i: e.file_hash for i, e in held.items()} == {
            i: e.file_hash for i, e in fresh.stored(reader_version=READER).entries.items()
        }


def test_renaming_a_folder_of_many_portions_keeps_its_vectors(store, large, tmp_path):
    root = tmp_path / "tree"
    shutil.copytree(large / "mcptools", root / "mcptools")
    TreeSync(store, root).scan()
    store.put_vectors("m", {key: [1.0, 2.0] for key in store.pending("m", limit=100)})
    for folder in sorted((root / "mcptools").iterdir()):
        folder.rename(folder.with_name(f"new_{folder.name}"))
    report = TreeSync(store, root).scan()
    assert (report.added, report.removed) == (80, 80)
    assert store.count_pending("m") == 0
    with store.reading() as reader:
        assert reader.coverage("m").vectors == 80


# Each indexes all of them.
@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 8)
@given(st.data())
def test_after_any_number_of_kills_the_index_equals_the_files(large, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("killed")
    with SQLiteStore(folder / "index.db") as store:
        before = 0
        for files in data.draw(st.lists(st.integers(1, 80), max_size=4)):
            killed_after(store, large, files)
            assert tools_in(store) >= before
            before = tools_in(store)
        TreeSync(store, large).scan()
        with SQLiteStore(folder / "fresh.db") as fresh:
            TreeSync(fresh, large).scan()
            assert rows(store) == rows(fresh)


def rows(store):
    with store.reading() as reader:
        return reader.connection.execute(
            "SELECT id, path, description, file_hash, text_hash FROM entries ORDER BY id"
        ).fetchall()


def test_a_killed_process_leaves_its_committed_portions(large, tmp_path):
    """The end of a process at any moment, not only between two files."""
    program = (
        "import os, signal, sys\n"
        "from pytools_hybrid.index import SQLiteStore, TreeSync, sync\n"
        "store = SQLiteStore(sys.argv[1])\n"
        "sync._FIRST_PORTION = 15\n"
        "commit = store.sync\n"
        "def commit_and_die(*args, **options):\n"
        "    commit(*args, **options)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "store.sync = commit_and_die\n"
        "TreeSync(store, sys.argv[2]).scan()\n"
    )
    database = tmp_path / "index.db"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(database), str(large)], check=False, timeout=PATIENCE
    )
    assert ended.returncode == -signal.SIGKILL
    with SQLiteStore(database) as store:
        assert store.check() == ()
        assert tools_in(store) == 15
        assert TreeSync(store, large).scan().unchanged == 15


@pytest.fixture
def held(monkeypatch):
    """Pause reading after a number of files, until it is released."""
    opened, gate, count = os.open, threading.Event(), itertools.count()

    class Held:
        after = 60
        go_on = gate.set

    def slow_open(path, *args, **options):
        if str(path).endswith(".py") and next(count) == Held.after:
            gate.wait(PATIENCE)
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", slow_open)
    yield Held
    gate.set()


@asynccontextmanager
async def served(settings, root):
    """Return a client of a server whose index is being built."""
    from mcp import Client

    async with ToolSearch(root, settings, refresh=False) as search:
        follower = Follower(search.index)
        task = asyncio.create_task(follower.run())
        server = create_server(search, follower, settings=settings, root=search.roots)
        try:
            async with Client(server) as client:
                yield client, search
        finally:
            task.cancel()
            await asyncio.wait([task])


def test_a_search_finds_the_tools_read_so_far_and_reports_progress(
    settings, large, held, monkeypatch
):
    async def main():
        async with served(settings(), large) as (client, search):
            while not tools_in(search.index.store):
                await asyncio.sleep(0.01)
            told, is_told = [], asyncio.Event()
            far = "of about 80 files read so far"

            async def tell(done, total, message):
                told.append(message)
                if far in message:
                    is_told.set()

            asked = {"query": "feed penguin", "mode": "bm25"}
            waiting = asyncio.create_task(
                client.call_tool("search_tools", asked, progress_callback=tell)
            )
            await asyncio.wait_for(is_told.wait(), PATIENCE)
            # From now on, searches have waited long enough.
            monkeypatch.setattr(follow, "_FIRST_SYNC_SECONDS", 0)
            monkeypatch.setattr(follow, "_FIRST_EMBEDDING_SECONDS", 0)
            found = await client.call_tool("search_tools", asked)
            assert len(found.structured_content["result"]) == 5
            assert far in " ".join(found.meta["pytools/notes"])
            asked = asked | {"query": "qwzxplorf"}
            early = await client.call_tool("search_tools", asked)
            assert early.is_error
            assert far in early.content[0].text
            assert "try again" in early.content[0].text
            held.go_on()
            found = await waiting
            assert len(found.structured_content["result"]) == 5
            async with asyncio.timeout(PATIENCE):
                while search.index.sync.report is None:
                    await asyncio.sleep(0.01)
            asked["query"] = "feed penguin"
            found = await client.call_tool("search_tools", asked)
            assert "read so far" not in " ".join(found.meta["pytools/notes"])
            asked["query"] = "qwzxplorf"
            assert not (await client.call_tool("search_tools", asked)).is_error

    asyncio.run(main())


def test_a_search_waits_for_the_first_tools(settings, large, held, monkeypatch):
    monkeypatch.setattr(follow, "_FIRST_SYNC_SECONDS", 0.1)
    held.after = 10

    async def main():
        async with served(settings(), large) as (client, search):
            asking = asyncio.create_task(client.call_tool("search_tools", {"query": "feed"}))
            while search.index.sync.progress is None or search.index.sync.progress.read < 10:
                await asyncio.sleep(0.01)
            await asyncio.wait({asking}, timeout=0.5)
            assert not asking.done()
            held.go_on()
            found = await asking
            assert len(found.structured_content["result"]) == 5

    asyncio.run(main())


def test_the_first_tools_are_embedded_before_all_files_are_read(settings, large, held):
    async def main():
        async with served(settings(), large) as (_, search), asyncio.timeout(PATIENCE):
            while not (await search.index.coverage()).vectors:
                await asyncio.sleep(0.01)
            assert search.index.sync.progress is not None
            held.go_on()
            while (await search.index.coverage()).vectors < 80:
                await asyncio.sleep(0.01)

    asyncio.run(main())
