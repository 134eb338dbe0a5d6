"""Tools without a vector: the offline model embeds those relevant to a search at once."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from pytools_hybrid import SearchMode, ToolSearch
from pytools_hybrid.search.channels import _MOST as MOST
from pytools_hybrid.search.channels import _MOST_CHARACTERS as MOST_CHARACTERS
from toolembed import EmbeddingError, EmbeddingLimits, StaticEmbedder
from toolindex import ToolFilter

REQUESTS = ("report a bug", "send an email and merge the papers", "slugs for titles")


class CountingEmbedder(StaticEmbedder):
    """The offline model, which records the tools it embeds."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def encode_documents(self, texts):
        self.asked.append(list(texts))
        return super().encode_documents(texts)


class FailingEmbedder(StaticEmbedder):
    def encode_documents(self, texts):
        raise EmbeddingError(self.model_id, "is broken today")


class PaidEmbedder:
    """A model that charges for each text; it records the requested tools."""

    model_id, dimensions, limits = "paid:vectors", 3, EmbeddingLimits()

    def __init__(self):
        self.asked = []

    async def embed_documents(self, texts):
        self.asked.append(texts)
        return [[1.0, 0.0, 0.0] for _ in texts]

    async def embed_query(self, text):
        return [1.0, 0.0, 0.0]


def use(settings, root, job, embedder=None):
    """Run an async function on an indexed tree whose tools have no vectors."""

    async def main():
        async with ToolSearch(root, settings, embedder=embedder, refresh=False) as search:
            await search.index.update(vectors=False)
            return await job(search)

    return asyncio.run(main())


@pytest.mark.parametrize("fusion", ["linear", "rrf"])
@pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.VECTOR])
def test_the_first_result_is_the_same_as_when_all_tools_have_vectors(
    settings, toolbox, mode, fusion
):
    async def job(search):
        before = [await search.search(text, mode=mode) for text in REQUESTS]
        await search.index.update(files=False)
        return before, [await search.search(text, mode=mode) for text in REQUESTS]

    before, after = use(settings(fusion=fusion), toolbox, job)

    for one, other in zip(before, after, strict=True):
        assert one.tools[0].id == other.tools[0].id
        given = {each.retriever: each.score for each in one.tools[0].contributions}
        wanted = {each.retriever: each.score for each in other.tools[0].contributions}
        assert given["vector"] == pytest.approx(wanted["vector"], abs=1e-5)
        assert one.channels == other.channels
        assert not one.lost
    assert before[0].notes[0].endswith("tools have vectors so far")


def test_with_a_filter_only_tools_that_pass_are_embedded(settings, toolbox):
    embedder = CountingEmbedder()

    async def job(search):
        return await search.search("send a message", where=ToolFilter(categories=["slack"]))

    use(settings(), toolbox, job, embedder)

    assert embedder.asked
    assert all("(slack)" in text for texts in embedder.asked for text in texts)


def test_a_search_embeds_a_limited_amount_of_text(settings, tmp_path, write_tool):
    for number in range(2 * MOST):
        write_tool(f"mcptools/zoo/feed_{number}.py", f"Feed penguin {number}.")
    short, long = CountingEmbedder(), CountingEmbedder()

    async def job(search):
        return await search.search("feed a penguin")

    response = use(settings(), tmp_path / "tools", job, short)
    assert [len(texts) for texts in short.asked] == [MOST]
    assert len(response.unembedded) == MOST

    for number in range(2 * MOST):
        write_tool(f"mcptools/zoo/feed_{number}.py", f"Feed penguin {number}. {'Fish. ' * 500}")
    use(settings(), tmp_path / "tools", job, long)
    (texts,) = long.asked
    assert 0 < sum(map(len, texts)) <= MOST_CHARACTERS


def test_vectors_made_for_one_search_are_used_by_the_next(settings, toolbox):
    embedder = CountingEmbedder()

    async def job(search):
        for text in ("send an email", "send the email", "send emails"):
            await search.search(text)

    use(settings(), toolbox, job, embedder)

    texts = [text for texts in embedder.asked for text in texts]
    assert len(texts) == len(set(texts))


def test_a_search_embeds_no_tool_if_all_have_vectors(settings, toolbox):
    embedder = CountingEmbedder()

    async def job(search):
        await search.index.update(files=False)
        embedder.asked.clear()
        return await search.search("send an email")

    response = use(settings(), toolbox, job, embedder)

    assert embedder.asked == []
    assert response.unembedded == ()


def test_a_paid_model_embeds_no_tool_for_a_search(settings, toolbox):
    embedder = PaidEmbedder()

    async def job(search):
        return await search.search("send an email")

    response = use(settings(), toolbox, job, embedder)

    assert embedder.asked == []
    assert response.tools[0].id == "mcptools:mail:send_email"
    assert "mcptools:mail:send_email" in response.unembedded


def test_a_search_does_not_wait_for_writers_and_writes_no_vector(settings, toolbox):
    async def job(search):
        with closing(sqlite3.connect(search.index.store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            response = await search.search("send an email")
            other.execute("ROLLBACK")
        return response, (await search.index.state()).coverage

    response, coverage = use(settings(usage_log=False), toolbox, job)

    assert "vector" in {each.retriever for each in response.tools[0].contributions}
    assert coverage.vectors == 0


def test_a_search_uses_words_if_the_model_fails(settings, toolbox):
    async def job(search):
        return await search.search("send an email")

    response = use(settings(), toolbox, job, FailingEmbedder())

    assert response.tools[0].id == "mcptools:mail:send_email"
    assert {each.retriever for each in response.tools[0].contributions} == {"bm25"}
