"""The types that users of toolrank see. Our two type checkers read this; it is never run."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import assert_type

import apsw
from toolrank import (
    Contribution,
    Explanation,
    Filter,
    Hit,
    HybridSearch,
    IdColumn,
    MatrixRetriever,
    PostingsCache,
    Query,
    SearchResult,
    Tables,
    linear_fusion,
    name_key,
    reciprocal_rank_fusion,
)
from toolrank.metrics import Evaluation, Interval, evaluate
from toolrank.protocols import Candidates
from toolrank.rerank import LLMReranker, RerankOutcome
from toolrank.testing import check_candidates


class Favourites(Tables):
    """A user's tables, which put favourites first."""

    def lexical(self, query: str, /, *, depth: int) -> list[Hit]:
        return [Hit("a", 99.0), *super().lexical(query, depth=depth)][:depth]


def both_drivers_will_do(standard: sqlite3.Connection, other: apsw.Connection) -> None:
    content = IdColumn(table="docs", column="slug")
    Tables(standard, "docs_fts", weights=(3, 1), postings=PostingsCache(), vectors="docs_vec")
    held = MatrixRetriever(other, "SELECT rowid, embedding FROM docs_vec", content=content)
    some = Filter("SELECT 1")
    assert_type(held.using(standard, where=some), MatrixRetriever)
    tables = Tables(other, "docs_fts", content=content, vectors=held.using(other), where=some)
    assert_type(tables.lexical("merge", depth=3), list[Hit])
    assert_type(tables.corrections("mrege"), dict[str, str])
    Tables("db", "t")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_search_needs_tables_and_a_function(standard: sqlite3.Connection) -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[0.1, 0.2] for _ in texts]

    content = IdColumn(table="recipes", column="slug")
    tables = Tables(standard, "recipes_fts", content=content, vectors="recipes_vec", text="method")
    search = HybridSearch(tables, embed=embed, group=lambda id_: id_[:1])
    assert_type(search.search("soup", limit=3), list[SearchResult])
    for found in search.search("soup"):
        assert_type(found.confidence, float)
        assert_type(found.contributions, tuple[Contribution, ...])
        assert_type(found.explanation, Explanation)
    HybridSearch("recipes_fts")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_search_can_bring_its_own_vectors_and_usage(search: HybridSearch, tables: Tables) -> None:
    query = Query.of("find soups and bake a cake").with_vectors([[0.1], [0.2], None])
    run = search.run(tables, query, weights={"vector": 1.0}, usage={"a": (3, 1)})
    assert_type(run.results, tuple[SearchResult, ...])
    assert_type(run.explain_rank("a").rank, int | None)


def ones_own_candidates_and_fusion_fit(standard: sqlite3.Connection) -> None:
    own: Candidates = Favourites(standard, "docs_fts")
    check_candidates(own, [Query("merge")])

    def first_only(
        rankings: Mapping[str, Sequence[Hit]],
        *,
        weights: Mapping[str, float] | None = None,
        floors: Mapping[str, float] | None = None,
        missing: Mapping[str, Collection[str]] | None = None,
    ):  # type: ignore[no-untyped-def]
        return reciprocal_rank_fusion(rankings, weights=weights, floors=floors, missing=missing)

    HybridSearch(own, fuse=first_only)
    HybridSearch(own, fuse=linear_fusion)
    HybridSearch(own, fuse=len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_hit_is_a_value(hit: Hit) -> None:
    hit.score = 0.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def a_reranker_says_what_it_did(request: str) -> None:
    outcome = await LLMReranker("openai:gpt-5").rerank(request, ["one", "two"])
    assert_type(outcome, RerankOutcome)
    assert_type(outcome.order, tuple[int, ...])
    assert_type(LLMReranker.clear_lead([0.9, 0.1]), str)
    LLMReranker("m", when="no")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def queries_and_names_stand_alone() -> None:
    assert_type(Query("createIssue").terms, list[str])
    assert_type(name_key("createIssue"), str)


def rankings_are_measured() -> None:
    run = {"q1": ["a", "b"], "q2": ["b"]}
    evaluation = evaluate(run, {"q1": {"a": 1}, "q2": {"b": 2}}, ["ndcg@10"])
    assert_type(evaluation, Evaluation)
    assert_type(evaluation.mean("ndcg@10"), float)
    assert_type(evaluation.confidence_interval("ndcg@10"), Interval)
    assert_type(evaluation.difference(evaluation, "ndcg@10").low, float)
    evaluate(run, {"q1": ["a"], "q2": {"b": 0.5}}, ["mrr"])
    evaluate(["a"], {}, ["mrr"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_name_that_is_not_there_is_refused() -> None:
    from toolrank import (  # type: ignore[attr-defined]
        ranked,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    )

    ranked()
