"""Vectors of queries: requested once and cached; a failing model does not delay searches."""

import asyncio
import gc
from contextlib import closing
from types import SimpleNamespace

import apsw
import pytest
from pytools_hybrid import SearchMode, ToolSearch
from pytools_hybrid.index import Recorder, SQLiteStore
from pytools_hybrid.search import QueryEmbedder
from toolembed import Backoff, EmbeddingError, EmbeddingLimits, StaticEmbedder
from toolrank import Query

from .conftest import PATIENCE


class CountingEmbedder:
    """Counts requests, and fails or waits on demand."""

    limits = EmbeddingLimits()
    dimensions = 3

    def __init__(self, model_id="counting:words"):
        self.model_id = model_id
        self.asked = []
        self.failure = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def embed_documents(self, texts):
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text):
        self.asked.append(text)
        await self.may_answer.wait()
        if self.failure is not None:
            raise EmbeddingError(self.model_id, self.failure)
        return [3.0, 4.0, float(len(text))]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index.db"


@pytest.fixture(autouse=True)
def _vectors_are_stored_at_the_end(monkeypatch):
    """Otherwise, timing would decide what is found in memory and what on disk."""
    monkeypatch.setattr("pytools_hybrid.index.usage._DELAY_SECONDS", 10 * PATIENCE)


def with_queries(path, job, model=CountingEmbedder):
    """Run an async function on a model and its `QueryEmbedder`."""

    async def main():
        store = SQLiteStore(path)
        recorder = Recorder(store, keeps_searches=False)
        embedder = model()
        try:
            return await job(QueryEmbedder(embedder, store, recorder), embedder)
        finally:
            await recorder.aclose()
            store.close()

    return asyncio.run(main())


def test_different_queries_are_embedded_separately(path):
    async def job(queries, embedder):
        for text in ("find", "find ", "FIND"):
            await queries.vector(Query(text))
        return embedder.asked

    assert with_queries(path, job) == ["find", "find ", "FIND"]


def test_concurrent_identical_queries_make_one_request(path):
    async def job(queries, embedder):
        answers = await asyncio.gather(*(queries.vector(Query("find a file")) for _ in range(20)))
        assert all(vector is not None for vector, _ in answers)
        return embedder.asked

    assert with_queries(path, job) == ["find a file"]


def test_a_caller_that_gives_up_does_not_affect_the_others(path):
    async def job(queries, embedder):
        embedder.may_answer.clear()
        hasty = asyncio.create_task(queries.vector(Query("find a file")))
        patient = asyncio.create_task(queries.vector(Query("find a file")))
        while not embedder.asked:
            await asyncio.sleep(0)
        hasty.cancel()
        await asyncio.wait([hasty])
        embedder.may_answer.set()
        vector, why = await patient
        assert vector is not None
        assert why == ""
        return embedder.asked

    assert with_queries(path, job) == ["find a file"]


def test_a_query_of_an_earlier_process_needs_no_request(path):
    async def ask(queries, embedder):
        vector, _ = await queries.vector(Query("find a file"))
        return embedder.asked, [round(value, 5) for value in vector.values]

    _, first = with_queries(path, ask)
    asked, kept = with_queries(path, ask)

    assert asked == []
    length = sum(value**2 for value in first) ** 0.5
    assert kept == pytest.approx([value / length for value in first], abs=1e-5)


def test_another_models_cached_vector_is_not_used(path):
    async def ask(queries, embedder):
        await queries.vector(Query("find a file"))
        return embedder.asked

    with_queries(path, ask)

    assert with_queries(path, ask, lambda: CountingEmbedder("counting:others")) == ["find a file"]


def test_query_vectors_of_the_offline_model_are_not_kept_on_disk(path, root, settings):
    async def ask():
        async with ToolSearch(root, settings(), embedder=StaticEmbedder()) as search:
            assert "vector" in (await search.search("find a file")).channels

    asyncio.run(ask())

    with SQLiteStore(path) as store, store.reading() as reader:
        assert reader.connection.execute("SELECT count(*) FROM query_embeddings").get == 0


def test_cached_query_vectors_are_limited_in_memory_and_on_disk(path, monkeypatch):
    monkeypatch.setattr("pytools_hybrid.search.vectors._REMEMBERED", 3)

    async def job(queries, embedder):
        for number in (1, 2, 3, 1, 4):
            await queries.vector(Query(f"question {number}"))
        embedder.asked.clear()
        for number in (1, 3, 4, 2):
            await queries.vector(Query(f"question {number}"))
        return embedder.asked

    assert with_queries(path, job) == ["question 2"]


