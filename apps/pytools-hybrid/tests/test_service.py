"""`ToolSearch`: what it finds, and its notes when a channel is lost."""

import asyncio
import shutil
from contextlib import contextmanager

import apsw
import pytest
from pytools_hybrid import SearchMode, ToolSearch
from toolindex import DatabaseBusyError


def ids(response):
    return [str(found.entry.id) for found in response.tools]


def use(settings, root, job):
    """Run an async function on an open ToolSearch."""

    async def with_search():
        async with ToolSearch(root, settings, refresh=False) as search:
            return await job(search)

    return asyncio.run(with_search())


async def indexed(search):
    await search.index.update()
    return search


def test_without_a_model_vector_search_falls_back_to_words_and_says_so(settings, root):
    async def job(search):
        await indexed(search)
        return await search.search("report a bug", mode=SearchMode.VECTOR)

    response = use(settings(embedding_model="none"), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"
    assert "turned off" in response.notes[0]


def test_words_answer_when_the_only_weighted_channel_is_lost(settings, root):
    async def job(search):
        await search.index.update(vectors=False)
        return await search.search("report a bug")

    response = use(settings(bm25_weight=0), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"


def test_an_empty_tree_and_an_empty_query_have_different_notes(settings, root, tmp_path):
    async def job(search):
        await indexed(search)
        return await search.search("   ")

    assert "no words" in use(settings(), root, job).notes[0]
    use(settings(), root, lambda search: search.index.update(vectors=False))
    shutil.rmtree(root)
    root.mkdir()
    assert "no tools in" in use(settings(), root, job).notes[0]


def test_a_request_with_unknown_words_returns_an_empty_answer_with_advice(settings, root):
    async def job(search):
        await indexed(search)
        return await search.search("zxqv", mode=SearchMode.BM25)

    response = use(settings(), root, job)

    assert response.tools == ()
    assert "Rephrase the query" in response.notes[0]


def test_a_moved_tree_keeps_its_index_and_vectors(settings, root, tmp_path):
    use(settings(), root, indexed)
    moved = root.rename(tmp_path / "moved")

    async def job(search):
        await search.index.update(vectors=False)
        return (await search.index.update(files=False)).embedded

    assert use(settings(), moved, job) == 0


def test_an_answer_from_an_index_that_could_not_be_refreshed_says_so(settings, root, write_tool):
    async def job(search):
        await indexed(search)
        write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
        other = apsw.Connection(str(search.index.store.path))
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(DatabaseBusyError):
                await search.index.sync.update()
            while_locked = await search.search("bug")
        finally:
            other.close()
        await indexed(search)
        return while_locked, await search.search("bug")

    while_locked, after = use(settings(), root, job)

    assert ids(while_locked)[0] == "mcptools:github:create_issue"
    assert "may be out of date" in while_locked.notes[0]
    assert after.notes == ()


def test_the_root_may_be_a_string(settings, root):
    async def job(search):
        return await (await indexed(search)).search("bug")

    assert ids(use(settings(), str(root), job))


def test_the_answer_of_a_read_that_failed_at_its_end_is_not_used_again(settings, root, monkeypatch):
    async def job(search):
        await indexed(search)
        store, read = search.index.store, search.index.store.reading

        @contextmanager
        def fail_at_the_end():
            with read() as reader:
                # As if the server of a shared index had stopped while this was read.
                monkeypatch.setattr(reader, "lexical", lambda *_, **__: [])
                yield reader
            raise DatabaseBusyError(store.where)

        monkeypatch.setattr(store, "reading", fail_at_the_end)
        with pytest.raises(DatabaseBusyError):
            await search.search("report a bug", mode=SearchMode.BM25)
        monkeypatch.setattr(store, "reading", read)
        return await search.search("report a bug", mode=SearchMode.BM25)

    assert ids(use(settings(), root, job))[0] == "mcptools:github:create_issue"
