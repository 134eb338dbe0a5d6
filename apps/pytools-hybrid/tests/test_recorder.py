"""The usage record: written in the background, complete, optional, and never delaying a search."""

import asyncio
import logging
from contextlib import closing, suppress

import apsw
import pytest
from pytools_hybrid import DetailLevel, Scope, SearchMode, ToolSearch
from pytools_hybrid.index import Recorder, Recording, SQLiteStore
from toolindex import SearchRecord, ToolFilter, ToolIndex, ToolIndexError

from .conftest import PATIENCE


def use(settings, root, job):
    """Run an async function on an open ToolSearch whose index is up to date."""

    async def main():
        async with ToolSearch(root, settings, refresh=False) as search:
            await search.index.update(vectors=False)
            return await job(search)

    return asyncio.run(main())


def rows(settings, sql="SELECT query FROM searches ORDER BY rowid"):
    kept, flags = str(ToolIndex.files(settings.db_path).durable), apsw.SQLITE_OPEN_READONLY
    with closing(apsw.Connection(kept, flags=flags)) as opened:
        return [row if len(row) > 1 else row[0] for row in opened.execute(sql)]


@pytest.fixture
def by_words(settings):
    def make(**values):
        return settings(embedding_model="none", **values)

    return make


def test_a_record_contains_the_request_and_the_answer(by_words, root):
    async def job(search):
        return await search.search(
            "report a bug",
            mode=SearchMode.VECTOR,
            scope=Scope.MCPTOOLS,
            where=ToolFilter(categories=["github"]),
            limit=3,
        )

    response = use(by_words(), root, job)

    ((id_, mode, parameters, results, latency, degraded),) = rows(
        by_words(), "SELECT id, mode, parameters, results, latency_ms, degraded FROM searches"
    )
    assert id_ == response.search_id
    assert mode == "vector"
    assert parameters == '{"limit": 3, "source": "mcptools", "categories": ["github"]}'
    assert results.startswith('["mcptools:github:create_issue"')
    assert latency > 0
    assert "vectors are turned off" in degraded


def test_without_a_usage_log_nothing_is_recorded(by_words, root):
    async def job(search):
        response = await search.search("report a bug")
        await search.record_outcome(
            "mcptools:github:create_issue", success=True, search_id=response.search_id
        )
        return await search.index.statistics()

    statistics = use(by_words(usage_log=False), root, job)

    assert rows(by_words()) == []
    assert rows(by_words(), "SELECT count(*) FROM outcomes") == [0]
    assert statistics.searches == 0


def test_turning_off_the_usage_log_deletes_the_record_at_the_next_cleanup(by_words, root):
    async def one_search(search):
        await search.search("report a bug")

    use(by_words(), root, one_search)
    use(by_words(usage_log=False), root, lambda search: search.index.tidy())

    assert rows(by_words()) == []


def test_a_locked_database_delays_the_record_but_no_search_fails(
    by_words, root, caplog, monkeypatch
):
    caplog.set_level(logging.INFO, logger="pytools_hybrid")

    async def job(search):
        flush, flushed_by = search.index.recorder.flush, []

        async def noted_flush():
            flushed_by.append(asyncio.current_task())
            return await flush()

        monkeypatch.setattr(search.index.recorder, "flush", noted_flush)
        with closing(apsw.Connection(str(search.index.store.path))) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await search.search("report a bug")).tools
            tool = "mcptools:github:create_issue"
            assert await search.record_outcome(tool, success=True) is Recording.PENDING
            assert "not recorded yet" in caplog.text
            flushed_by.clear()
            assert (await search.describe(tool, DetailLevel.FULL)).usage == {"observations": 0}
            assert (await search.index.statistics()).searches == 0
            # The recorder itself may have tried again in the meantime.
            assert asyncio.current_task() not in flushed_by, "reads do not wait for writes"
            other.execute("ROLLBACK")
        # No other search is needed: there may be none.
        async with asyncio.timeout(PATIENCE):
            while rows(by_words(), "SELECT tool_id FROM outcomes") != [tool]:
                await asyncio.sleep(0.05)
        assert rows(by_words()) == ["report a bug"]

    use(by_words(), root, job)


def record(number):
    return SearchRecord(
        id=f"{number}", at=number, query=f"query {number}", mode="bm25", results=(), latency_ms=1.0
    )


def test_pending_records_are_limited_and_the_oldest_are_dropped_first(tmp_path):
    path = tmp_path / "index.db"

    async def main():
        with SQLiteStore(path) as store:
            recorder = Recorder(store, keeps_searches=True)
            for number in range(1_500):
                recorder.search(record(number))
            await recorder.aclose()
            with store.reading() as reader:
                return reader.connection.execute(
                    "SELECT count(*), min(at), max(at) FROM searches"
                ).get

    assert asyncio.run(main()) == (1_000, 500, 1_499)


def test_searches_recorded_during_a_write_are_not_lost(tmp_path):
    async def main():
        with SQLiteStore(tmp_path / "index.db") as store:
            recorder = Recorder(store, keeps_searches=True)
            writing = []
            for number in range(200):
                recorder.search(record(number))
                if number % 20 == 0:
                    writing.append(asyncio.create_task(recorder.flush()))
                await asyncio.sleep(0)
            await asyncio.gather(*writing)
            await recorder.aclose()
            with store.reading() as reader:
                return reader.connection.execute("SELECT count(*) FROM searches").get

    assert asyncio.run(main()) == 200


PAGE = 16384


@pytest.mark.parametrize("table", ["searches", "outcomes"])
def test_a_damaged_usage_record_is_set_aside_and_restarted(by_words, root, table):
    async def fill(search):
        await search.search("report a bug")
        await search.record_outcome("mcptools:github:create_issue", success=True)

    use(by_words(), root, fill)
    (page,) = rows(by_words(), f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
    with ToolIndex.files(by_words().db_path).durable.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)

    async def go_on(search):
        for _ in range(2):
            assert (await search.search("report a bug")).tools
            with suppress(ToolIndexError):
                await search.record_outcome("mcptools:github:create_issue", success=True)
            with suppress(ToolIndexError):
                await search.index.statistics()

    use(by_words(), root, go_on)

    assert rows(by_words(), "SELECT max(query) FROM searches") == ["report a bug"]
    assert rows(by_words(), "SELECT max(tool_id || at) IS NULL FROM outcomes") == [0]
