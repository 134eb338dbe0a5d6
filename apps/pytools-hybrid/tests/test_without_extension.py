"""A machine that cannot load sqlite-vec: searches continue, and say what they use instead."""

import asyncio

import pytest
from pytools_hybrid import SearchMode, ToolSearch

MERGE = "mcptools:pdf:merge_pdfs"
REQUEST = "several documents into one"


def answer(root, settings, **options):
    """Bring the index up to date, search it twice, and return the second answer."""

    async def main():
        async with ToolSearch(root, settings) as tools:
            await tools.search("warm", **options)
            return await tools.search(REQUEST, **options), (await tools.probe()).notes

    return asyncio.run(main())


def scores(response):
    return {str(found.entry.id): pytest.approx(found.score, abs=1e-5) for found in response.tools}


@pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.VECTOR])
def test_numpy_finds_the_same_as_the_extension(toolbox, settings, request, mode):
    able, silent = answer(toolbox, settings(), mode=mode)
    request.getfixturevalue("without_sqlite_vec")

    for database in ("index.db", "another.db"):
        lacking, told = answer(
            toolbox, settings(db_path=toolbox.parent / database), mode=mode, limit=5
        )
        assert scores(lacking) == scores(able)
        assert lacking.coverage == able.coverage
        for notes in (lacking.notes, told):
            assert len(notes) == 1
            assert notes[0].startswith("sqlite-vec cannot be loaded (")
            assert "searched with numpy instead" in notes[0]
    assert (able.notes, silent) == ((), ())


@pytest.mark.usefixtures("without_sqlite_vec")
@pytest.mark.parametrize("mode", [SearchMode.BM25, SearchMode.FUZZY])
def test_searches_by_words_do_not_mention_it(root, settings, mode):
    response, _ = answer(root, settings(), mode=mode)
    assert (response.notes, bool(response.tools)) == ((), True)


@pytest.mark.usefixtures("without_sqlite_vec")
def test_without_a_model_it_is_not_mentioned(root, settings):
    response, told = answer(root, settings(embedding_model="none"))
    assert (response.notes, told) == ((), ())
    assert MERGE in scores(response)


@pytest.mark.usefixtures("without_sqlite_vec", "without_numpy")
@pytest.mark.parametrize("model", ["static", "openai:stub"])
def test_without_numpy_either_searches_use_words(root, settings, openai, model):
    response, told = answer(root, settings(embedding_model=model))

    assert MERGE in scores(response)
    assert "Vector search unavailable" in response.lost[0]
    for notes in (response.notes, told):
        assert "numpy cannot be imported, so searches use words alone" in notes[0]


@pytest.mark.usefixtures("without_sqlite_vec", "without_numpy")
def test_without_numpy_a_providers_vectors_are_kept_for_later(root, settings, openai):
    async def main():
        async with ToolSearch(root, settings(embedding_model="openai:stub")) as tools:
            await tools.index.update()

    for _ in range(2):
        asyncio.run(main())
        assert len(openai.texts) == 4


def test_a_server_without_the_extension_does_not_remove_the_vectors_of_one_with_it(
    root, settings, write_tool, request
):
    async def main():
        async with ToolSearch(root, settings()) as able:
            request.getfixturevalue("without_sqlite_vec")
            async with ToolSearch(root, settings()) as lacking:
                write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
                await lacking.index.update(vectors=False)
                between = await able.search(REQUEST, mode=SearchMode.VECTOR)
                await lacking.index.update(files=False)
                after = await able.search("feed the penguins", mode=SearchMode.VECTOR)
                await able.index.update(files=False)
                end = await able.search("feed the penguins", mode=SearchMode.VECTOR)
                return between, after, end

    between, after, end = asyncio.run(main())
    assert between.notes == ("4 of 5 tools have vectors so far",)
    assert next(iter(scores(between))) == MERGE
    assert (after.notes, scores(after)) == ((), scores(end))
    assert next(iter(scores(after))) == "mcptools:zoo:feed"
