"""Fusion: the assertions are the arithmetic, and one contract binds both ways."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import (
    Contribution,
    Hit,
    RankedHit,
    RankingArgumentError,
    linear_fusion,
    reciprocal_rank_fusion,
)

FUSIONS = [
    pytest.param(reciprocal_rank_fusion, id="rrf"),
    pytest.param(partial(reciprocal_rank_fusion, rrf_k=0), id="rrf_k=0"),
    pytest.param(linear_fusion, id="linear"),
]

every_fusion = pytest.mark.parametrize("fuse", FUSIONS)

hits = st.lists(
    st.builds(
        Hit,
        id=st.sampled_from("abcdefgh"),
        score=st.floats(allow_nan=False, allow_infinity=False),
    ),
    unique_by=lambda hit: hit.id,
).map(lambda found: sorted(found, key=lambda hit: (-hit.score, hit.id)))
rankings = st.dictionaries(st.sampled_from(["bm25", "vector", "fuzzy"]), hits)
weights = st.dictionaries(
    st.sampled_from(["bm25", "vector", "fuzzy", "unknown"]),
    st.floats(min_value=0, allow_nan=False, allow_infinity=False),
)


def ranking(*pairs):
    return [Hit(id=id_, score=score) for id_, score in pairs]


def scores(fused):
    return {hit.id: hit.score for hit in fused}


def test_reciprocal_rank_fusion_adds_reciprocal_ranks():
    fused = reciprocal_rank_fusion(
        {
            "bm25": ranking(("a", 9.0), ("b", 5.0), ("c", 1.0)),
            "vector": ranking(("b", 0.9), ("d", 0.8)),
        }
    )
    most = 1 / 61 + 1 / 61
    assert scores(fused) == pytest.approx(
        {
            "b": (1 / 62 + 1 / 61) / most,
            "a": (1 / 61) / most,
            "d": (1 / 62) / most,
            "c": (1 / 63) / most,
        }
    )
    assert [hit.id for hit in fused] == ["b", "a", "d", "c"]


def test_reciprocal_rank_fusion_weighs_lists_and_takes_another_k():
    fused = reciprocal_rank_fusion(
        {"bm25": ranking(("a", 2.0), ("b", 1.0)), "vector": ranking(("b", 0.9))},
        weights={"bm25": 3.0, "vector": 1.0},
        rrf_k=5,
    )
    most = 3 / 6 + 1 / 6
    assert scores(fused) == pytest.approx({"a": (3 / 6) / most, "b": (3 / 7 + 1 / 6) / most})


def test_linear_fusion_is_the_weighted_mean_of_scores_divided_by_their_best():
    fused = linear_fusion(
        {
            "bm25": ranking(("a", 8.0), ("b", 2.0)),
            "vector": ranking(("b", 0.5), ("c", 0.4), ("d", -0.3)),
        },
        weights={"bm25": 1.0, "vector": 3.0},
    )
    assert scores(fused) == pytest.approx(
        {"b": (0.25 + 3 * 1.0) / 4, "c": 3 * 0.8 / 4, "a": 1 / 4, "d": 0.0}
    )


def test_linear_fusion_takes_a_list_without_a_score_above_zero_as_no_evidence():
    assert scores(linear_fusion({"vector": ranking(("a", -0.1), ("b", -0.2))})) == {"a": 0, "b": 0}


def test_linear_fusion_keeps_how_far_apart_candidates_are():
    close = linear_fusion({"bm25": ranking(("a", 1.0), ("b", 0.99))})
    far = linear_fusion({"bm25": ranking(("a", 1.0), ("b", 0.01))})
    assert scores(close)["b"] > scores(far)["b"]


@every_fusion
def test_the_first_of_every_list_has_score_1(fuse):
    fused = fuse({"bm25": ranking(("a", 7.0), ("b", 1.0)), "vector": ranking(("a", 0.2))})
    assert fused[0].id == "a"
    assert fused[0].score == pytest.approx(1.0)


@every_fusion
def test_a_hit_says_where_its_score_comes_from(fuse):
    fused = fuse({"bm25": ranking(("a", 7.0), ("b", 1.0)), "vector": ranking(("b", 0.2))})
    by_id = {hit.id: hit.contributions for hit in fused}
    assert by_id["a"] == (Contribution(retriever="bm25", rank=1, score=7.0),)
    assert by_id["b"] == (
        Contribution(retriever="bm25", rank=2, score=1.0),
        Contribution(retriever="vector", rank=1, score=0.2),
    )


@every_fusion
def test_an_empty_list_lowers_the_scores(fuse):
    """A retriever that looked and found nothing is evidence against what others found."""
    (alone,) = fuse({"bm25": ranking(("a", 7.0))})
    (doubted,) = fuse({"bm25": ranking(("a", 7.0)), "vector": []})
    assert (alone.score, doubted.score) == pytest.approx((1.0, 0.5))


@every_fusion
def test_nothing_to_fuse_gives_nothing(fuse):
    assert fuse({}) == []
    assert fuse({"bm25": []}) == []
    assert fuse({"bm25": ranking(("a", 1.0))}, weights={"bm25": 0.0}) == []


@every_fusion
@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
def test_a_weight_must_be_a_finite_number_of_zero_or_more(fuse, weight):
    with pytest.raises(RankingArgumentError, match="'bm25' has weight") as caught:
        fuse({"bm25": ranking(("a", 1.0))}, weights={"bm25": weight})
    assert caught.value.argument == "weights"
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("rrf_k", [-1, math.nan, math.inf])
def test_k_must_be_a_finite_number_of_zero_or_more(rrf_k):
    with pytest.raises(RankingArgumentError, match="rrf_k"):
        reciprocal_rank_fusion({"bm25": ranking(("a", 1.0))}, rrf_k=rrf_k)


@every_fusion
@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e300, 1.7e308])
def test_only_the_proportions_of_weights_count(fuse, weight):
    lists = {"bm25": ranking(("a", 2.0), ("b", 1.0)), "vector": ranking(("b", 0.9), ("c", 0.8))}
    assert fuse(lists, weights=dict.fromkeys(lists, weight)) == fuse(lists)


@every_fusion
@given(lists=rankings, weights=weights)
def test_every_document_of_the_lists_that_are_on_comes_once_best_first_ties_by_id(
    fuse, lists, weights
):
    on = {name: found for name, found in lists.items() if weights.get(name, 1.0) > 0}
    fused = fuse(lists, weights=weights)
    assert sorted(hit.id for hit in fused) == sorted(
        {hit.id for found in on.values() for hit in found}
    )
    assert [(-hit.score, hit.id) for hit in fused] == sorted((-hit.score, hit.id) for hit in fused)
    assert all(0.0 <= hit.score <= 1.0 for hit in fused)


@every_fusion
@given(lists=rankings, weights=weights)
def test_weight_zero_is_as_if_the_list_were_not_there(fuse, lists, weights):
    without = {name: found for name, found in lists.items() if name != "bm25"}
    assert fuse(lists, weights=weights | {"bm25": 0.0}) == fuse(without, weights=weights)


@every_fusion
@given(lists=rankings)
def test_the_order_of_a_single_list_is_kept_where_its_scores_are_above_zero(fuse, lists):
    for name, found in lists.items():
        positive = [hit for hit in found if hit.score > 0]
        fused = fuse({name: positive})
        by_id = scores(fused)
        kept = [by_id[hit.id] for hit in positive]
        assert kept == sorted(kept, reverse=True)


def test_a_ranked_hit_is_an_immutable_value():
    hit = RankedHit(id="a", score=1.0, contributions=())
    with pytest.raises(AttributeError):
        hit.score = 0.5