def test_a_failed_model_is_retried_only_after_a_while(path, monkeypatch):
    clock = SimpleNamespace(now=1_000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("toolembed._backoff.time", clock)
    monkeypatch.setattr("pytools_hybrid.search.vectors._BACKOFF", Backoff(first=5.0))

    async def job(queries, embedder):
        embedder.failure = "no route to host"
        vector, why = await queries.vector(Query("find a file"))
        assert vector is None
        assert "counting:words" in why
        assert "no route to host" in why
        for _ in range(3):
            vector, why = await queries.vector(Query("another"))
            assert vector is None
            assert "no route to host" in why
            assert "retried in" in why
        assert embedder.asked == ["find a file"] * 2, "a failed request is retried once"

        embedder.failure = None
        clock.now += 4.9
        assert (await queries.vector(Query("find a file")))[0] is None
        clock.now += 0.2
        assert (await queries.vector(Query("find a file")))[1] == ""
        assert embedder.asked == ["find a file"] * 3
        assert (await queries.vector(Query("another")))[1] == ""

    with_queries(path, job)


def test_cached_vectors_are_used_while_the_model_is_not_called(path):
    async def job(queries, embedder):
        await queries.vector(Query("find a file"))
        embedder.failure = "no route to host"
        await queries.vector(Query("another"))
        return (await queries.vector(Query("find a file")))[0]

    assert with_queries(path, job) is not None


def test_a_late_answer_of_a_model_that_timed_out_is_cached(path, monkeypatch):
    monkeypatch.setattr("pytools_hybrid.search.vectors._SECONDS", 0.1)

    async def job(queries, embedder):
        embedder.may_answer.clear()
        vector, why = await queries.vector(Query("find a file"))
        assert vector is None
        assert "no answer within" in why
        embedder.may_answer.set()
        async with asyncio.timeout(PATIENCE):
            while (await queries.vector(Query("find a file")))[0] is None:
                await asyncio.sleep(0.01)
        return embedder.asked

    assert with_queries(path, job) == ["find a file"]


def test_a_model_that_is_still_loading_is_reported_as_loading(path, monkeypatch):
    monkeypatch.setattr("pytools_hybrid.search.vectors._SECONDS", 0.05)
    monkeypatch.setattr("pytools_hybrid.search.vectors._BACKOFF", Backoff(first=0.0))

    class Loading(CountingEmbedder):
        def __init__(self):
            super().__init__()
            self.is_loaded = asyncio.Event()

        async def load(self):
            await self.is_loaded.wait()

    async def job(queries, embedder):
        vector, why = await queries.vector(Query("find a file"))
        assert vector is None
        assert "is still being loaded" in why
        assert "no answer" not in why
        assert embedder.asked == []
        embedder.is_loaded.set()
        assert (await queries.vector(Query("find a file")))[1] == ""

    with_queries(path, job, Loading)


@pytest.mark.parametrize("bad", [[0.0] * 3, [float("nan")] * 3, [float("inf")] * 3])
def test_an_unusable_vector_is_requested_once_more(path, bad):
    class FirstBad(CountingEmbedder):
        async def embed_query(self, text):
            vector = await super().embed_query(text)
            return bad if len(self.asked) == 1 else vector

    async def job(queries, embedder):
        assert (await queries.vector(Query("find a file")))[1] == ""
        return embedder.asked

    assert with_queries(path, job, FirstBad) == ["find a file"] * 2


def test_a_search_does_not_wait_long_for_a_model_that_has_just_hung(path, monkeypatch):
    monkeypatch.setattr("pytools_hybrid.search.vectors._SECONDS", 0.05)
    monkeypatch.setattr("pytools_hybrid.search.vectors._AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("pytools_hybrid.search.vectors._BACKOFF", Backoff(first=0.0))

    async def job(queries, embedder):
        embedder.may_answer.clear()
        assert "within 0.05 s" in (await queries.vector(Query("one")))[1]
        assert "within 0.01 s" in (await queries.vector(Query("two")))[1]
        embedder.may_answer.set()
        async with asyncio.timeout(PATIENCE):
            while queries._asking:
                await asyncio.sleep(0)
        assert queries._breaker.failures == 0

    with_queries(path, job)


def test_a_failure_after_all_callers_gave_up_raises_no_stray_error(path, monkeypatch, caplog):
    monkeypatch.setattr("pytools_hybrid.search.vectors._SECONDS", 0.05)

    async def job(queries, embedder):
        embedder.may_answer.clear()
        await queries.vector(Query("find a file"))
        embedder.failure = "no route to host"
        embedder.may_answer.set()
        while queries._asking:
            await asyncio.sleep(0)
        gc.collect()

    with_queries(path, job)

    assert "never retrieved" not in caplog.text


def test_a_vector_that_cannot_be_stored_now_is_stored_later(path):
    async def job(queries, embedder):
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            await queries.vector(Query("find a file"))
            await queries._recorder.flush()
            other.execute("ROLLBACK")

    with_queries(path, job)

    async def ask(queries, embedder):
        await queries.vector(Query("find a file"))
        return embedder.asked

    assert with_queries(path, ask) == []


def test_an_unreadable_database_loses_only_the_cached_vectors(path):
    async def job(queries, embedder):
        for file in path.parent.glob("index.db*"):
            file.unlink()
        path.write_bytes(b"not a database " * 100)
        vector, _ = await queries.vector(Query("find a file"))
        assert vector is not None
        for file in path.parent.glob("index.db*"):
            file.unlink()
        return embedder.asked

    assert with_queries(path, job) == ["find a file"]


def test_only_searches_by_meaning_call_the_model(settings, root):
    embedder = CountingEmbedder()

    async def main():
        async with ToolSearch(root, settings(), embedder=embedder, refresh=False) as search:
            await search.index.update()
            asked = embedder.asked
            asked.clear()
            await search.search("bug", mode=SearchMode.BM25)
            await search.search("???")
            assert asked == []
            await search.search("bug")
            await search.search("bug", mode=SearchMode.VECTOR, limit=2)
            assert asked == ["bug"]

    asyncio.run(main())
