"""Fusion: the assertions repeat the arithmetic, and all methods keep the same contract."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import Hit, linear_fusion, reciprocal_rank_fusion
from toolrank._fusion import FusedScores
from toolrank.errors import RankingArgumentError

by_strength = partial(linear_fusion, units={"bm25": 0.5})

FUSIONS = [
    pytest.param(reciprocal_rank_fusion, id="rrf"),
    pytest.param(partial(reciprocal_rank_fusion, rrf_k=0), id="rrf_k=0"),
    pytest.param(linear_fusion, id="linear"),
    pytest.param(by_strength, id="linear by strength"),
]

every_fusion = pytest.mark.parametrize("fuse", FUSIONS)

numbers = st.floats(allow_nan=False, allow_infinity=False)
hits = st.lists(
    st.builds(Hit, id=st.sampled_from("abcdefgh"), score=numbers),
    unique_by=lambda hit: hit.id,
).map(lambda found: sorted(found, key=lambda hit: (-hit.score, hit.id)))
rankings = st.dictionaries(st.sampled_from(["bm25", "vector", "fuzzy"]), hits)
unknowns = st.dictionaries(
    st.sampled_from(["bm25", "vector", "unknown"]), st.sets(st.sampled_from("abcdefghx"))
)
positive = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
weights = st.dictionaries(st.sampled_from(["bm25", "vector", "fuzzy", "unknown"]), positive)


def ranking(*pairs):
    return [Hit(id=id_, score=score) for id_, score in pairs]


def lowest(lists):
    """Return the floors of truncated lists: their last scores."""
    return {name: found[-1].score for name, found in lists.items() if found}


LISTS = {
    "bm25": ranking(("a", 8.0), ("b", 2.0)),
    "vector": ranking(("b", 0.5), ("c", 0.4), ("d", -0.3)),
}


def test_reciprocal_rank_fusion_adds_reciprocal_ranks():
    fused = reciprocal_rank_fusion(
        {
            "bm25": ranking(("a", 9.0), ("b", 5.0), ("c", 1.0)),
            "vector": ranking(("b", 0.9), ("d", 0.8)),
        }
    )
    most = 1 / 61 + 1 / 61
    assert fused.scores == pytest.approx(
        {
            "b": (1 / 62 + 1 / 61) / most,
            "a": (1 / 61) / most,
            "d": (1 / 62) / most,
            "c": (1 / 63) / most,
        }
    )
    assert [hit.id for hit in fused.ranking()] == ["b", "a", "d", "c"]


def test_linear_fusion_is_the_weighted_mean_of_scores_divided_by_their_best():
    fused = linear_fusion(LISTS, weights={"bm25": 1.0, "vector": 3.0})
    assert fused.scores == pytest.approx(
        {"b": (0.25 + 3 * 1.0) / 4, "c": 3 * 0.8 / 4, "a": 1 / 4, "d": 0.0}
    )
    assert fused.floor == 0


def test_linear_fusion_by_strength_divides_by_the_sum_of_the_best_scores():
    fused = linear_fusion(LISTS, weights={"bm25": 1.0, "vector": 3.0}, units={"bm25": 0.03})
    most = 0.03 * 8.0 + 3 * 0.5
    assert fused.scores == pytest.approx(
        {
            "b": (0.03 * 2.0 + 3 * 0.5) / most,
            "c": 3 * 0.4 / most,
            "a": 0.03 * 8.0 / most,
            "d": 0.0,
        }
    )


@pytest.mark.parametrize(
    ("units", "shares"),
    [
        # bm25: the floor is 1 and the best score 8; vector: 0.4 and 0.5
        (None, {"a": 8 / 8 + 0.4 / 0.5, "b": 2 / 8 + 1, "c": 1 / 8 + 0.45 / 0.5, "": 1 / 8 + 0.8}),
        ({"bm25": 0.1}, {"a": 0.8 + 0.4, "b": 0.2 + 0.5, "c": 0.1 + 0.45, "": 0.1 + 0.4}),
    ],
)
def test_a_missing_candidate_gets_the_lists_floor(units, shares):
    lists = {
        "bm25": ranking(("a", 8.0), ("b", 2.0)),
        "vector": ranking(("b", 0.5), ("c", 0.45)),
    }
    fused = linear_fusion(lists, floors={"bm25": 1.0, "vector": 0.4}, units=units)
    most = 2 if units is None else 0.1 * 8 + 0.5
    none = shares.pop("")
    assert fused.scores == pytest.approx({id_: share / most for id_, share in shares.items()})
    assert (fused.floor, fused.of("nowhere")) == pytest.approx((none / most, none / most))
    assert fused.of("a") == fused.scores["a"]


@pytest.mark.parametrize(
    ("units", "most", "estimate"),
    [
        # By words, a has the best score and c a quarter of it, so by meaning they are placed all of
        # the way and a quarter of the way from 0.3 to 0.5.
        (None, 2, {"a": 8 / 8 + 0.5 / 0.5, "c": 2 / 8 + 0.35 / 0.5}),
        ({"bm25": 0.1}, 0.1 * 8 + 0.5, {"a": 0.1 * 8 + 0.5, "c": 0.1 * 2 + 0.35}),
    ],
)
def test_an_unjudged_candidate_is_placed_between_floor_and_best(units, most, estimate):
    lists = {
        "bm25": ranking(("a", 8.0), ("b", 4.0), ("c", 2.0)),
        "vector": ranking(("b", 0.5), ("d", 0.3)),
    }
    given = {"floors": {"vector": 0.3}, "units": units}
    fused = linear_fusion(lists, missing={"vector": {"a", "c", "nowhere"}}, **given)
    assert {id_: fused.of(id_) for id_ in estimate} == pytest.approx(
        {id_: share / most for id_, share in estimate.items()}
    )
    as_before = linear_fusion(lists, **given)
    judged = ("b", "d", "")
    assert [fused.of(id_) for id_ in judged] == [as_before.of(id_) for id_ in judged]
    assert "nowhere" not in fused.scores


def test_reciprocal_rank_fusion_gives_an_unjudged_candidate_the_share_of_other_lists():
    lists = {"bm25": ranking(("a", 8.0), ("b", 4.0)), "vector": ranking(("b", 0.5))}
    fused = reciprocal_rank_fusion(lists, missing={"vector": {"a"}}, rrf_k=1)
    assert fused.scores == pytest.approx({"a": 1.0, "b": (1 / 3 + 1 / 2) / (1 / 2 + 1 / 2)})


@pytest.mark.parametrize("fuse", [linear_fusion, by_strength])
def test_linear_fusion_ignores_a_list_without_positive_scores(fuse):
    fused = fuse({"vector": ranking(("a", -0.1), ("b", -0.2))}, floors={"vector": -0.2})
    assert fused == FusedScores({"a": 0.0, "b": 0.0}, 0.0)


@pytest.mark.parametrize("fuse", [reciprocal_rank_fusion, linear_fusion])
def test_an_empty_list_lowers_the_scores(fuse):
    """A retriever that finds nothing is evidence against the hits of the others."""
    alone = fuse({"bm25": ranking(("a", 7.0))})
    doubted = fuse({"bm25": ranking(("a", 7.0)), "vector": []})
    assert (alone.of("a"), doubted.of("a")) == pytest.approx((1.0, 0.5))


def test_linear_fusion_by_strength_ignores_an_empty_list():
    assert by_strength({"bm25": ranking(("a", 7.0)), "vector": []}).of("a") == 1.0


@every_fusion
def test_fusing_nothing_returns_nothing(fuse):
    nothing = FusedScores({}, 0.0)
    assert fuse({}) == nothing
    assert fuse({"bm25": []}) == nothing
    assert fuse({"bm25": ranking(("a", 1.0))}, weights={"bm25": 0.0}) == nothing
    assert nothing.ranking() == []


@every_fusion
@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
def test_a_weight_must_be_a_finite_number_of_zero_or_more(fuse, weight):
    with pytest.raises(RankingArgumentError, match="'bm25' has weight") as caught:
        fuse({"bm25": ranking(("a", 1.0))}, weights={"bm25": weight})
    assert caught.value.argument == "weights"
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_a_unit_and_k_must_be_finite_numbers_of_zero_or_more(value):
    with pytest.raises(RankingArgumentError, match="units: 'bm25'"):
        linear_fusion({"bm25": ranking(("a", 1.0))}, units={"bm25": value})
    with pytest.raises(RankingArgumentError, match="rrf_k"):
        reciprocal_rank_fusion({"bm25": ranking(("a", 1.0))}, rrf_k=value)


@every_fusion
@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e300, 1.7e308])
def test_only_the_proportions_of_weights_count(fuse, weight):
    lists = {"bm25": ranking(("a", 2.0), ("b", 1.0)), "vector": ranking(("b", 0.9), ("c", 0.8))}
    assert fuse(lists, weights=dict.fromkeys(lists, weight)) == fuse(lists)


@every_fusion
@given(lists=rankings, weights=weights, are_cut=st.booleans(), missing=unknowns)
def test_fused_hits_are_unique_and_ordered_by_score_then_id(fuse, lists, weights, are_cut, missing):
    on = {name: found for name, found in lists.items() if weights.get(name, 1.0) > 0}
    floors = lowest(lists) if are_cut else None
    fused = fuse(lists, weights=weights, floors=floors, missing=missing)
    assert set(fused.scores) == {hit.id for found in on.values() for hit in found}
    ranked = fused.ranking()
    assert {hit.id: hit.score for hit in ranked} == fused.scores
    assert [(-hit.score, hit.id) for hit in ranked] == sorted((-h.score, h.id) for h in ranked)
    assert all(0.0 <= fused.floor <= hit.score <= 1.0 for hit in ranked)


@every_fusion
@given(lists=rankings, weights=weights)
def test_a_list_with_weight_zero_is_ignored(fuse, lists, weights):
    without = {name: found for name, found in lists.items() if name != "bm25"}
    assert fuse(lists, weights=weights | {"bm25": 0.0}) == fuse(without, weights=weights)


@every_fusion
@given(lists=rankings, weights=weights, missing=unknowns, shuffled=st.randoms())
def test_the_order_of_lists_does_not_matter(fuse, lists, weights, missing, shuffled):
    names = list(lists)
    shuffled.shuffle(names)
    given = {"weights": weights, "floors": lowest(lists), "missing": missing}
    assert fuse({name: lists[name] for name in names}, **given) == fuse(lists, **given)


@given(
    lists=st.dictionaries(
        st.sampled_from(["bm25", "vector"]),
        st.lists(
            st.builds(Hit, id=st.sampled_from("abcdefgh"), score=st.floats(0, 100)),
            unique_by=lambda hit: hit.id,
        ),
        min_size=1,
    ),
    scores=st.lists(st.floats(0, 100), min_size=2, max_size=2),
)
def test_linear_fusion_by_strength_keeps_the_order_when_a_candidate_is_added(lists, scores):
    """Whatever its score, a new candidate changes only the divisor, which is the same for all.

    With fusion by maximum, this holds only if the new candidate is not the best of a list; with
    fusion by ranks, only if it is behind the others in every list.
    """
    more = {
        name: [*found, Hit(id="new", score=score)]
        for (name, found), score in zip(lists.items(), scores, strict=False)
    }
    before, after = by_strength(lists), by_strength(more)
    for one, score in before.scores.items():
        for other, lower in before.scores.items():
            # If they are closer than this, rounding decides.
            if score > lower + 1e-9:
                assert after.of(one) >= after.of(other)
