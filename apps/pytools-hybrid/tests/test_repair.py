"""An index damaged during many searches is repaired once, and no search fails."""

import asyncio
import sys
from contextlib import closing

import apsw
import pytest
from pytools_hybrid import ToolSearch
from toolindex import ToolIndex

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows keeps open files from being renamed"
)

PAGE = 16384
MANY = 40


def damage(database, table):
    """Overwrite a table's first page in the file, not in the log."""
    with closing(apsw.Connection(str(database))) as connection:
        connection.set_busy_timeout(5000)
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    with database.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)


def remove(database, _table):
    for file in database.parent.glob("index.db*"):
        file.unlink()


@pytest.mark.parametrize(
    ("breaks", "table", "kept"),
    [
        (damage, "entries", 1),
        (damage, "entries_fts_data", 1),
        (damage, "models", 1),
        (remove, "", 0),
    ],
    ids=["tools", "words", "models", "removed"],
)
def test_concurrent_searches_of_a_damaged_index_share_one_rebuild(
    settings, root, breaks, table, kept
):
    database = settings().db_path

    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            await search.index.update()
            breaks(database, table)
            return await asyncio.gather(
                *(search.search(f"report a bug {number}") for number in range(MANY))
            )

    responses = asyncio.run(main())

    for response in responses:
        assert str(response.tools[0].entry.id) == "mcptools:github:create_issue"
    # Each may have its log beside it.
    names = [file.name for file in database.parent.iterdir()]
    aside = [name for name in names if ".corrupt-" in name]
    assert len({name.removesuffix("-wal").removesuffix("-shm") for name in aside}) == kept


WRONG = {
    "an invalid generation": "UPDATE meta SET value = 'x' WHERE key = 'generation'",
    "an invalid counter": "UPDATE kept.counters SET value = 'x'",
    "parameters that are not JSON": "UPDATE entries SET parameters = '{'",
    "tags of another type": "UPDATE entries SET tags = '7'",
    "an invalid id": "UPDATE entries SET id = 'x' || rowid",
    "a missing table": "DROP TABLE entries",
    "a missing column": "ALTER TABLE entries DROP COLUMN summary",
    "a missing vector table": "DROP TABLE entries_vec_vector_chunks00",
    "a chunk that is too short": "UPDATE entries_vec_vector_chunks00 SET vectors = x'00'",
    "a chunk without its rows": "UPDATE entries_vec_chunks SET rowids = x'00'",
    "missing models": "DELETE FROM models",
}


@pytest.mark.parametrize("statement", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("searches", [1, 4], ids=["once", "often"])
def test_an_index_with_impossible_values_is_repaired_by_a_search_or_a_refresh(
    settings, root, statement, searches
):
    """A command searches once; a server searches often, and uses another method after a while."""

    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            await search.index.update()
        with closing(apsw.Connection(str(settings().db_path))) as connection:
            connection.execute(
                "ATTACH ? AS kept", (str(ToolIndex.files(settings().db_path).durable),)
            )
            connection.execute(statement)
        async with ToolSearch(root, settings(), refresh=False) as search:
            for _ in range(searches):
                await search.search("report a bug")
            await search.index.update()
            return await search.search("report a bug", mode="vector"), await search.search("bug")

    by_meaning, by_words = asyncio.run(main())

    assert by_meaning.notes == by_words.notes == ()
    assert str(by_meaning.tools[0].entry.id) == "mcptools:github:create_issue"
    assert str(by_words.tools[0].entry.id) == "mcptools:github:create_issue"


def test_the_state_of_a_damaged_index_is_that_of_the_rebuilt_one(settings, root):
    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            await search.index.update(vectors=False)
            with closing(apsw.Connection(str(settings().db_path))) as connection:
                connection.execute("UPDATE meta SET value = 'x' WHERE key = 'generation'")
            repaired = await search.index.state()
            await search.index.update(vectors=False)
            return repaired, await search.index.state()

    repaired, refreshed = asyncio.run(main())

    assert (repaired.coverage.tools, refreshed.coverage.tools) == (0, 4)
    assert refreshed.generation > repaired.generation


def test_a_restored_older_copy_of_the_index_is_never_taken_for_the_newer_one(
    settings, root, write_tool
):
    database = settings().db_path
    backup = database.with_name("backup.db")

    async def texts(search):
        return [found.entry.description for found in (await search.search("commits")).tools]

    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            await search.index.update(vectors=False)
        backup.write_bytes(database.read_bytes())
        async with ToolSearch(root, settings(), refresh=False) as search:
            write_tool("mcptools/github/list_commits.py", "Show commits in one way.")
            await search.index.update(vectors=False)
            assert "Show commits in one way." in await texts(search)
            backup.replace(database)
            write_tool("mcptools/github/list_commits.py", "Show commits in another way.")
            await search.index.update(vectors=False)
            return await texts(search)

    found = asyncio.run(main())

    assert "Show commits in another way." in found
    assert "Show commits in one way." not in found
