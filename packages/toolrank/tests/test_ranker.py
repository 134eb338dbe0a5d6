"""The ranker as a whole: channels in, one ranking out."""

import math

import pytest
from toolrank import (
    BM25Retriever,
    Channel,
    Content,
    Hit,
    HybridRanker,
    Query,
    RankingArgumentError,
    RetrievalError,
    VectorRetriever,
    linear_fusion,
    reciprocal_rank_fusion,
)


class FixedList:
    """A retriever of somebody else's: it needs to inherit nothing."""

    def __init__(self, name, *ids):
        self.name = name
        self.ids = ids
        self.depths = []

    def retrieve(self, query, *, depth):
        self.depths.append(depth)
        return [Hit(id=id_, score=1 / rank) for rank, id_ in enumerate(self.ids[:depth], 1)]


def rank(*channels, limit=10, **options):
    return HybridRanker(channels).rank(Query(text="any"), limit=limit, **options)


def ids(hits):
    return [hit.id for hit in hits]


@pytest.mark.parametrize("fuse", [reciprocal_rank_fusion, linear_fusion])
def test_words_and_meaning_are_ranked_together(documents, store_vectors, fuse):
    connection = store_vectors({1: (1, 0), 2: (0.9, 0.1), 3: (0, 1), 4: (0.1, 0.9)})
    content = Content(table="docs", column="id")
    ranker = HybridRanker(
        [
            Channel(BM25Retriever(connection, table="docs_fts", content=content)),
            Channel(VectorRetriever(connection, table="docs_vec", content=content)),
        ],
        fuse=fuse,
    )
    hits = ranker.rank(Query(text="list the issues", vector=(0.9, 0.1)), limit=2)
    assert ids(hits) == ["github:list_issues", "github:create_issue"]
    assert hits[0].score == pytest.approx(1.0)
    assert [c.retriever for c in hits[0].contributions] == ["bm25", "vector"]


def test_a_query_without_a_vector_is_still_answered_by_its_words(documents, store_vectors):
    connection = store_vectors({1: (1, 0)})
    ranker = HybridRanker(
        [
            Channel(BM25Retriever(connection, table="docs_fts")),
            Channel(VectorRetriever(connection, table="docs_vec")),
        ]
    )
    assert ids(ranker.rank(Query(text="merge pdf"), limit=5)) == ["4"]


def test_any_object_with_a_name_and_retrieve_can_be_a_channel():
    assert ids(rank(Channel(FixedList("mine", "b", "a")))) == ["b", "a"]


def test_the_limit_cuts_after_the_fusion():
    first, second = FixedList("first", "a", "b", "c"), FixedList("second", "c", "b", "a")
    assert len(rank(Channel(first), Channel(second), limit=2)) == 2


def test_weights_are_each_channels_say():
    first, second = FixedList("first", "a", "b"), FixedList("second", "b", "a")
    assert ids(rank(Channel(first, 2.0), Channel(second, 1.0))) == ["a", "b"]
    assert ids(rank(Channel(first, 1.0), Channel(second, 2.0))) == ["b", "a"]


def test_a_channel_of_weight_zero_is_not_asked():
    silent = FixedList("silent", "z")
    assert ids(rank(Channel(FixedList("loud", "a")), Channel(silent, 0.0))) == ["a"]
    assert silent.depths == []


def test_no_channel_gives_no_hit():
    assert rank() == []


def test_ties_are_broken_by_id():
    assert ids(rank(Channel(FixedList("x", "b")), Channel(FixedList("y", "a")))) == ["a", "b"]


@pytest.mark.parametrize(
    ("limit", "depth", "asked"), [(1, None, 100), (25, None, 100), (70, None, 140), (5, 7, 7)]
)
def test_each_retriever_is_asked_for_twice_the_limit_and_at_least_100(limit, depth, asked):
    retriever = FixedList("any", "a")
    rank(Channel(retriever), limit=limit, depth=depth)
    assert retriever.depths == [asked]


@pytest.mark.parametrize(
    ("options", "argument"), [({"limit": 0}, "limit"), ({"limit": 5, "depth": 0}, "depth")]
)
def test_a_limit_or_a_depth_below_1_is_refused(options, argument):
    with pytest.raises(RankingArgumentError, match="below 1") as caught:
        rank(Channel(FixedList("any", "a")), **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_must_be_a_finite_number_of_zero_or_more(weight):
    with pytest.raises(RankingArgumentError, match="'any' has weight") as caught:
        rank(Channel(FixedList("any", "a"), weight))
    assert caught.value.argument == "channels"


def test_two_channels_of_one_name_are_refused():
    with pytest.raises(RankingArgumentError, match="names must differ"):
        rank(Channel(FixedList("same", "a")), Channel(FixedList("same", "b")))


def test_a_broken_source_is_not_hidden(connection):
    with pytest.raises(RetrievalError, match="'bm25' failed"):
        rank(Channel(BM25Retriever(connection, table="missing")))
