"""The accurate model takes over when it has embedded all tools; until then the static one answers.

At no moment is a search worse than with the static model alone.
"""

import asyncio
import threading

import pytest
from pytools_hybrid import SearchMode, Settings, ToolSearch
from toolembed import EmbeddingError, FailureKind, create_embedder

from .conftest import PATIENCE

STATIC, ACCURATE = "static:tools2", "accurate:1"
QUERY = "several documents into one"
MERGE = "mcptools:pdf:merge_pdfs"


class Slow(type(create_embedder("accurate"))):
    """The accurate model, which waits before it embeds any tool, and may fail."""

    def __init__(self):
        super().__init__()
        self.may_work = threading.Event()
        self.fails = False

    def encode_documents(self, texts):
        self.may_work.wait(PATIENCE)
        return super().encode_documents(texts)

    def encode_queries(self, texts):
        if self.fails:
            raise EmbeddingError(self.model_id, "broken", kind=FailureKind.UNAVAILABLE)
        return super().encode_queries(texts)


@pytest.fixture(scope="module")
def loaded():
    return create_embedder("accurate")


@pytest.fixture
def slow(loaded):
    """An embedder whose weights are already loaded."""
    embedder = Slow()
    embedder.__dict__["_transformer"] = loaded._transformer
    yield embedder
    embedder.may_work.set()


def searching(settings, root, embedder=None, **how):
    return ToolSearch(root, settings(), embedder=embedder, **how)


async def asked(search):
    response = await search.search(QUERY)
    return response.model, [tool.id for tool in response.tools], response.notes


async def until(search, model):
    """Search until a model answers."""
    async with asyncio.timeout(PATIENCE):
        while (answer := await asked(search))[0] != model:
            await asyncio.sleep(0.01)
    return answer


def test_the_accurate_model_is_the_default_if_its_weights_are_installed(monkeypatch, no_model_set):
    assert Settings().embedding_model == "accurate"
    monkeypatch.setattr("toolembed.providers.find_spec", lambda name: None)
    assert Settings().embedding_model == "static"


def test_the_static_model_answers_until_the_accurate_one_has_all_tools(settings, toolbox, slow):
    async def main():
        async with searching(settings, toolbox) as search:
            alone = await asked(search)
        async with searching(settings, toolbox, slow) as search:
            before = await asked(search)
            counted = (await search.index.coverage()).vectors
            slow.may_work.set()
            return alone, before, counted, await until(search, ACCURATE)

    alone, before, counted, after = asyncio.run(main())

    assert (before, counted) == (alone, 0)
    assert (before[0], before[1][0]) == (STATIC, MERGE)
    assert (after[1][0], after[2]) == (MERGE, ())


def test_changes_during_the_takeover_are_found_by_both_models(settings, toolbox, slow, write_tool):
    async def main():
        async with searching(settings, toolbox, slow, follow=True) as search:
            await until(search, STATIC)
            write_tool("mcptools/zoo/feed.py", "Give the penguins their fish.")
            search.index.sync.changed.clear()
            await search.index.update(vectors=False)
            async with asyncio.timeout(PATIENCE):
                while await vectors(search, STATIC) < len(await search.entries()):
                    await asyncio.sleep(0.01)
            animals = await search.search("nourish aquatic birds", mode=SearchMode.VECTOR)
            slow.may_work.set()
            async with asyncio.timeout(PATIENCE):
                while await vectors(search, ACCURATE) < len(await search.entries()):
                    await asyncio.sleep(0.01)
            return animals, await asked(search)

    animals, after = asyncio.run(main())

    assert (animals.model, animals.tools[0].id) == (STATIC, "mcptools:zoo:feed")
    assert after[0] == ACCURATE


def test_the_static_model_answers_until_a_new_tool_is_embedded(settings, toolbox, slow, write_tool):
    slow.may_work.set()

    async def main():
        async with searching(settings, toolbox, slow) as search:
            await until(search, ACCURATE)
            write_tool("mcptools/zoo/feed.py", "Give the penguins their fish.")
            await search.index.update(vectors=False)
            between = await search.search("nourish penguins with fish")
            await search.index.update(files=False)
            return between, await search.search("nourish penguins with fish")

    between, after = asyncio.run(main())

    assert (between.model, between.tools[0].id) == (STATIC, "mcptools:zoo:feed")
    assert (after.model, after.tools[0].id) == (ACCURATE, "mcptools:zoo:feed")


def test_misspelt_words_are_corrected_for_the_accurate_model(settings, toolbox, slow, monkeypatch):
    slow.may_work.set()
    reads = []

    async def main():
        async with searching(settings, toolbox, slow, refresh=False) as search:
            await search.index.update()
            wrong = await search.search("merge the documnets", mode=SearchMode.VECTOR)
            store = search.index.store
            reading = store.reading
            monkeypatch.setattr(store, "reading", lambda: reads.append(1) or reading())
            return await search.search("merge the documents", mode=SearchMode.VECTOR), wrong

    right, wrong = asyncio.run(main())

    assert wrong.model == ACCURATE
    assert [(it.id, it.score) for it in wrong.tools] == [(it.id, it.score) for it in right.tools]
    assert len(reads) == 3, (
        "one for the model and the words, one for the tools, one for a note on them"
    )


def test_an_interrupted_takeover_continues_in_any_process(settings, toolbox, slow):
    class Stopped(Slow):
        batches = 0

        def encode_documents(self, texts):
            self.batches += 1
            if self.batches > 1:
                raise EmbeddingError(self.model_id, "out of memory", kind=FailureKind.UNAVAILABLE)
            return super().encode_documents(texts)

    stopped = Stopped()
    stopped.__dict__["_transformer"] = slow._transformer
    stopped.may_work.set()
    slow.may_work.set()

    async def main():
        async with searching(settings, toolbox, stopped, refresh=False) as search:
            await search.index.update(vectors=False)
            with pytest.raises(EmbeddingError):
                await search.index.vectors.embed()
            half, done = await asked(search), await vectors(search, ACCURATE)
        async with searching(settings, toolbox, slow, refresh=False) as search:
            rest = (await search.index.update(files=False)).embedded
            return half, done, rest, await asked(search)

    half, done, rest, after = asyncio.run(main())

    assert half[0] == STATIC
    assert any("out of memory" in note for note in half[2]), "the failure is reported"
    assert 0 < done < 27
    assert (done + rest, after[0]) == (27, ACCURATE)


def test_the_static_model_answers_if_the_accurate_one_cannot_embed_the_request(
    settings, toolbox, slow
):
    slow.may_work.set()
    slow.fails = True

    async def main():
        async with searching(settings, toolbox, slow, refresh=False) as search:
            await search.index.update()
            return await asked(search)

    model, ids, notes = asyncio.run(main())

    assert (model, ids[0]) == (STATIC, MERGE)
    assert notes == (f"searched with vectors of {STATIC} (embedding model '{ACCURATE}': broken)",)


def test_a_waiting_caller_waits_for_at_most_a_few_accurate_vectors(settings, toolbox, slow):
    slow.may_work.set()

    async def main():
        async with searching(settings, toolbox, slow, refresh=False) as search:
            counts = []
            for _ in range(8):
                await search.index.update(patience=PATIENCE)
                counts.append(await vectors(search, ACCURATE))
            return counts, await asked(search)

    counts, after = asyncio.run(main())

    assert counts == [4, 8, 12, 16, 20, 24, 27, 27]
    assert after[0] == ACCURATE


async def vectors(search, model):
    return (await search.index.read(lambda reader: reader.coverage(model))).vectors
