"""Changing the model: vectors of two models are never compared, and nothing is embedded twice."""

import asyncio
import hashlib
import re

import pytest
from pytools_hybrid import SearchMode, ToolSearch
from toolembed import EmbeddingError, EmbeddingLimits, FailureKind

OFFLINE = "static:tools2"


class WordsEmbedder:
    """A bag of words, each with its own dimension; models use different dimensions."""

    def __init__(self, model_id, *, dimensions=512, most_texts=64):
        self.model_id = model_id
        self.dimensions = dimensions
        self.limits = EmbeddingLimits(texts_per_request=most_texts)
        self.documents = []
        self.queries = []
        self.refuses = "no text has this"
        self.answers = 10**9

    async def embed_documents(self, texts):
        if self.answers == 0:
            raise EmbeddingError(self.model_id, "out of money", kind=FailureKind.UNAVAILABLE)
        self.answers -= 1
        if any(self.refuses in text for text in texts):
            raise EmbeddingError(self.model_id, "not this text", kind=FailureKind.REFUSED)
        self.documents += texts
        return [self._vector(text) for text in texts]

    async def embed_query(self, text):
        self.queries.append(text)
        return self._vector(text)

    def _vector(self, text):
        vector = [0.001] * self.dimensions
        for word in re.findall("[a-z]+", text.lower()):
            digest = hashlib.sha256(f"{self.model_id} {word}".encode()).digest()
            vector[int.from_bytes(digest[:4], "big") % self.dimensions] += 1.0
        return vector


class Searching(ToolSearch):
    """Uses the embedder of a test, if one is given."""

    def __init__(self, settings, root, embedder=None):
        super().__init__(root, settings, embedder=embedder, refresh=False)


def use(settings, root, embedder, job):
    """Run an async function on a search with a model, after a refresh."""

    async def main():
        async with Searching(settings, root, embedder) as search:
            await search.index.update(vectors=False)
            return await job(search)

    return asyncio.run(main())


async def embed(search):
    return (await search.index.update(files=False)).embedded


async def by_meaning(search):
    return await search.search("several documents into one", mode=SearchMode.VECTOR)


async def embed_and_search(search):
    await search.index.update(files=False)
    return await by_meaning(search)


def ids(response):
    return [str(found.entry.id) for found in response.tools]


def vectors_of(search):
    with search.index.store.reading() as reader:
        return {model: reader.coverage(model).vectors for model in reader.models()}


MERGE = "mcptools:pdf:merge_pdfs"


@pytest.mark.parametrize("dimensions", [512, 300], ids=["the same dimensions", "other dimensions"])
def test_a_query_never_searches_another_models_vectors(settings, root, dimensions):
    one, other = WordsEmbedder("a:one"), WordsEmbedder("b:other", dimensions=dimensions)
    assert ids(use(settings(), root, one, embed_and_search))[0] == MERGE

    before = use(settings(), root, other, by_meaning)
    assert before.notes == (
        f"searched with vectors of {OFFLINE} (no tool has a vector of b:other yet)",
    )
    assert ids(before) == [MERGE], "no other tool has any of the words"

    after = use(settings(), root, other, embed_and_search)
    assert after.notes == ()
    assert ids(after)[0] == MERGE
    assert len(other.documents) == 4


def test_switching_back_to_a_model_embeds_nothing(settings, root):
    one, other = WordsEmbedder("a:one"), WordsEmbedder("b:other", dimensions=300)
    for model in (one, other):
        use(settings(), root, model, embed)
    asked = len(one.documents), len(other.documents)

    for model in (one, other, one):
        at_once = use(settings(), root, model, by_meaning)
        assert (at_once.notes, ids(at_once)[0]) == ((), MERGE)
        assert use(settings(), root, model, embed) == 0

    assert (len(one.documents), len(other.documents)) == asked


def test_switching_back_embeds_only_what_changed_meanwhile(settings, root, write_tool):
    one, other = WordsEmbedder("a:one"), WordsEmbedder("b:other")
    for model in (one, other):
        use(settings(), root, model, embed)
    write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
    use(settings(), root, other, embed)

    assert use(settings(), root, one, embed) == 1
    assert len(one.documents) == len(other.documents) == 5


def test_the_offline_models_vectors_are_used_until_another_models_are_ready(settings, root):
    use(settings(), root, None, embed)
    other = WordsEmbedder("b:other", most_texts=2)

    async def job(search):
        before = await by_meaning(search)
        other.answers = 1
        with pytest.raises(EmbeddingError):
            await search.index.vectors.embed()
        between = await by_meaning(search)
        other.answers = 10**9
        await search.index.update(files=False)
        return before, between, await by_meaning(search), vectors_of(search)

    before, between, after, vectors = use(settings(), root, other, job)

    for response in (before, between):
        assert any(f"searched with vectors of {OFFLINE}" in note for note in response.notes)
        assert len(ids(response)) == 4
        assert ids(response)[0] == MERGE
    assert (after.notes, ids(after)[0]) == ((), MERGE)
    assert vectors == {OFFLINE: 4, "b:other": 4}


def test_the_offline_model_answers_until_nine_of_ten_tools_have_vectors(settings, root):
    """It needs no stored vectors: it embeds tools that fit by their words before it answers."""
    half = WordsEmbedder("b:other", most_texts=2)
    half.answers = 1

    async def job(search):
        with pytest.raises(EmbeddingError, match="out of money"):
            await search.index.vectors.embed()
        hybrid = await search.search("merge several documents into one")
        nothing_by_words = await search.search("zusammen", mode=SearchMode.HYBRID)
        half.answers = 10**9
        await search.index.update(files=False)
        return hybrid, nothing_by_words, await search.search("merge several documents into one")

    hybrid, nothing_by_words, after = use(settings(), root, half, job)

    assert (hybrid.model, ids(hybrid)[0]) == (OFFLINE, MERGE)
    assert "2 of 4 tools have vectors so far" in hybrid.notes[0]
    assert "out of money" in hybrid.notes[0]
    assert (nothing_by_words.model, len(ids(nothing_by_words))) == ("b:other", 2)
    assert (after.model, after.notes, ids(after)[0]) == ("b:other", (), MERGE)


def test_a_paid_models_vectors_are_not_searched_in_place_of_another(settings, root):
    """Embedding the query would cost money that nobody agreed to spend."""
    paid = WordsEmbedder("a:one")
    use(settings(), root, paid, embed)

    response = use(settings(), root, None, by_meaning)

    assert "0 of 4 tools have vectors so far" in response.notes[0]
    assert ids(response)[0] == MERGE
    assert paid.queries == []


def test_two_models_in_use_are_both_kept_up_to_date(settings, root, write_tool):
    one, other = WordsEmbedder("a:one"), WordsEmbedder("b:other", dimensions=300)

    async def main():
        async with (
            Searching(settings(), root, one) as first,
            Searching(settings(), root, other) as second,
        ):
            await first.index.update(vectors=False)
            await asyncio.gather(first.index.update(files=False), second.index.update(files=False))
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            await second.index.update(vectors=False)
            await asyncio.gather(first.index.update(files=False), second.index.update(files=False))
            for search in (first, second):
                found = await search.search("feed the penguins", mode=SearchMode.VECTOR)
                assert (found.notes, ids(found)[0]) == ((), "mcptools:zoo:feed")
            return vectors_of(first)

    assert asyncio.run(main()) == {"a:one": 5, "b:other": 5}
    assert (len(one.documents), len(other.documents)) == (5, 5)
