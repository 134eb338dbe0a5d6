"""A provider that changes the length of its vectors under the same model name."""

import asyncio
import re
import threading

import pytest
from pytools_hybrid import SearchMode, ToolSearch
from pytools_hybrid.index import embed as _embed
from pytools_hybrid.index import follow as _follow
from pytools_hybrid.reports.doctor import Status, checks
from toolembed import EmbeddingError
from toolindex import ToolIndex, VectorError

from .conftest import PATIENCE
from .openai_stub import Reply

MODEL = "openai:stub"
REQUEST = "several documents into one"
MERGE = "mcptools:pdf:merge_pdfs"
FIRST, THEN = 37, 32


@pytest.fixture
def use(root, settings):
    """Run an async function on an open search."""

    def run(job, **options):
        async def main():
            options.setdefault("refresh", False)
            # The watcher begins with a scan, after which a server would embed again.
            made = settings(embedding_model=MODEL, watch=False)
            async with ToolSearch(root, made, **options) as tools:
                return await job(tools)

        return asyncio.run(main())

    return run


@pytest.fixture
def embedded(use, openai):
    """An index whose tools all have vectors of the first length."""
    use(bring_up_to_date)
    openai.requests.clear()


async def bring_up_to_date(tools):
    """Do what the command `index` does."""
    await tools.index.update(vectors=False)
    change = await tools.index.vectors.compare_dimensions()
    embedded = (await tools.index.update(files=False)).raise_for_error().embedded
    await tools.index.tidy()
    return change, embedded


async def rebuild(tools):
    await tools.index.rebuild(forget_vectors=True)
    return await bring_up_to_date(tools)


async def search(tools, text=REQUEST):
    return await tools.search(text, mode=SearchMode.VECTOR)


def counts(tmp_path):
    """Count the tools with a vector of each length."""
    with ToolIndex(tmp_path / "index.db") as index, index.reading() as reader:
        return {n: reader.coverage(MODEL, dimensions=n).vectors for n in (5, THEN, FIRST)}


@pytest.mark.usefixtures("embedded")
def test_indexing_reports_the_change_embeds_everything_again_and_keeps_the_old_vectors(
    use, openai, tmp_path
):
    assert use(bring_up_to_date) == ("", 0)

    openai.dimensions = THEN
    change, embedded = use(bring_up_to_date)

    assert "now returns vectors of 32 dimensions, those in the index have 37" in change
    assert embedded == 4
    assert counts(tmp_path) == {5: 0, THEN: 4, FIRST: 4}
    found = use(search)
    assert (found.notes, str(found.tools[0].entry.id)) == ((), MERGE)
    assert use(bring_up_to_date) == ("", 0)


@pytest.mark.usefixtures("embedded")
def test_a_rebuild_deletes_nothing_and_embeds_everything_again(use, openai, tmp_path):
    openai.dimensions = THEN
    assert use(rebuild)[1] == 4
    assert counts(tmp_path) == {5: 0, THEN: 4, FIRST: 4}
    assert use(rebuild)[1] == 4, "even with vectors of the same length"
    assert use(search).notes == ()


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("dimensions", [FIRST, THEN])
def test_an_interrupted_rebuild_continues_where_it_stopped(
    use, openai, tmp_path, monkeypatch, dimensions
):
    openai.dimensions = dimensions
    openai.respond = lambda texts: (
        Reply(status=401) if len(openai.requests) > 1 else openai.healthy(texts)
    )
    with pytest.raises(EmbeddingError):
        use(rebuild)
    assert counts(tmp_path) == {5: 0, THEN: 0, FIRST: 4}

    openai.respond = openai.healthy
    assert use(bring_up_to_date)[1] == 4
    assert use(bring_up_to_date)[1] == 0
    assert counts(tmp_path)[dimensions] == 4


@pytest.mark.usefixtures("embedded")
def test_a_search_falls_back_to_words_and_says_what_to_do(use, openai):
    openai.dimensions = THEN
    found = use(search)
    assert "returned 32-dimensional vectors, the index has 37" in found.notes[0]
    assert "Run pytools-hybrid index." in found.notes[0]
    assert [str(it.entry.id) for it in found.tools] == [MERGE]


@pytest.mark.usefixtures("embedded")
def test_a_server_embeds_everything_again_by_itself(use, openai, tmp_path, monkeypatch):
    openai.dimensions = THEN
    monkeypatch.setattr(_follow, "_FIRST_EMBEDDING_SECONDS", PATIENCE)

    async def job(tools):
        first = await search(tools)
        async with asyncio.timeout(PATIENCE):
            while (await search(tools, "join papers")).notes:
                await asyncio.sleep(0.05)
        return first

    assert "-dimensional vectors" in use(job, refresh=True, follow=True).notes[0]
    assert counts(tmp_path) == {5: 0, THEN: 4, FIRST: 4}


