"""The product as one object: what is found, and what is said when something is lost."""

import asyncio
import shutil

import apsw
import pytest
from pytools_hybrid import Scope, SearchMode, ToolSearch
from toolembed import EmbeddingError
from toolindex import DatabaseBusyError, DatabaseError, ForeignRootError


def ids(response):
    return [str(found.entry.id) for found in response.tools]


def use(settings, root, job):
    """Run an async function on an open ToolSearch."""

    async def with_search():
        async with ToolSearch(root, settings, refresh=False) as search:
            return await job(search)

    return asyncio.run(with_search())


async def indexed(search):
    await search.index.refresh()
    await search.index.embed_pending()
    return search


def test_tools_are_found_before_anything_is_embedded(settings, root):
    async def job(search):
        await search.index.refresh()
        return await search.search("report a bug")

    response = use(settings(), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"
    assert "0 of 4 tools have vectors so far" in response.notes[0]


def test_a_paraphrase_is_found_by_meaning(settings, root):
    async def job(search):
        return await (await indexed(search)).search("combine papers", mode=SearchMode.VECTOR)

    response = use(settings(), root, job)

    assert ids(response)[0] == "mcptools:pdf:merge_pdfs"
    assert response.notes == ()


def test_each_text_is_embedded_once(settings, root, write_tool):
    async def job(search):
        await search.index.refresh()
        counts = [await search.index.embed_pending(), await search.index.embed_pending()]
        write_tool("mcptools/pdf/rotate.py", "Turn the pages of a document around.")
        await search.index.refresh()
        return [*counts, await search.index.embed_pending()]

    assert use(settings(), root, job) == [4, 0, 1]


def test_the_scope_holds_in_every_mode(settings, root):
    async def job(search):
        await indexed(search)
        return [
            await search.search("name of a file", mode=mode, scope=Scope.GENTOOLS)
            for mode in SearchMode
        ]

    for response in use(settings(), root, job):
        assert ids(response) == ["gentools:text:slugify"]


@pytest.mark.parametrize("limit", [0, 51, -1])
def test_a_limit_out_of_range_is_refused(settings, root, limit):
    async def job(search):
        await search.search("anything", limit=limit)

    with pytest.raises(ValueError, match="from 1 to 50"):
        use(settings(), root, job)


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_a_confidence_out_of_range_is_refused(settings, root, confidence):
    async def job(search):
        await search.search("anything", threshold=confidence)

    with pytest.raises(ValueError, match="from 0 to 1"):
        use(settings(), root, job)


def test_without_a_model_hybrid_search_is_by_words_and_says_nothing_of_it(settings, root):
    async def job(search):
        await indexed(search)
        return await search.search("report a bug")

    response = use(settings(embedding_model="none"), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"
    assert response.notes == ()


def test_without_a_model_vector_search_falls_back_to_words_and_says_so(settings, root):
    async def job(search):
        await indexed(search)
        return await search.search("report a bug", mode=SearchMode.VECTOR)

    response = use(settings(embedding_model="none"), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"
    assert "turned off" in response.notes[0]


def test_the_offline_model_answers_for_one_that_fails_and_the_reason_is_told(settings, root):
    async def job(search):
        await search.index.refresh()
        with pytest.raises(EmbeddingError):
            await search.index.embed_pending()
        return await search.search("report a bug")

    response = use(settings(embedding_model="openai:text-embedding-3-small"), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"
    assert response.model.startswith("static:")
    assert "searched with vectors of static:" in response.notes[0]
    assert "openai" in response.notes[0]


def test_vectors_of_another_model_are_not_compared_with_the_query(settings, root):
    use(settings(), root, indexed)

    async def job(search):
        return await search.search("report a bug", mode=SearchMode.VECTOR)

    response = use(settings(embedding_model="test", embedding_dim=256), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"
    assert "static:tools2" in response.notes[0]


def test_a_weight_of_zero_switches_a_channel_off(settings, root):
    async def job(search):
        await indexed(search)
        return await search.search("bug")

    by_words = use(settings(vec_weight=0), root, job)
    by_meaning = use(settings(bm25_weight=0), root, job)

    assert ids(by_words) == ["mcptools:github:create_issue"]
    assert len(ids(by_meaning)) == 4


def test_a_query_is_answered_by_words_when_the_only_weighted_channel_is_lost(settings, root):
    async def job(search):
        await search.index.refresh()
        return await search.search("report a bug")

    response = use(settings(bm25_weight=0), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"


@pytest.mark.parametrize("fusion", ["linear", "rrf"])
def test_both_fusions_give_scores_within_zero_and_one(settings, root, fusion):
    async def job(search):
        await indexed(search)
        return await search.search("open a new issue to report a bug")

    response = use(settings(fusion=fusion), root, job)

    assert ids(response)[0] == "mcptools:github:create_issue"
    scores = [found.score for found in response.tools]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_an_empty_tree_and_an_empty_query_are_told_apart(settings, root, tmp_path):
    async def job(search):
        await indexed(search)
        return await search.search("   ")

    assert "no words" in use(settings(), root, job).notes[0]
    use(settings(), root, lambda search: search.index.refresh())
    shutil.rmtree(root)
    root.mkdir()
    assert "no tools in" in use(settings(), root, job).notes[0]


def test_words_that_no_tool_has_give_an_empty_answer_with_advice(settings, root):
    async def job(search):
        await indexed(search)
        return await search.search("zxqv", mode=SearchMode.BM25)

    response = use(settings(), root, job)

    assert response.tools == ()
    assert "try other words" in response.notes[0]


def test_a_lone_surrogate_in_a_query_is_only_a_strange_character(settings, root):
    async def job(search):
        await indexed(search)
        return await search.search("report a bug \ud800 \0")

    assert ids(use(settings(), root, job))[0] == "mcptools:github:create_issue"


def test_a_database_in_a_place_that_cannot_be_is_an_error(settings, root, tmp_path):
    (tmp_path / "file").touch()

    async def job(search):
        return None

    with pytest.raises(DatabaseError, match="file"):
        use(settings(db_path=tmp_path / "file" / "index.db"), root, job)


def test_it_cannot_be_used_outside_its_block(settings, root):
    with pytest.raises(RuntimeError, match="async with"):
        _ = ToolSearch(root, settings(), refresh=False).index.store


@pytest.mark.parametrize("query", ["???", "{}[]", "*" * 1000, "\0", "\u200b"])
def test_a_query_without_words_finds_nothing_rather_than_anything(settings, root, query):
    async def job(search):
        return await (await indexed(search)).search(query)

    response = use(settings(), root, job)

    assert response.tools == ()
    assert "no words" in response.notes[0]


def test_a_second_tree_cannot_take_over_the_index_of_the_first(settings, root, tmp_path):
    use(settings(), root, indexed)
    (tmp_path / "other").mkdir()

    with pytest.raises(ForeignRootError, match="choose another path"):
        use(settings(), tmp_path / "other", indexed)

    async def job(search):
        return await search.search("bug")

    assert ids(use(settings(), root, job))[0] == "mcptools:github:create_issue"


def test_a_tree_that_has_moved_keeps_its_index_and_its_vectors(settings, root, tmp_path):
    use(settings(), root, indexed)
    moved = root.rename(tmp_path / "moved")

    async def job(search):
        await search.index.refresh()
        return await search.index.embed_pending()

    assert use(settings(), moved, job) == 0


def test_an_answer_from_an_index_that_could_not_be_refreshed_says_so(settings, root, write_tool):
    async def job(search):
        await indexed(search)
        write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
        other = apsw.Connection(str(search.index.store.path))
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(DatabaseBusyError):
                await search.index.refresh()
            while_locked = await search.search("bug")
        finally:
            other.close()
        await indexed(search)
        return while_locked, await search.search("bug")

    while_locked, after = use(settings(), root, job)

    assert ids(while_locked)[0] == "mcptools:github:create_issue"
    assert "may be out of date" in while_locked.notes[0]
    assert after.notes == ()


def test_the_root_may_be_text(settings, root):
    async def job(search):
        return await (await indexed(search)).search("bug")

    assert ids(use(settings(), str(root), job))


def test_a_pasted_book_is_a_query_like_any_other(settings, root):
    """What it begins with is found by words; by meaning it is about what it says most."""

    async def job(search):
        await indexed(search)
        book = "report a bug " + "word " * 1_000_000
        return [await search.search(book, mode=mode) for mode in SearchMode]

    hybrid, by_words, by_meaning, _ = use(settings(), root, job)

    assert ids(by_words)[0] == "mcptools:github:create_issue"
    assert {*ids(hybrid)} == {*ids(by_meaning)} >= {"mcptools:github:create_issue"}
    assert all(response.notes == () for response in (hybrid, by_words, by_meaning))
