"""The types that users of toolrank see. Our two type checkers read this; it is never run."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import assert_type

import apsw
from toolrank import (
    BM25Retriever,
    Channel,
    Filter,
    FullTextTable,
    Hit,
    HybridRanker,
    HybridSearch,
    IdColumn,
    MatrixRetriever,
    PostingsCache,
    Query,
    SearchResult,
    Tables,
    VectorRetriever,
    name_key,
)
from toolrank.metrics import Evaluation, Interval, evaluate
from toolrank.protocols import Reranker, Retriever
from toolrank.rerank import Candidate, LLMReranker, RerankOutcome
from toolrank.steps import (
    Contribution,
    Explanation,
    FusedScores,
    RankedHit,
    linear_fusion,
    query_terms,
    reciprocal_rank_fusion,
    split_request,
    usage_prior,
)
from toolrank.testing import check_retriever


class Newest:
    """A user's retriever, which implements the protocol without naming it."""

    name = "newest"

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        return [Hit(id="a", score=1.0)][:depth] if query.text else []


class ByPlace:
    """A retriever with a positional limit, which rankers pass by name."""

    name = "by-place"

    def retrieve(self, query: Query, depth: int, /) -> list[Hit]:
        return []


class Untouched:
    """A user's reranker."""

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> RerankOutcome:
        hits = tuple(candidate.hit for candidate in candidates)
        return RerankOutcome(hits=hits, applied=False, reason=f"{query} is clear")


def both_drivers_will_do(standard: sqlite3.Connection, other: apsw.Connection) -> None:
    words = FullTextTable(standard, table="docs_fts", weights=(3, 1))
    BM25Retriever(words, postings=PostingsCache())
    BM25Retriever(words, where=Filter(sql="SELECT 1"))
    FullTextTable(other, table="docs_fts", content=IdColumn(table="docs", column="slug"))
    VectorRetriever(standard, table="docs_vec")
    VectorRetriever(other, table="docs_vec", column="embedding")
    held = MatrixRetriever(other, "SELECT rowid, embedding FROM docs_vec")
    assert_type(held.using(standard, where=Filter(sql="SELECT 1")), MatrixRetriever)


def a_search_needs_tables_and_a_function(standard: sqlite3.Connection) -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[0.1, 0.2] for _ in texts]

    content = IdColumn(table="recipes", column="slug")
    tables = Tables(standard, "recipes_fts", content=content, vectors="recipes_vec", text="method")
    search = HybridSearch(tables, embed=embed, group=lambda id_: id_[:1])
    assert_type(search.search("soup", limit=3), list[SearchResult])
    for found in search.search("soup"):
        assert_type(found.confidence, float)
        assert_type(found.hit, RankedHit)
    HybridSearch("recipes_fts")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_path_is_no_connection() -> None:
    FullTextTable("db", table="t")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    VectorRetriever(table="docs")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def a_ranking_explains_its_hits(words: BM25Retriever) -> None:
    channels = [Channel(words), Channel(Newest(), weight=0.5, missing_score="last")]
    ranker = HybridRanker(channels, fuse=linear_fusion)
    hits = ranker.rank(Query(text="merge two files", vector=[0.1, 0.2]), limit=5, pinned=["a"])
    assert_type(hits, list[RankedHit])
    for hit in hits:
        assert_type(hit.contributions, tuple[Contribution, ...])
        assert_type(hit.explanation, Explanation | None)
    assert_type(words.corrections("mrege"), dict[str, str])


def ones_own_retriever_and_fusion_fit(words: BM25Retriever) -> None:
    own: Retriever = Newest()
    check_retriever(own, [Query(text="merge")])

    def first_only(
        rankings: Mapping[str, Sequence[Hit]],
        *,
        weights: Mapping[str, float] | None = None,
        floors: Mapping[str, float] | None = None,
        missing: Mapping[str, Collection[str]] | None = None,
    ) -> FusedScores:
        return reciprocal_rank_fusion(rankings, weights=weights, floors=floors, missing=missing)

    HybridRanker([Channel(words), Channel(own)], fuse=first_only)


def what_fits_no_protocol_is_refused(words: BM25Retriever) -> None:
    Channel(ByPlace())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Channel(words, missing_score="no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    HybridRanker([words])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    Query("merge")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def a_hit_is_a_value(hit: Hit) -> None:
    hit.score = 0.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def rerankers_say_what_they_did(candidates: list[Candidate], request: str) -> None:
    for reranker in (LLMReranker("openai:gpt-5"), Untouched()):
        own: Reranker = reranker
        outcome = await own.rerank(request, candidates)
        assert_type(outcome, RerankOutcome)
        assert_type(outcome.hits, tuple[RankedHit, ...])
    LLMReranker("m", when="no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def the_parts_of_a_ranking_stand_alone() -> None:
    assert_type(query_terms("createIssue"), list[str])
    assert_type(name_key("createIssue"), str)
    assert_type([Query(text=part) for part in split_request("a, then b")], list[Query])
    assert_type(usage_prior(3, 1), float)


def rankings_are_measured() -> None:
    run = {"q1": ["a", "b"], "q2": ["b"]}
    evaluation = evaluate(run, {"q1": {"a": 1}, "q2": {"b": 2}}, ["ndcg@10"])
    assert_type(evaluation, Evaluation)
    assert_type(evaluation.mean("ndcg@10"), float)
    assert_type(evaluation.confidence_interval("ndcg@10"), Interval)
    evaluate(run, {"q1": ["a"], "q2": {"b": 0.5}}, ["mrr"])
    evaluate(["a"], {}, ["mrr"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_name_that_is_not_there_is_refused() -> None:
    from toolrank import (  # type: ignore[attr-defined]
        ranked,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    )

    ranked()
