"""An index that breaks while many search it: mended once, and nobody is told an error."""

import asyncio
import sys
from contextlib import closing

import apsw
import pytest
from pytools_hybrid import ToolSearch

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows keeps open files from being renamed"
)

PAGE = 16384
MANY = 40


def damage(database, table):
    """Break a table's first page, where it lies in the file and not in the log."""
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
def test_many_searches_that_find_the_index_broken_are_all_answered_by_one_new_index(
    settings, root, breaks, table, kept
):
    database = settings().db_path

    async def main():
        async with ToolSearch(settings(), root) as search:
            await search.refresh()
            await search.embed_pending()
            breaks(database, table)
            return await asyncio.gather(
                *(search.search(f"report a bug {number}") for number in range(MANY))
            )

    responses = asyncio.run(main())

    for response in responses:
        assert str(response.tools[0].entry.id) == "mcptools:github:create_issue"
    # Each with its log beside it, or without.
    names = [file.name for file in database.parent.iterdir()]
    aside = [name for name in names if ".corrupt-" in name]
    assert len({name.removesuffix("-wal").removesuffix("-shm") for name in aside}) == kept