@pytest.mark.usefixtures("embedded")
def test_a_provider_that_changes_back_finds_its_earlier_vectors(use, openai):
    openai.dimensions = THEN
    use(bring_up_to_date)
    openai.dimensions = FIRST
    openai.requests.clear()

    found = use(lambda tools: search(tools, "join papers"))
    assert found.coverage.vectors == 4
    assert found.notes == ()
    assert use(bring_up_to_date)[1] == 0


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("searches", [True, False])
def test_another_length_for_a_moment_costs_no_tool_its_vector(
    use, openai, write_tool, tmp_path, monkeypatch, searches
):
    monkeypatch.setattr(_embed, "_RECHECK_SECONDS", 0.2)
    monkeypatch.setattr(_follow, "_REFUSED_SECONDS", 0.2)

    async def job(tools):
        openai.dimensions = 5
        write_tool("mcptools/many/tool.py", "Do the work.")
        await tools.index.update(vectors=False)
        async with asyncio.timeout(PATIENCE):
            while counts(tmp_path)[5] < 5:
                await asyncio.sleep(0.05)
        openai.dimensions = FIRST
        async with asyncio.timeout(PATIENCE):
            while counts(tmp_path)[FIRST] < 5:
                if searches:
                    await search(tools, "join papers")
                await asyncio.sleep(0.05)

    use(job, refresh=True, follow=True)


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_single_answer_of_the_wrong_length_changes_nothing(use, openai, tmp_path, wrong):
    """It is the first answer for tools, the first for a query, or one in between."""
    openai.dimensions = FIRST

    def answer(texts):
        if len(openai.requests) == wrong + 1:
            return Reply(rows=[[1.0] * 5 for _ in texts])
        return openai.healthy(texts)

    openai.respond = answer
    use(bring_up_to_date)
    use(bring_up_to_date)
    found = use(search)
    assert (found.notes, str(found.tools[0].entry.id)) == ((), MERGE)
    assert counts(tmp_path)[FIRST] == 4


@pytest.mark.usefixtures("embedded")
def test_a_wrong_answer_to_a_query_costs_one_request(use, openai):
    async def job(tools):
        await search(tools, "first")
        openai.respond = lambda texts: (
            Reply(rows=[[1.0] * 5]) if len(openai.requests) == 2 else openai.healthy(texts)
        )
        return await search(tools)

    assert use(job).notes == ()
    assert len(openai.requests) == 3


def test_a_change_between_two_batches_still_embeds_every_tool(use, openai, write_tool, tmp_path):
    for number in range(130):
        write_tool(f"mcptools/many/tool_{number}.py", f"Do the work of number {number}.")
    lock, dimensions = threading.Lock(), iter([FIRST])

    def answer(texts):
        with lock:
            openai.dimensions = next(dimensions, THEN)
            return openai.healthy(texts)

    openai.respond = answer
    use(bring_up_to_date)
    assert counts(tmp_path)[THEN] == 134
    assert use(bring_up_to_date)[1] == 0


@pytest.mark.usefixtures("embedded")
def test_doctor_compares_the_models_vectors_with_those_in_the_index(openai, settings, root):
    checked = checks(settings(root=[root], embedding_model=MODEL))
    (check,) = [it for it in checked if it.name == "embedder"]
    assert check.run().status is Status.OK

    openai.dimensions = THEN
    verdict = check.run()
    assert verdict.status is Status.WARNING
    assert re.search("32 dimensions in .* the 4 vectors in the index have 37", verdict.message)
    assert verdict.remedy.startswith("pytools-hybrid index --root")


def test_a_model_with_too_long_vectors_is_reported_and_asked_once_for_the_tools(use, openai):
    openai.dimensions = 8_193

    async def job(tools):
        await tools.index.update(vectors=False)
        for _ in range(3):
            with pytest.raises(VectorError, match="an index allows at most 8,192"):
                await tools.index.vectors.embed()
        return await tools.search("merge pdf")

    found = use(job)

    assert len(openai.requests) == 1
    assert found[0].id == MERGE
    assert "an index allows at most 8,192" in found.notes[0]


def test_a_model_with_too_long_vectors_is_asked_for_at_most_one_query(use, openai):
    openai.dimensions = 8_193

    async def job(tools):
        await tools.index.update(vectors=False)
        return [await tools.search(text) for text in ("merge pdf", "merge documents")]

    for found in use(job):
        assert found[0].id == MERGE
        assert "8,193 dimensions, but an index allows at most 8,192" in found.notes[0]
    assert len(openai.requests) == 1
