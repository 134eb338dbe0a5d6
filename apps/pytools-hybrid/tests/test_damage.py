"""Whatever happens to the index file, searches continue, and irreplaceable data is kept."""

import asyncio
import os
import random
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from pytools_hybrid import Recording, SearchMode, Settings, ToolSearch
from pytools_hybrid.cli import main
from pytools_hybrid.index import sync as _sync
from toolembed import StaticEmbedder
from toolindex import ToolIndex

from .conftest import PATIENCE

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows keeps open files from being renamed"
)

PAGE = 16384
ISSUE = "mcptools:github:create_issue"
OUTCOMES = 39


class Counted(StaticEmbedder):
    """A model that charges for every text."""

    embedded = 0

    async def embed_documents(self, texts):
        self.embedded += len(texts)
        return await super().embed_documents(texts)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let searches wait for a running refresh, however long a busy machine takes."""
    monkeypatch.setattr(_sync, "_OTHERS_SECONDS", PATIENCE)


@pytest.fixture(scope="module")
def embedder():
    return Counted()


def put(at, content):
    """Overwrite part of a file; a negative offset counts from its end, 0 to 1 is a fraction."""

    def damage(file):
        size = file.stat().st_size
        place = int(size * at) if 0 < at < 1 else at % size
        with file.open("r+b") as opened:
            opened.seek(place)
            opened.write(content[: size - place])

    return damage


def flip(at, count):
    """Flip all bits of some bytes."""

    def damage(file):
        content = file.read_bytes()[at : at + count]
        put(at, bytes(byte ^ 0xFF for byte in content))(file)

    return damage


def cut(length):
    return lambda file: os.truncate(file, int(length(file.stat().st_size)))


NOISE = random.Random(1).randbytes(PAGE)
DAMAGES = {
    "bytes flipped in the magic": flip(3, 4),
    "bytes flipped in the page size": flip(16, 2),
    "bytes flipped in the version": flip(60, 4),
    "bytes flipped in the application id": flip(68, 4),
    "bytes flipped in the schema": flip(150, 64),
    "bytes flipped on a page": flip(3 * PAGE + 5, 64),
    "the header zeroed": put(0, bytes(100)),
    "the first page zeroed": put(0, bytes(PAGE)),
    "a block in the middle zeroed": put(0.5, bytes(PAGE)),
    "a block at the end zeroed": put(-4096, bytes(4096)),
    "the first page random": put(0, NOISE),
    "a block in the middle random": put(0.5, NOISE),
    "the whole file random": lambda file: put(0, NOISE * (file.stat().st_size // PAGE))(file),
    "truncated to nothing": cut(lambda size: 0),
    "truncated to one byte": cut(lambda size: 1),
    "truncated inside the header": cut(lambda size: 50),
    "truncated to one page": cut(lambda size: PAGE),
    "truncated to half": cut(lambda size: size / 2),
    "truncated by one byte": cut(lambda size: size - 1),
    "replaced by text": lambda file: file.write_text("not a database"),
    "removed": lambda file: file.unlink(),
}


async def fill(search):
    await search.index.update()
    await search.search("report a bug")
    for _ in range(OUTCOMES):
        await search.record_outcome(ISSUE, success=True)
    await search.index.flush()


async def go_on(search):
    """Do what a server does until everything is restored."""
    await search.search("report a bug")
    await search.index.update()
    await search.index.flush()
    found = await search.search("report a bug", mode=SearchMode.VECTOR)
    usage = await search.index.statistics()
    return str(found.tools[0].entry.id), found.notes, usage.tools[0].observations, usage.searches


def into_the_file(database):
    """Move the log into the file, so that the file has content to damage."""
    with closing(apsw.Connection(str(database))) as connection:
        connection.set_busy_timeout(1000 * PATIENCE)
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_damage_to_the_index_never_loses_vectors_or_the_usage_record(
    settings, root, embedder, damage, is_open
):
    database = settings().db_path

    def opened():
        return ToolSearch(root, settings(), embedder=embedder, refresh=False)

    async def main():
        async with opened() as search:
            await fill(search)
            paid = embedder.embedded
            into_the_file(database)
            if is_open:
                damage(database)
                await go_on(search)
        if not is_open:
            damage(database)
        async with opened() as search:
            assert await go_on(search) == (ISSUE, (), OUTCOMES, 3 + 2 * is_open)
        assert embedder.embedded == paid
        async with opened() as search:
            assert await search.index.check() == ()

    asyncio.run(main())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_the_file_that_cannot_be_rebuilt_is_restored_from_its_daily_copy_and_the_index(
    settings, root, embedder, damage, is_open
):
    database = settings().db_path

    def opened():
        return ToolSearch(root, settings(), embedder=embedder, refresh=False)

    async def main():
        async with opened() as search:
            await fill(search)
            paid = embedder.embedded
            await search.index.tidy()
            into_the_file(ToolIndex.files(database).durable)
            if is_open:
                damage(ToolIndex.files(database).durable)
                await search.search("report a bug")
                await search.index.update()
        if not is_open:
            damage(ToolIndex.files(database).durable)
        async with opened() as search:
            found = await search.search("report a bug", mode=SearchMode.VECTOR)
            await search.index.update(files=False)
            assert (str(found.tools[0].entry.id), found.notes) == (ISSUE, ())
            await search.record_outcome(ISSUE, success=True)
            found = await search.index.statistics()
            assert found.tools[0].observations == OUTCOMES + 1
        assert embedder.embedded == paid
        async with opened() as search:
            assert await search.index.check() == ()

    asyncio.run(main())


def test_a_damaged_index_in_our_cache_folder_is_recognised_as_ours(root, embedder):
    chosen = Settings.from_flags({})
    database = chosen.resolved_database(root)

    async def main():
        for damaged in (False, True):
            async with ToolSearch(root, chosen, embedder=embedder, refresh=False) as search:
                await search.index.update(vectors=False)
                if not damaged:
                    into_the_file(database)
            if not damaged:
                ToolIndex.files(database).durable.unlink()
                put(0, bytes(100))(database)
        assert [file for file in database.parent.iterdir() if ".corrupt-" in file.name]

    asyncio.run(main())


def test_searches_work_when_the_kept_file_cannot_be_opened(settings, root, embedder, caplog):
    database = settings().db_path
    kept = ToolIndex.files(database).durable

    async def main():
        async with ToolSearch(root, settings(), embedder=embedder, refresh=False) as search:
            await fill(search)
        kept.unlink()
        kept.mkdir()
        async with ToolSearch(root, settings(), embedder=embedder, refresh=False) as search:
            found = await search.search("report a bug")
            assert str(found.tools[0].entry.id) == ISSUE
            assert found.notes[-1].startswith(f"the usage record is not used: {kept}: ")
            assert await search.record_outcome(ISSUE, success=True) is Recording.READ_ONLY
        assert f"so it is used as it is: {kept}: this is a folder" in caplog.text

    asyncio.run(main())


@pytest.mark.parametrize("part", ["main", "durable"])
def test_a_warning_names_the_file_that_was_damaged(settings, root, embedder, caplog, part):
    file = getattr(ToolIndex.files(Path(settings().db_path)), part)

    async def main():
        async with ToolSearch(root, settings(), embedder=embedder, refresh=False) as search:
            await fill(search)
            await search.index.tidy()
        DAMAGES["the first page random"](file)
        async with ToolSearch(root, settings(), embedder=embedder, refresh=False):
            assert f"{file} was damaged: it was renamed to {file}.corrupt-" in caplog.text
            assert ("was restored from its copy" in caplog.text) == (part == "durable")

    asyncio.run(main())


def test_status_says_when_the_durable_file_was_restored(settings, root, embedder, capsys):
    database = Path(settings().db_path)

    async def use():
        async with ToolSearch(root, settings(), embedder=embedder, refresh=False) as search:
            await fill(search)
            await search.index.tidy()

    asyncio.run(use())
    options = ["--root", str(root), "--database", str(database)]
    for is_lost in (False, True):
        if is_lost:
            DAMAGES["the first page random"](ToolIndex.files(database).durable)
        with pytest.raises(SystemExit, match="0"):
            main(["status", *options])
        shown = capsys.readouterr().out
        told = "restored:    less than a minute ago from the backup of less than a minute ago"
        assert (told in shown) == is_lost, shown
